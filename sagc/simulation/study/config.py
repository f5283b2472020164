"""What config/study.yaml says."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from sagc.config.reading import describe, read_yaml
from sagc.config.sections import Name, Strict, TypeOfGroup
from sagc.controllers.protocol import GroupSizeController
from sagc.controllers.registry import build_controller, known_to
from sagc.errors import UserError
from sagc.simulation.config import ClusterConfig, LognormalConfig
from sagc.system.paths import FolderPath

Delta = Annotated[float, Field(gt=0, lt=1)]
Parameter = Literal["tau", "delta", "eta", "rho", "integral_gain", "hysteresis"]


class Workload(Strict):
    """Lengths with a budget."""

    delta: Delta
    change: int | None = Field(None, ge=1, description="First step, from 0, of other lengths.")
    lengths: LognormalConfig


class Sensitivity(Strict):
    """One parameter at a time."""

    seeds: int = Field(10, ge=1)
    workloads: list[Name] = Field(min_length=1)
    parameters: dict[Parameter, list[float]]


class Variants(Strict):
    """Other parameters of sagc-robust."""

    seeds: int = Field(10, ge=1)
    prompts: list[Annotated[int, Field(ge=1)]] = Field(min_length=1)
    parameters: dict[str, dict[str, Any]]


class Savings(Strict):
    """Where a changing size pays: tails x prompts per engine x KV caches."""

    steps: int = Field(60, ge=1)
    engines: int = Field(4, ge=1)
    delta: Delta
    static: list[int] = Field(min_length=2, description="Sizes in increasing order; the last is compared with.")
    prompts_per_engine: list[Annotated[int, Field(ge=1)]] = Field(min_length=1)
    kv_tokens: list[int | None] = Field(min_length=1)
    tails: dict[Name, LognormalConfig]


class StudyConfig(Strict):
    """The whole study."""

    results: FolderPath
    steps: int = Field(300, ge=1)
    prompts: int = Field(16, ge=1)
    seeds: int = Field(20, ge=2)
    tau: float = Field(2.0, gt=1)
    arms: list[TypeOfGroup] = Field(min_length=1)
    cluster: ClusterConfig
    workloads: dict[Name, Workload]
    sensitivity: Sensitivity
    variants: Variants
    savings: Savings

    @model_validator(mode="after")
    def _names_are_known(self):
        if unknown := set(self.sensitivity.workloads) - set(self.workloads):
            raise ValueError(f"sensitivity.workloads has {', '.join(sorted(unknown))}, which workloads lacks")
        if self.savings.static != sorted(set(self.savings.static)):
            raise ValueError(f"savings.static is {self.savings.static}, and must increase")
        return self


def load_study(path: str | Path) -> StudyConfig:
    """Read and validate the config. Raises UserError: one sentence with the key, the value and what is allowed."""
    return validate_study(read_yaml(path), str(path))


def validate_study(raw: dict, source: str) -> StudyConfig:
    """As `load_study`, of a mapping."""
    try:
        return StudyConfig.model_validate(raw)
    except ValidationError as error:
        raise UserError(f"{source}: {describe(error, StudyConfig)}") from None


def build_arm(arm: int | str, seed: int, *, delta: float, tau: float, **parameters) -> GroupSizeController:
    """A fresh controller of an arm. Raises UserError where a parameter is refused."""
    if isinstance(arm, int):
        kind, parameters = "static", {"group_size": arm, "tau": tau}
    else:
        kind, parameters = arm, parameters | {"delta": delta, "tau": tau} | known_to(arm, seed=seed)
    try:
        return build_controller(kind, **parameters)
    except (TypeError, ValueError) as error:
        raise UserError(f"arm {arm}: {error}") from None
