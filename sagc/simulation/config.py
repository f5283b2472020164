"""What `sagc simulate` reads: a YAML file with the lengths, the machines and the arms of a simulation.

`config/simulation.yaml` describes every key. The study (config/study.yaml) is made of the same sections.
"""

from __future__ import annotations

import itertools
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from sagc.config.reading import describe
from sagc.config.sections import StragglerConfig, Strict, TypeOfGroup
from sagc.controllers.protocol import GroupSizeController
from sagc.controllers.registry import CONTROLLED, build_controller, known_to
from sagc.errors import UserError
from sagc.simulation.calibration import Misfit, held_out_misfit, read_runs
from sagc.simulation.lengths import Lengths, LognormalLengths, Shape, TraceLengths
from sagc.simulation.step_time import StepTime, fit_step_time
from sagc.simulation.steps import Cluster
from sagc.system.paths import ExpandedPath

Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]


class Point(Strict):
    """The shape of the lengths at a step; what is left out is as at the point before."""

    step: int = Field(0, ge=0)
    median: Positive | None = None
    prompt_spread: NotNegative | None = None
    response_spread: NotNegative | None = None
    tail_weight: float | None = Field(None, ge=0, le=1)
    tail_index: Positive | None = None


class LognormalConfig(Strict):
    """Lengths of a distribution, see `sagc.simulation.lengths.LognormalLengths`."""

    type: Literal["lognormal"]
    shortest: int = Field(4, ge=1, description="Tokens.")
    longest: int = Field(600, ge=2, description="Tokens; longer responses are cut off.")
    points: list[Point] = Field([Point()], min_length=1, description="Shapes, linear in between.")

    @model_validator(mode="after")
    def _in_order(self):
        steps = [point.step for point in self.points]
        if steps[0] != 0 or any(a >= b for a, b in itertools.pairwise(steps)):
            raise ValueError(f"points are at the steps {steps}, and must begin at 0 and increase")
        if self.shortest > self.longest:
            raise ValueError(f"shortest is {self.shortest}, above longest, {self.longest}")
        return self

    def build(self, steps: int) -> LognormalLengths:
        values, points = vars(Shape()), []
        for point in self.points:
            values = values | point.model_dump(exclude={"step"}, exclude_none=True)
            points.append((point.step, Shape(**values)))
        return LognormalLengths(tuple(points), self.shortest, self.longest)


class TraceLengthsConfig(Strict):
    """Lengths of real runs, see `sagc.simulation.lengths.TraceLengths`."""

    type: Literal["traces"]
    runs: list[ExpandedPath] = Field(min_length=1, description="Run folders with groups as large as the largest arm's.")

    def build(self, steps: int) -> TraceLengths:
        return TraceLengths(read_runs(self.runs)[0], steps)


LengthsConfig = Annotated[LognormalConfig | TraceLengthsConfig, Field(discriminator="type")]


class GivenCosts(Strict):
    """Seconds per unit of work, see `sagc.simulation.step_time.StepTime`."""

    type: Literal["given"]
    batching: Literal["continuous", "padded"] = "continuous"
    per_round: NotNegative = 0.0
    per_position: NotNegative
    per_row: NotNegative
    per_step: NotNegative = 0.0
    per_trained_token: NotNegative
    sync: NotNegative = 0.0

    def build(self) -> tuple[StepTime, None]:
        return StepTime(**self.model_dump(exclude={"type"})), None


class FittedCosts(Strict):
    """Costs fitted to the timings of real runs on one machine, of different group sizes if possible."""

    type: Literal["fitted"]
    runs: list[ExpandedPath] = Field(min_length=1, description="Run folders.")

    def build(self) -> tuple[StepTime, Misfit]:
        traces, batching = read_runs(self.runs)
        records = [record for trace in traces for record in trace]
        return fit_step_time(records, batching), held_out_misfit(traces, batching)


CostsConfig = Annotated[GivenCosts | FittedCosts, Field(discriminator="type")]


class ClusterConfig(Strict):
    """The machines, see `sagc.simulation.steps.Cluster`."""

    engines: int = Field(1, ge=1, description="Inference engines.")
    prompt_tokens: int = Field(0, ge=0, description="Tokens of every prompt.")
    max_running: int | None = Field(None, ge=1, description="Sequences that an engine runs at most.")
    kv_tokens: int | None = Field(None, ge=1, description="Tokens in an engine's KV cache at most.")
    per_prefilled_token: NotNegative = Field(0.0, description="Seconds.")
    costs: CostsConfig

    @model_validator(mode="after")
    def _padded_rows_never_wait(self):
        if getattr(self.costs, "batching", None) == "padded" and (self.max_running or self.kv_tokens):
            raise ValueError("max_running and kv_tokens limit continuous batching, and costs.batching is padded")
        return self

    def build(self) -> tuple[Cluster, Misfit | None]:
        """The cluster, and how well fitted costs predict steps that they were not fitted to."""
        costs, misfit = self.costs.build()
        if costs.batching == "padded" and (self.max_running or self.kv_tokens):
            raise UserError("max_running and kv_tokens limit continuous batching, and the runs' rows are padded")
        return Cluster(costs, **self.model_dump(exclude={"costs"})), misfit


class SimulationConfig(Strict):
    """A simulation: arms over the same lengths and machines."""

    steps: int = Field(300, ge=1)
    prompts: int = Field(16, ge=1, description="Per step, P.")
    seed: int = Field(0, ge=0)
    arms: list[TypeOfGroup] = Field([4, 8, 16, *CONTROLLED], min_length=1)
    straggler: StragglerConfig = StragglerConfig()
    controllers: dict[Literal[CONTROLLED], dict[str, Any]] = Field({})
    lengths: LengthsConfig
    cluster: ClusterConfig

    @model_validator(mode="after")
    def _a_sequence_fits_the_cache(self):
        cluster, longest = self.cluster, getattr(self.lengths, "longest", 0)
        if cluster.kv_tokens is not None and cluster.prompt_tokens + longest > cluster.kv_tokens:
            raise ValueError(
                f"cluster.kv_tokens is {cluster.kv_tokens}, and cluster.prompt_tokens + lengths.longest = "
                f"{cluster.prompt_tokens + longest} tokens of a sequence must fit"
            )
        return self

    def controller(self, arm: int | str, seed: int) -> GroupSizeController:
        """A fresh controller of an arm. Raises UserError where a parameter is refused."""
        straggler = self.straggler.model_dump()
        try:
            if isinstance(arm, int):
                return build_controller("static", group_size=arm, **straggler)
            return build_controller(arm, **straggler | known_to(arm, seed=seed) | self.controllers.get(arm, {}))
        except (TypeError, ValueError) as error:
            raise UserError(f"arm {arm}: {error}") from None

    def build_lengths(self) -> Lengths:
        """The lengths. Raises UserError where traces have too small groups for an arm."""
        lengths = self.lengths.build(self.steps)
        if isinstance(lengths, TraceLengths):
            for arm in self.arms:
                if (largest := self.controller(arm, 0).ladder[-1]) > lengths.largest:
                    raise UserError(f"arm {arm} may ask for groups of {largest}, and the traces have {lengths.largest}")
        return lengths


def validate_simulation(raw: dict[str, Any], source: str) -> SimulationConfig:
    """Validate a mapping. Raises UserError: one sentence with the key, the value and what is allowed."""
    try:
        config = SimulationConfig.model_validate(raw)
    except ValidationError as error:
        raise UserError(f"{source}: {describe(error, SimulationConfig)}") from None
    for arm in config.arms:
        config.controller(arm, config.seed)
    return config
