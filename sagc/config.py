"""What a run is: the configuration of a grid and of one run, validated, resolved and hashed.

A `GridConfig` is what a YAML file in config/ says; `GridConfig.run` resolves one cell of it into a `RunConfig`, which
is all that a training job needs to know. `RunConfig.hash` names the training run: what changes the weights is in it.
Defaults that the paper does not give are marked [ours] in config/README.md.
"""

import hashlib
import itertools
import json
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

from sagc.controller import GroupSizeController, build_controller
from sagc.errors import UserError
from sagc.rewards import REWARDS

CONTROLLED = ("sagc", "sagc-robust")  # groups whose size a controller chooses
NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
Name = Annotated[str, Field(pattern=NAME)]


class Strict(BaseModel):
    """A section of the config: unknown keys are errors, and nothing changes after validation."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=(), allow_inf_nan=False)


class WarmStartConfig(Strict):
    """How an embedded model is made from scratch (see sagc/tiny/warm_start.py)."""

    seed: int = Field(0, ge=0, description="Seed of the initial weights and of the synthetic traces.")
    steps: int = Field(0, ge=0, description="Optimizer steps of the supervised warm start; 0 takes the tuned default.")


class TinyModelConfig(Strict):
    """An embedded model of about 0.25 M parameters, warm-started by the DAG."""

    type: Literal["tiny"]
    architecture: Literal["qwen2", "llama"] = Field(description="Architecture of the embedded model.")
    warm_start: WarmStartConfig = WarmStartConfig()


class PretrainedModelConfig(Strict):
    """A pretrained model: a Hugging Face id or a local folder in Hugging Face format."""

    type: Literal["pretrained"]
    path: str = Field(min_length=1, description="Hugging Face model id, or a local folder.")
    revision: str | None = Field(None, description="Commit, tag or branch on the Hub.")
    trust_remote_code: bool = Field(False, description="Run the model repository's own code when loading it.")


ModelConfig = Annotated[TinyModelConfig | PretrainedModelConfig, Field(discriminator="type")]


class DynamicSamplingConfig(Strict):
    """DAPO's dynamic sampling: groups whose rewards are all equal are dropped and replaced."""

    max_rounds: int = Field(4, ge=1, description="Generation rounds per step at most; then train on what there is.")


class OverlongConfig(Strict):
    """DAPO's soft overlong penalty (Yu et al. 2025, eq. 13)."""

    fraction: float = Field(0.25, gt=0, lt=1, description="Last part of the response limit over which it grows.")
    penalty: float = Field(1.0, gt=0, description="Penalty, in reward, at the limit.")


class AlgorithmConfig(Strict):
    """The policy-gradient loss around a group's advantages."""

    loss: Literal["grpo", "dapo"] = Field(description="Loss: mean over sequences (grpo) or over tokens (dapo).")
    clip_low: float = Field(0.2, gt=0, lt=1, description="The probability ratio is clipped below 1 - clip_low.")
    clip_high: float = Field(0.2, gt=0, description="The probability ratio is clipped above 1 + clip_high.")
    kl_coef: float = Field(0.0, ge=0, description="Weight of the KL divergence to the starting policy.")
    dynamic_sampling: DynamicSamplingConfig | None = None
    overlong: OverlongConfig | None = None

    @model_validator(mode="after")
    def _short_rollouts_need_a_token_mean(self):
        if self.dynamic_sampling is not None and self.loss != "dapo":
            raise ValueError(
                f"dynamic_sampling with loss: {self.loss} would weigh the responses of a short rollout wrongly; "
                "use loss: dapo"
            )
        return self


class StragglerConfig(Strict):
    """What a straggler event is: the same for every arm, so that the rates can be compared."""

    tau: float = Field(2.0, gt=1, description="A group is an event when its max length exceeds tau x median length.")
    event: Literal["group", "step"] = Field("group", description="One event per group, or one over the whole step.")


class TrainingConfig(Strict):
    """The training loop, the same for every arm."""

    steps: int = Field(70, ge=1, description="Rollouts (controller steps).")
    prompts_per_step: int = Field(16, ge=1, description="Prompts per rollout, P (hold: prompts).")
    samples_per_step: int | None = Field(None, ge=2, description="Responses per rollout, N = P x G (hold: samples).")
    hold: Literal["prompts", "samples"] = Field("prompts", description="What stays fixed while G changes.")
    optimizer_steps: int = Field(1, ge=1, description="Optimizer steps per rollout; 1 is strictly on-policy.")
    micro_batches: int = Field(1, ge=1, description="Gradient accumulation steps per optimizer step.")
    learning_rate: float = Field(1.5e-4, gt=0)
    lr_schedule: Literal["constant", "linear", "cosine"] = "constant"
    warmup_steps: int = Field(0, ge=0, description="Optimizer steps over which the learning rate rises from zero.")
    max_grad_norm: float = Field(1.0, gt=0)
    temperature: float = Field(1.0, gt=0, description="Sampling temperature of the rollouts.")
    max_response_tokens: int = Field(300, ge=2, description="Response limit in tokens; longer responses are cut off.")
    checkpoint_every: int = Field(20, ge=1, description="Rollouts between checkpoints.")

    @model_validator(mode="after")
    def _samples_belong_to_hold(self):
        if (self.hold == "samples") != (self.samples_per_step is not None):
            raise ValueError(
                f"samples_per_step is {self.samples_per_step} with hold: {self.hold}; "
                "set it with hold: samples, and only then"
            )
        return self


class TinyDataConfig(Strict):
    """The embedded task's problems."""

    type: Literal["tiny"]
    seed: int = Field(0, ge=0, description="Seed of the order in which the problems are written.")


class BenchmarkConfig(Strict):
    """One benchmark of the downstream evaluation."""

    task: str = Field(min_length=1, description="lm-eval task file, relative to config/benchmarks, without .yaml.")
    samples: int = Field(4, ge=1, description="Responses per problem, k.")


class EvaluationConfig(Strict):
    """Downstream evaluation through lm-eval."""

    benchmarks: dict[Name, BenchmarkConfig] = {}
    temperature: float = Field(1.0, ge=0)
    max_response_tokens: int = Field(300, ge=2)
    batch_size: int = Field(256, ge=1)
    seed: int = Field(1234, ge=0)


class JobConfig(Strict):
    """What one kind of job asks of the machine."""

    threads: int = Field(1, ge=1)
    mem_mb: int = Field(3000, ge=1)
    runtime: int = Field(60, ge=1, description="Minutes.")
    gpus: int = Field(0, ge=0)


class JobsConfig(Strict):
    """Resources per kind of job."""

    warm_start: JobConfig = JobConfig()
    train: JobConfig = JobConfig()
    evaluate: JobConfig = JobConfig()


def _read_group(value: Any) -> Any:
    """Group sizes come as text from the command line; true and 4.5 are no group sizes."""
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    if value in CONTROLLED or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise ValueError(f"a group is a size, or one of {', '.join(CONTROLLED)}")


Group = Annotated[int | Literal["sagc", "sagc-robust"], BeforeValidator(_read_group)]


class Axes(Strict):
    """The axes of the grid; the runs are their product."""

    models: list[Name]
    algorithms: list[Name]
    stacks: list[Literal["vanilla", "openrlhf"]]
    groups: list[Group]
    seeds: list[Annotated[int, Field(ge=0)]]


class Cell(Strict):
    """One run of the grid by the names of its parts."""

    model: Name
    algorithm: Name
    stack: Literal["vanilla", "openrlhf"]
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
        description="Keyword arguments of the controller, straggler definition included."
    )
    training: TrainingConfig
    data: TinyDataConfig
    reward: Name

    @property
    def hash(self) -> str:
        """16 hexadecimal digits that name the training run."""
        canonical = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]

    @property
    def seeds(self) -> dict[str, int]:
        """Independent seeds for data, rollout and controller."""
        digest = hashlib.sha256(f"sagc seed {self.cell.seed}".encode()).digest()
        parts = (int.from_bytes(digest[i : i + 4], "big") >> 1 for i in (0, 4, 8))
        return dict(zip(("data", "rollout", "controller"), parts, strict=True))

    def build_controller(self) -> GroupSizeController:
        """A fresh controller of this run; raises UserError where a parameter is refused."""
        static = isinstance(self.cell.group, int)
        kind = "static" if static else self.cell.group
        parameters = dict(self.controller)
        if kind == "sagc":
            parameters["seed"] = self.seeds["controller"]
        try:
            return build_controller(kind, **parameters)
        except (TypeError, ValueError) as error:
            raise UserError(f"{f'group {self.cell.group}' if static else f'controllers.{kind}'}: {error}") from None


class GridConfig(Strict):
    """A whole experiment: the axes of the grid and the catalogue that their names refer to."""

    results: str = Field("results", min_length=1, description="Folder that the runs and tables are written to.")
    grid: Axes
    include: list[Cell] = Field([], description="Runs beside the product of the axes.")
    models: dict[Name, ModelConfig]
    algorithms: dict[Name, AlgorithmConfig]
    straggler: StragglerConfig = StragglerConfig()
    controllers: dict[Literal["sagc", "sagc-robust"], dict[str, Any]] = {}
    training: TrainingConfig = TrainingConfig()
    data: TinyDataConfig = TinyDataConfig(type="tiny")
    reward: Name = "tiny"
    evaluation: EvaluationConfig = EvaluationConfig()
    jobs: JobsConfig = JobsConfig()

    @field_validator("include", mode="before")
    @classmethod
    def _include_may_be_empty(cls, value):
        return [] if value is None else value

    @field_validator("controllers")
    @classmethod
    def _one_definition_for_every_arm(cls, value):
        for name, parameters in value.items():
            for key in ("tau", "event", "seed"):
                if key in parameters:
                    raise ValueError(f"{name}.{key} is not set here: tau and event are in straggler, seeds in grid")
        return value

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
            controller = {**straggler, **self.controllers.get(cell.group, {})}
        run = RunConfig(
            cell=cell,
            model=model,
            algorithm=algorithm,
            straggler=self.straggler,
            controller=controller,
            training=self.training,
            data=self.data,
            reward=self.reward,
        )
        check_divisible(run)
        return run


def check_divisible(run: RunConfig, processes: int = 1) -> None:
    """Refuse batch shapes that would lose samples at some size of the ladder.

    Every rollout's responses are split evenly over processes, optimizer steps and micro batches, and a group never
    straddles two processes. Raises UserError that names the key.
    """
    training, controller = run.training, run.build_controller()
    parts = training.optimizer_steps * training.micro_batches
    for size in controller.ladder:
        if training.hold == "samples":
            if training.samples_per_step % (size * processes):
                raise UserError(
                    f"training.samples_per_step is {training.samples_per_step}, which is no multiple of "
                    f"group size {size}" + (f" x {processes} processes" if processes > 1 else "")
                )
            prompts = training.samples_per_step // size
        else:
            prompts = training.prompts_per_step
        if prompts % processes:
            raise UserError(f"training.prompts_per_step is {prompts}, which is no multiple of {processes} processes")
        if prompts // processes * size % parts:
            raise UserError(
                f"training.optimizer_steps x training.micro_batches is {parts}, which does not divide the "
                f"{prompts // processes * size} responses per process at group size {size}"
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


def _lookup(kind: str, name: str, catalogue: dict[str, Any]) -> Any:
    if name not in catalogue:
        raise UserError(f"unknown {kind} {name!r}; {kind}s are {', '.join(sorted(catalogue)) or 'none'}")
    return catalogue[name]
