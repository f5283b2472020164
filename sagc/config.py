"""What a run is: the configuration of a grid and of one run, validated, resolved and hashed.

A `GridConfig` is what a YAML file in config/ says; `GridConfig.run` resolves one cell of it into a `RunConfig`, which
is all that a training job needs to know. `RunConfig.hash` names the training run: what changes the weights is in it.
Defaults that the paper does not give are marked [ours] in config/README.md.
"""

import hashlib
import itertools
import json
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, Field, ValidationError, field_validator, model_serializer

from sagc.controller import GroupSizeController, build_controller
from sagc.errors import UserError
from sagc.paths import FolderPath
from sagc.rewards import REWARDS
from sagc.sections import (
    CONTROLLED,
    AlgorithmConfig,
    Axes,
    DataConfig,
    EvaluationConfig,
    Group,
    JobsConfig,
    LoggingConfig,
    ModelConfig,
    Name,
    OpenRLHFConfig,
    OpenRLHFProfile,
    Stack,
    StragglerConfig,
    Strict,
    TinyDataConfig,
    TrainingConfig,
)


class Cell(Strict):
    """One run of the grid by the names of its parts."""

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

    `seeds` are apart for the three sources of chance: data (order of the prompts), rollout (sampling of responses) and
    controller (Thompson draws); all derive from the cell's seed.
    """

    cell: Cell
    model: ModelConfig
    algorithm: AlgorithmConfig
    straggler: StragglerConfig
    controller: dict[str, Any] = Field(
        description="Type of the controller and all its keyword arguments, but for the seed, which is the run's."
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
        """16 hexadecimal digits that name the training run."""
        canonical = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]

    @property
    def micro_batches(self) -> int:
        """Gradient accumulation steps per optimizer step, on the machine that the run uses."""
        return (self.openrlhf and self.openrlhf.micro_batches) or self.training.micro_batches

    @property
    def seeds(self) -> dict[str, int]:
        """Independent seeds for data, rollout and controller."""
        digest = hashlib.sha256(f"sagc seed {self.cell.seed}".encode()).digest()
        parts = (int.from_bytes(digest[i : i + 4], "big") >> 1 for i in (0, 4, 8))
        return dict(zip(("data", "rollout", "controller"), parts, strict=True))

    def build_controller(self) -> GroupSizeController:
        """A fresh controller of this run; raises UserError where a parameter is refused."""
        kind, parameters = controller_type(self.cell.group, self.controller)
        if kind == "sagc":
            parameters["seed"] = self.seeds["controller"]
        return _build(self.cell.group, kind, parameters)


def controller_type(group: int | str, controller: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The type of a run's controller, and its keyword arguments, from the run's `cell.group` and `controller`.

    Runs of older versions have a type only where the group is no type itself.
    """
    parameters = dict(controller)
    named = parameters.pop("type", group)
    return ("static" if str(group).isdecimal() else named), parameters


def _resolve_controller(group: int | str, controller: dict[str, Any]) -> dict[str, Any]:
    """Its type and every parameter as the constructor takes it, defaults included: another default is another run."""
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


class GridConfig(Strict):
    """A whole experiment: the axes of the grid and the catalogue that their names refer to."""

    results: FolderPath = Field("results", description="Folder that the runs and tables are written to.")
    grid: Axes
    include: list[Cell] = Field([], description="Runs beside the product of the axes.")
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
        """Seed of the embedded task's problems, which the evaluation has whatever the training data."""
        return self.data.seed if self.data.type == "tiny" else 0

    def cells(self) -> list[Cell]:
        """Every run of the grid, in the order of the axes, without repeats."""
        axes = self.grid
        product = itertools.product(axes.models, axes.algorithms, axes.stacks, axes.groups, axes.seeds)
        names = ("model", "algorithm", "stack", "group", "seed")
        cells = [Cell(**dict(zip(names, values, strict=True))) for values in product] + list(self.include)
        return list({cell.path: cell for cell in cells}.values())

    def run(self, cell: Cell) -> RunConfig:
        """Resolve one cell; raises UserError for a name that the catalogue lacks."""
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
            controller=_resolve_controller(cell.group, controller),
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


def check_divisible(run: RunConfig, processes: int = 1, whole_groups: bool = True) -> None:
    """Refuse batch shapes that would lose samples at some size of the ladder.

    Every rollout's responses are split evenly over processes, optimizer steps and micro batches. With `whole_groups` a
    group never straddles two processes, as where the one that generates it also trains on it. Raises UserError that
    names the key.
    """
    training, controller = run.training, run.build_controller()
    parts = training.optimizer_steps * run.micro_batches
    key = "training.micro_batches" if run.micro_batches == training.micro_batches else "the profile's micro_batches"
    several = f" x {processes} processes" if processes > 1 else ""
    for size in controller.ladder:
        if training.hold == "samples":
            unit = size * processes if whole_groups else size
            if training.samples_per_step % unit:
                raise UserError(
                    f"training.samples_per_step is {training.samples_per_step}, which is no multiple of "
                    f"group size {size}" + (several if whole_groups else "")
                )
        prompts = training.prompts_at(size)
        if whole_groups and prompts % processes:
            raise UserError(f"training.prompts_per_step is {prompts}, which is no multiple of {processes} processes")
        if prompts * size % (processes * parts):
            raise UserError(
                f"training.optimizer_steps x {key} is {parts}, which{several} does not divide the "
                f"{prompts * size} responses at group size {size}"
            )


def check_prompts(run: RunConfig, count: int) -> None:
    """Refuse training data of `count` prompts where a rollout at some size of the ladder would hold one of them twice.

    Raises UserError that names the key.
    """
    key = "samples_per_step" if run.training.hold == "samples" else "prompts_per_step"
    for size in run.build_controller().ladder:
        if (prompts := run.training.prompts_at(size)) > count:
            raise UserError(
                f"training.{key} is {getattr(run.training, key)}, which asks for {prompts} prompts per rollout at "
                f"group size {size}, and the training data holds {count}"
            )


def load_grid(path: str | Path) -> GridConfig:
    """Read and validate a YAML config. Raises UserError: one sentence with the key, the value and what is allowed."""
    return validate_grid(read_yaml(path), source=str(path))


def read_yaml(path: str | Path) -> dict[str, Any]:
    """The mapping that a YAML file holds. Raises UserError: one sentence with the line where it stops being YAML."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise UserError(f"config file {path} cannot be read: {reason}") from None
    try:
        return _mapping(yaml.safe_load(text), str(path))
    except (yaml.YAMLError, ValueError) as error:  # ValueError: what looks like a date and is none
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        reason = getattr(error, "problem", None) or getattr(error, "reason", None) or error
        raise UserError(f"config file {path} is not valid YAML{where}: {reason}") from None


def validate_grid(raw: Any, source: str = "config") -> GridConfig:
    """Validate a config that is already a dictionary, down to the controller of every run."""
    try:
        grid = GridConfig.model_validate(_mapping(raw, source))
    except ValidationError as error:
        raise UserError(f"{source}: {describe(error, GridConfig)}") from None
    cells = grid.cells()
    if not cells:
        raise UserError(f"{source}: grid has no runs, because an axis is empty and include is too")
    try:
        _lookup("reward", grid.reward, REWARDS)
        for cell in cells:
            grid.run(cell)
    except UserError as error:
        raise UserError(f"{source}: {error}") from None
    return grid


def _mapping(raw: Any, source: str) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise UserError(f"{source} must be a mapping of keys to values, not {type(raw).__name__}")
    return raw


def describe(error: ValidationError, model: type[BaseModel]) -> str:
    """The first problem that pydantic found in a model, as one sentence, and how many more there are."""
    problems = error.errors(include_url=False)
    first = problems[0]
    path, beside = _locate(first["loc"], model)
    key = ".".join(path) or "config"
    if first["type"] == "extra_forbidden":
        sentence = f"unknown key {key}; allowed here are {', '.join(beside)}"
    elif first["type"] == "missing":
        sentence = f"key {key} is missing"
    elif first["type"] == "union_tag_not_found":
        sentence = f"key {key}.type is missing"
    else:
        message = first["msg"].removeprefix("Value error, ")
        value = "" if isinstance(first["input"], dict) else f" is {_short(first['input'])}"
        sentence = f"{key}{value}: {message[0].lower()}{message[1:]}"
    return sentence + (f" (and {len(problems) - 1} more)" if len(problems) > 1 else "")


def _locate(location: tuple[str | int, ...], model: type[BaseModel]) -> tuple[list[str], list[str]]:
    """A location of pydantic's as the keys of the YAML, and the keys that the last one's section has."""
    schema = model.model_json_schema()
    node, path = schema, []
    for part in (part for part in location if part != "[key]"):
        beside = list(node.get("properties", {}))
        if "discriminator" in node:  # pydantic adds the kind of the section to the location
            node = {"$ref": node["discriminator"]["mapping"][part]}
        else:
            path.append(str(part))
            named = node.get("patternProperties", {})  # keys are names that the user chooses
            node = node.get("properties", {}).get(part) or next(iter(named.values()), {}) or node.get("items", {})
        if "anyOf" in node:  # an optional section
            node = next(option for option in node["anyOf"] if option.get("type") != "null")
        if "$ref" in node:
            node = schema["$defs"][node["$ref"].rpartition("/")[2]]
    return path, beside if location else []


def _short(value: Any, limit: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _check_type(name: str, parameters: dict[str, Any]) -> None:
    """Refuse an entry of `controllers` that does not say what it is."""
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
