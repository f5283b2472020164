"""The configuration of a grid, validated and resolved into runs.

A `GridConfig` is the content of a YAML file in config/; `GridConfig.run` resolves one cell of it into a `RunConfig`,
which is all a training job needs. `RunConfig.hash` identifies the training run: it covers everything that changes the
weights. Defaults that the paper does not give are marked [ours] in config/README.md.
"""

import itertools
from typing import Any

from pydantic import Field, ValidationError, field_validator

from sagc.config.batches import check_divisible
from sagc.config.reading import describe, mapping
from sagc.config.run import Cell, RunConfig, resolve_controller
from sagc.config.sections import (
    AlgorithmConfig,
    Axes,
    DataConfig,
    EvaluationConfig,
    JobsConfig,
    LoggingConfig,
    ModelConfig,
    Name,
    OpenRLHFConfig,
    OpenRLHFProfile,
    StragglerConfig,
    Strict,
    TinyDataConfig,
    TrainingConfig,
)
from sagc.controllers.registry import CONTROLLED
from sagc.errors import UserError
from sagc.rewards.registry import REWARDS
from sagc.system.paths import FolderPath


class GridConfig(Strict):
    """A whole experiment: the axes of the grid and the catalogue that their names refer to."""

    results: FolderPath = Field("results", description="Folder for the runs and tables.")
    grid: Axes
    include: list[Cell] = Field([], description="Runs in addition to the product of the axes.")
    models: dict[Name, ModelConfig]
    algorithms: dict[Name, AlgorithmConfig]
    straggler: StragglerConfig = StragglerConfig()
    controllers: dict[Name, dict[str, Any]] = Field({})
    training: TrainingConfig = TrainingConfig()
    data: DataConfig = TinyDataConfig(type="tiny")
    reward: Name = "tiny"
    openrlhf: OpenRLHFConfig = OpenRLHFConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    logging: LoggingConfig = LoggingConfig()
    jobs: JobsConfig = JobsConfig()

    @field_validator("include", mode="before")
    @classmethod
    def _include_may_be_empty(cls, value):
        return [] if value is None else value

    @field_validator("controllers")
    @classmethod
    def _one_definition_for_every_arm(cls, value):
        for name, parameters in value.items():
            _check_type(name, parameters)
            for key in ("tau", "event", "seed"):
                if key in parameters:
                    raise ValueError(f"{name}.{key} is not set here: tau and event are in straggler, seeds in grid")
        return value

    @property
    def problems_seed(self) -> int:
        """Seed of the embedded task's problems, which the evaluation can use whatever the training data."""
        return self.data.seed if self.data.type == "tiny" else 0

    def cells(self) -> list[Cell]:
        """All runs of the grid, in the order of the axes, without repeats."""
        axes = self.grid
        product = itertools.product(axes.models, axes.algorithms, axes.stacks, axes.groups, axes.seeds)
        names = ("model", "algorithm", "stack", "group", "seed")
        cells = [Cell(**dict(zip(names, values, strict=True))) for values in product] + list(self.include)
        return list({cell.path: cell for cell in cells}.values())

    def run(self, cell: Cell) -> RunConfig:
        """Resolve one cell.

        Raises
        ------
        UserError
            If the catalogue lacks a name, or the resolved run is invalid.
        """
        model = _lookup("model", cell.model, self.models)
        algorithm = _lookup("algorithm", cell.algorithm, self.algorithms)
        straggler = self.straggler.model_dump()
        if isinstance(cell.group, int):
            controller = {"group_size": cell.group, **straggler}
        else:
            known = {name: {} for name in CONTROLLED} | self.controllers  # {}: the library's defaults
            if cell.group not in known:
                raise UserError(f"unknown group {cell.group!r}; a group is a size, or one of {', '.join(known)}")
            controller = {**straggler, **known[cell.group]}
        run = RunConfig(
            cell=cell,
            model=model,
            algorithm=algorithm,
            straggler=self.straggler,
            controller=resolve_controller(cell.group, controller),
            training=self.training,
            data=self.data,
            reward=self.reward,
            openrlhf=self._profile() if cell.stack == "openrlhf" else None,
        )
        processes = run.openrlhf.nodes * run.openrlhf.actors if run.openrlhf else max(1, self.jobs.train.gpus)
        check_divisible(run, processes, whole_groups=run.openrlhf is None)
        return run

    def _profile(self) -> OpenRLHFProfile:
        return _lookup("openrlhf.profile", self.openrlhf.profile, self.openrlhf.profiles)


def validate_grid(raw: Any, source: str = "config") -> GridConfig:
    """Validate the content of a config, down to the controller of every run.

    Raises
    ------
    UserError
        If it is invalid: one sentence with the source, the key, the value and what is allowed.
    """
    try:
        grid = GridConfig.model_validate(mapping(raw, source))
    except ValidationError as error:
        raise UserError(f"{source}: {describe(error, GridConfig)}") from None
    cells = grid.cells()
    if not cells:
        raise UserError(f"{source}: grid has no runs, because an axis is empty and so is include")
    try:
        _lookup("reward", grid.reward, REWARDS)
        for cell in cells:
            grid.run(cell)
    except UserError as error:
        raise UserError(f"{source}: {error}") from None
    return grid


def _check_type(name: str, parameters: dict[str, Any]) -> None:
    """Refuse an entry of `controllers` without a valid type."""
    types = " or ".join(CONTROLLED)
    if name.isdecimal():
        raise ValueError(f"{name} is a static group size, which has no parameters")
    if name in CONTROLLED and "type" in parameters:
        raise ValueError(f"{name}.type is not set here: {name} is a type itself")
    if name not in CONTROLLED and parameters.get("type") not in CONTROLLED:
        raise ValueError(f"{name}.type is {parameters.get('type')!r}: a controller of another name has type {types}")


def _lookup(kind: str, name: str, catalogue: dict[str, Any]) -> Any:
    if name not in catalogue:
        raise UserError(f"unknown {kind} {name!r}; {kind}s are {', '.join(sorted(catalogue)) or 'none'}")
    return catalogue[name]
