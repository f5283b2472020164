"""One resolved training run: all a training job needs to know, and the hash that identifies it."""

import hashlib
import json
from typing import Any

from pydantic import Field, model_serializer

from sagc.config.sections import (
    AlgorithmConfig,
    DataConfig,
    Group,
    ModelConfig,
    Name,
    OpenRLHFProfile,
    Stack,
    StragglerConfig,
    Strict,
    TrainingConfig,
)
from sagc.controllers.protocol import GroupSizeController
from sagc.controllers.registry import build_controller, known_to
from sagc.errors import UserError


class Cell(Strict):
    """One run of the grid, given by the names of its parts."""

    model: Name
    algorithm: Name
    stack: Stack
    group: Group
    seed: int = Field(ge=0)

    @property
    def path(self) -> str:
        """The run's folder below the results folder."""
        return f"{self.model}/{self.algorithm}/{self.stack}/{self.group}/seed{self.seed}"


class RunConfig(Strict):
    """Everything that one training run needs, resolved.

    `seeds` has one seed for each source of randomness: data (order of the prompts), rollout (sampling of responses) and
    controller (Thompson draws); all derive from the cell's seed.
    """

    cell: Cell
    model: ModelConfig
    algorithm: AlgorithmConfig
    straggler: StragglerConfig
    controller: dict[str, Any] = Field(
        description="Type of the controller and all its keyword arguments except the seed, which is the run's."
    )
    training: TrainingConfig
    data: DataConfig
    reward: Name
    openrlhf: OpenRLHFProfile | None = Field(None, description="The machine, for the openrlhf stack.")

    @model_serializer(mode="wrap")
    def _without_the_machine_of_another_stack(self, handler):
        content = handler(self)
        if self.openrlhf is None:
            del content["openrlhf"]
        return content

    @property
    def hash(self) -> str:
        """16 hexadecimal digits that identify the training run."""
        canonical = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]

    @property
    def micro_batches(self) -> int:
        """Gradient accumulation steps per optimizer step, on the run's machine."""
        return (self.openrlhf and self.openrlhf.micro_batches) or self.training.micro_batches

    @property
    def seeds(self) -> dict[str, int]:
        """Independent seeds for data, rollout and controller."""
        digest = hashlib.sha256(f"sagc seed {self.cell.seed}".encode()).digest()
        parts = (int.from_bytes(digest[i : i + 4], "big") >> 1 for i in (0, 4, 8))
        return dict(zip(("data", "rollout", "controller"), parts, strict=True))

    def build_controller(self) -> GroupSizeController:
        """A fresh controller for this run.

        Raises
        ------
        UserError
            If the controller refuses a parameter.
        """
        kind, parameters = controller_type(self.cell.group, self.controller)
        return _build(self.cell.group, kind, parameters | known_to(kind, seed=self.seeds["controller"]))


def controller_type(group: int | str, controller: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The type of a run's controller, and its keyword arguments, from the run's `cell.group` and `controller`.

    Runs of older versions have a type only if the group is not itself a type.
    """
    parameters = dict(controller)
    named = parameters.pop("type", group)
    return ("static" if str(group).isdecimal() else named), parameters


def resolve_controller(group: int | str, controller: dict[str, Any]) -> dict[str, Any]:
    """A controller's type and all its parameters, defaults included: a changed default makes a different run."""
    kind, parameters = controller_type(group, controller)
    resolved = _build(group, kind, parameters).parameters
    resolved.pop("seed", None)
    return {"type": kind, **resolved}


def _build(group: int | str, kind: str, parameters: dict[str, Any]) -> GroupSizeController:
    try:
        return build_controller(kind, **parameters)
    except (TypeError, ValueError) as error:
        where = f"group {group}" if kind == "static" else f"controllers.{group}"
        raise UserError(f"{where}: {error}") from None
