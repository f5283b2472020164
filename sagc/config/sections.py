"""The sections of a config file, each with its rules; sagc/config/grid.py combines them into a grid and its runs.

Defaults that the paper does not give are marked [ours] in config/README.md.
"""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from sagc.controllers.registry import CONTROLLED
from sagc.system.paths import ExpandedPath, FilePath, FolderPath
from sagc.tiny.task import WARM_START_STEPS

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
Name = Annotated[str, Field(pattern=NAME_PATTERN)]
Stack = Literal["vanilla", "openrlhf"]


class Strict(BaseModel):
    """A section of the config: unknown keys are errors, and values cannot change after validation."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=(), allow_inf_nan=False)


class WarmStartConfig(Strict):
    """How an embedded model is made from scratch (see sagc/tiny/warm_start.py)."""

    seed: int = Field(0, ge=0, description="Seed of the initial weights and of the synthetic traces.")
    steps: Annotated[int, AfterValidator(lambda steps: steps or WARM_START_STEPS)] = Field(
        WARM_START_STEPS, ge=0, description="Optimizer steps of the supervised warm start; 0 means the default."
    )


class TinyModelConfig(Strict):
    """An embedded model of about 0.2 M parameters, warm-started by the DAG."""

    type: Literal["tiny"]
    architecture: Literal["qwen2", "llama"] = Field(description="Architecture of the embedded model.")
    warm_start: WarmStartConfig = WarmStartConfig()


class PretrainedModelConfig(Strict):
    """A pretrained model: a Hugging Face id or a local folder in Hugging Face format."""

    type: Literal["pretrained"]
    path: ExpandedPath = Field(description="Hugging Face model id, or a local folder.")
    revision: str | None = Field(None, description="Commit, tag or branch on the Hub.")
    trust_remote_code: bool = Field(False, description="Run the model repository's own code when loading it.")
    chat: bool = Field(False, description="Apply the tokenizer's chat template to prompts, in training and evaluation.")


ModelConfig = Annotated[TinyModelConfig | PretrainedModelConfig, Field(discriminator="type")]


class DynamicSamplingConfig(Strict):
    """DAPO's dynamic sampling: groups with all rewards equal are dropped and replaced."""

    max_rounds: int = Field(
        4, ge=1, description="Most generation rounds per step; then the step trains on the groups it has."
    )


class OverlongConfig(Strict):
    """DAPO's soft overlong penalty (Yu et al. 2025, eq. 13)."""

    fraction: float = Field(
        0.25, gt=0, lt=1, description="Last part of the response limit, over which the penalty grows."
    )
    penalty: float = Field(1.0, gt=0, description="Penalty, in reward, at the limit.")


class AlgorithmConfig(Strict):
    """The policy-gradient loss around a group's advantages."""

    loss: Literal["grpo", "dapo"] = Field(description="Loss: mean over sequences (grpo) or over tokens (dapo).")
    clip_low: float = Field(0.2, gt=0, lt=1, description="The probability ratio is clipped below 1 - clip_low.")
    clip_high: float = Field(0.2, gt=0, description="The probability ratio is clipped above 1 + clip_high.")
    kl_coef: float = Field(0.0, ge=0, description="Weight of the KL divergence to the starting policy.")
    dynamic_sampling: DynamicSamplingConfig | None = None
    overlong: OverlongConfig | None = None
    reference_samples: int | None = Field(
        None, ge=1, description="Scales the learning rate by sqrt(samples per optimizer step / this); none: no scaling."
    )

    @model_validator(mode="after")
    def _short_rollouts_need_a_token_mean(self):
        if self.dynamic_sampling is not None and self.loss != "dapo":
            raise ValueError(
                f"dynamic_sampling with loss: {self.loss} would weight the responses of a short rollout wrongly; "
                "use loss: dapo"
            )
        return self


class StragglerConfig(Strict):
    """What counts as a straggler event: the same for every arm, so that rates can be compared."""

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
    keep_model_every: int | None = Field(
        None,
        ge=1,
        description="Rollouts between models that are kept and evaluated besides the last; none: only the last.",
    )

    def keeps_model(self, rollouts: int) -> bool:
        """Whether the model is kept after this many rollouts; the last one is the run's model anyway."""
        return bool(self.keep_model_every) and rollouts % self.keep_model_every == 0 and rollouts < self.steps

    def prompts_at(self, size: int) -> int:
        """Prompts per rollout at a group size."""
        return self.samples_per_step // size if self.hold == "samples" else self.prompts_per_step

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
    seed: int = Field(0, ge=0, description="Seed of the order in which problems are written.")


class Columns(Strict):
    """The column names of a data set of problems."""

    problem: str = Field("problem", min_length=1)
    answer: str = Field("answer", min_length=1)


def _has_a_place_for_the_problem(template: str) -> str:
    if template.count("{problem}") != 1:
        raise ValueError("a prompt template has {problem} exactly once, where the problem's text goes")
    return template


Template = Annotated[str, AfterValidator(_has_a_place_for_the_problem)]


class JsonlDataConfig(Strict):
    """The user's own problems or prompts."""

    type: Literal["jsonl"]
    path: FilePath = Field(description="JSON lines file.")
    template: Template | None = Field(None, description="Turns problems into prompts; none: the lines have a `prompt`.")
    columns: Columns = Columns()

    @model_validator(mode="after")
    def _columns_are_those_of_problems(self):
        if self.template is None and self.columns != Columns():
            raise ValueError("columns name those of problems, which need a template; there is no template")
        return self


class HubDataConfig(Strict):
    """Problems from the Hugging Face Hub."""

    type: Literal["hub"]
    path: ExpandedPath = Field(description="Data set, as owner/name.")
    name: str | None = Field(None, min_length=1, description="Configuration of the data set.")
    split: str = Field("train", min_length=1)
    revision: str = Field(min_length=1, description="Commit of the data set, so that it cannot change.")
    template: Template = Field(description="Turns problems into prompts.")
    columns: Columns = Columns()


DataConfig = Annotated[TinyDataConfig | JsonlDataConfig | HubDataConfig, Field(discriminator="type")]


class OpenRLHFProfile(Strict):
    """How the openrlhf stack uses a machine, in processes and GPUs. On a CPU, GPUs are logical units."""

    device: Literal["cpu", "cuda"] = Field(description="cuda needs as many GPUs as the profile takes in total.")
    nodes: int = Field(1, ge=1, description="Nodes that hold policy processes.")
    actors: int = Field(1, ge=1, description="Policy processes per node (data parallel), one GPU each.")
    engines: int = Field(1, ge=1, description="vLLM engines.")
    tensor_parallel: int = Field(1, ge=1, description="GPUs per vLLM engine.")
    colocate: bool = Field(False, description="Policy and engines share the GPUs and take turns in their memory.")
    zero_stage: Literal[0, 1, 2, 3] = Field(2, description="DeepSpeed ZeRO stage.")
    micro_batches: int | None = Field(None, ge=1, description="Replaces training.micro_batches, to fit the memory.")
    attention: str = Field(
        "flash_attention_2",
        min_length=1,
        description="Attention implementation of the policy, by its name in transformers.",
    )
    gpu_memory_utilization: float = Field(0.9, gt=0, le=1, description="Share of a GPU's memory that vLLM takes.")
    ray_address: str | None = Field(None, min_length=1, description="A running Ray cluster; none: start one here.")
    flags: dict[str, bool | int | float | str] = Field({}, description="Further OpenRLHF flags, without dashes.")

    @property
    def gpus(self) -> int:
        """GPUs that the profile takes (logical ones on a CPU)."""
        policy, engines = self.nodes * self.actors, self.engines * self.tensor_parallel
        return policy if self.colocate else policy + engines

    @model_validator(mode="after")
    def _shared_gpus_are_the_same_gpus(self):
        policy, engines = self.nodes * self.actors, self.engines * self.tensor_parallel
        if self.colocate and policy != engines:
            raise ValueError(
                f"colocate needs as many GPUs for the policy as for the engines; nodes x actors is {policy}, "
                f"engines x tensor_parallel is {engines}"
            )
        if self.device == "cpu" and self.colocate:
            raise ValueError("colocate shares the memory of GPUs; device: cpu has none")
        if self.nodes > 1 and self.ray_address is None:
            raise ValueError(f"nodes is {self.nodes}, which needs the ray_address of a running cluster")
        return self


class OpenRLHFConfig(Strict):
    """The machine profiles of the openrlhf stack, and the one in use."""

    profile: Name = Field("cpu", description="Name of the profile in use.")
    profiles: dict[Name, OpenRLHFProfile] = {"cpu": OpenRLHFProfile(device="cpu", attention="sdpa")}


class BenchmarkConfig(Strict):
    """One benchmark of the downstream evaluation."""

    task: str = Field(min_length=1, description="lm-eval task file, relative to config/benchmarks, without .yaml.")
    samples: int = Field(4, ge=1, description="Responses per problem, k.")
    data_dir: FolderPath | None = Field(None, description="Folder of the problems as JSON lines.")


# Set elsewhere in the config, or by the evaluation itself.
VLLM_RESERVED = (
    "model",
    "tokenizer",
    "revision",
    "trust_remote_code",
    "load_format",
    "seed",
    "dtype",
    "max_model_len",
)


class EvaluationConfig(Strict):
    """Downstream evaluation through lm-eval."""

    backend: Literal["hf", "vllm"] = Field("hf", description="Generates with transformers or vLLM.")
    benchmarks: dict[Name, BenchmarkConfig] = {}
    temperature: float = Field(1.0, ge=0)
    top_p: float = Field(1.0, gt=0, le=1)
    max_response_tokens: int = Field(300, ge=2)
    batch_size: int = Field(256, ge=1, description="Responses generated together with backend: hf.")
    vllm: dict[str, bool | int | float | str] = Field({}, description="Further arguments of vLLM's LLM.")
    seed: int = Field(1234, ge=0)

    @field_validator("vllm")
    @classmethod
    def _what_is_decided_elsewhere(cls, value):
        for key in value:
            if key in VLLM_RESERVED:
                raise ValueError(f"{key} is decided by the run and its evaluation, not here")
        return value


class WandbConfig(Strict):
    """A Weights & Biases project; the account comes from `wandb login` or WANDB_API_KEY, never from a config."""

    project: str = Field(pattern=r"^[^/\\#?%:]{1,128}$", description="Project of the runs.")
    entity: str | None = Field(None, min_length=1, description="User or team; none: the account's default.")
    mode: Literal["online", "offline"] = Field("online", description="Offline: kept in the run folders, to sync later.")


class LoggingConfig(Strict):
    """Where the scalars of every step go besides the trace; not part of the run, which it does not change."""

    tensorboard: bool = Field(False, description="Event files in the run folder, for TensorBoard.")
    wandb: WandbConfig | None = Field(None, description="Weights & Biases.")


class JobConfig(Strict):
    """What one kind of job requests from the machine."""

    threads: int = Field(1, ge=1)
    mem_mb: int = Field(3000, ge=1)
    runtime: int = Field(60, ge=1, description="Minutes.")
    gpus: int = Field(0, ge=0)


class JobsConfig(Strict):
    """Resources per kind of job."""

    warm_start: JobConfig = JobConfig()
    train: JobConfig = JobConfig()
    train_openrlhf: JobConfig = JobConfig(mem_mb=6000)
    evaluate: JobConfig = JobConfig()


def _read_group(value: Any) -> Any:
    """Group sizes from the command line are text; true and 4.5 are not group sizes."""
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    if (isinstance(value, str) and re.match(NAME_PATTERN, value)) or (
        isinstance(value, int) and not isinstance(value, bool)
    ):
        return value
    raise ValueError("a group is a size, or the name of a controller")


def _is_a_type(value: int | str) -> int | str:
    if isinstance(value, str) and value not in CONTROLLED:
        raise ValueError(f"a group is a size, or one of {', '.join(CONTROLLED)}")
    return value


Group = Annotated[int | Name, BeforeValidator(_read_group)]  # a size, or a controller by its name in the config
TypeOfGroup = Annotated[
    Group, AfterValidator(_is_a_type)
]  # for configs in which controllers have no names of their own


class Axes(Strict):
    """The axes of the grid; the runs are their product."""

    models: list[Name]
    algorithms: list[Name]
    stacks: list[Stack]
    groups: list[Group]
    seeds: list[Annotated[int, Field(ge=0)]]
