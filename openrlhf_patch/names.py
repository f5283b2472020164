"""The upstream names that this package builds on: where each is, and why. Read from upstream's source, importing none.

`sagc doctor` and a test look every one up, so that another version of OpenRLHF, DeepSpeed or vLLM is a sentence and not
a run that trains wrongly. openrlhf_patch/README.md has the same table.
"""

import ast
import importlib.util
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Upstream:
    """A name of another package.

    Attributes
    ----------
    module : str
        Dotted name of the module that defines (or imports) it.
    name : str
        Name in the module; `Class.method` for a method.
    reason : str
        Why it is replaced, or what it is relied on for.
    parameters : tuple of str
        Parameters that are relied on.
    cpu : bool
        Replaced on machines without CUDA only.
    """

    module: str
    name: str
    reason: str
    parameters: tuple[str, ...] = ()
    cpu: bool = False


TRAINER = "openrlhf.trainer.ppo_trainer"
SAMPLES = "openrlhf.trainer.ppo_utils.samples_generator"
MAKER = "openrlhf.trainer.ppo_utils.experience_maker"
ACTOR = "openrlhf.trainer.ray.ppo_actor"
ENGINE = "openrlhf.trainer.ray.vllm_engine"

UPSTREAM = (
    Upstream(
        TRAINER,
        "PPOTrainer.__init__",
        "subclassed: the run's prompts, sample generator and experience maker take the place of upstream's",
        ("pretrain", "strategy", "actor_model_group", "vllm_engines", "generate_kwargs"),
    ),
    Upstream(TRAINER, "PPOTrainer.get_max_steps", "the learning-rate horizon, which must not depend on G"),
    Upstream(TRAINER, "PPOTrainer.fit", "the loop that calls what is overridden here"),
    Upstream(
        TRAINER,
        "BasePPOTrainer.train_step",
        "overridden: batch shapes follow G, short rollouts are filled up, the step is recorded",
        ("rollout_samples", "global_step"),
    ),
    Upstream(TRAINER, "BasePPOTrainer.broadcast_to_vllm", "overridden: the weight sync is timed"),
    Upstream(
        TRAINER,
        "BasePPOTrainer.save_logs_and_checkpoints",
        "overridden: the controller's state, the trace and a mark of completeness go into checkpoints",
        ("global_step", "logs_dict", "client_states"),
    ),
    Upstream(TRAINER, "BasePPOTrainer.init_checkpoint_states", "overridden: the controller's state is restored"),
    Upstream(
        SAMPLES,
        "SamplesGenerator.generate_samples",
        "overridden: G is read from the controller, nothing is left over for a rollout of another G",
        ("generate_kwargs",),
    ),
    Upstream(
        SAMPLES,
        "SamplesGenerator._generate_vllm",
        "generates and filters; draws its prompts from our iterator",
        ("dataloader_iter", "num_prompts", "dynamic_filtering"),
    ),
    Upstream(
        SAMPLES,
        "SamplesGenerator._process_response_into_experience",
        "overridden: lengths and rewards of every response are recorded, filtered ones too",
        ("response",),
    ),
    Upstream(
        MAKER,
        "RemoteExperienceMaker.make_experience",
        "overridden: vLLM's distance to the policy is measured",
        ("samples_list",),
    ),
    Upstream(
        MAKER,
        "RemoteExperienceMaker.compute_advantages_and_returns",
        "overridden: equal rewards give advantages of 0, which an epsilon of 1e-9 does not",
        ("experiences",),
    ),
    Upstream(ACTOR, "PolicyModelActor", "subclassed: micro batches change their size with G, and keep their number"),
    Upstream(
        ACTOR,
        "PolicyModelActor.init_model_from_pretrained",
        "overridden: its scheduler's rates get a scale that follows the samples of an update",
        ("strategy",),
    ),
    Upstream(ACTOR, "PolicyModelActor.fit", "overridden: its status has the optimizer steps done", ("kl_ctl",)),
    Upstream(
        ACTOR, "aggregate_loss", "the KL term is averaged as the policy loss is; upstream's always over all tokens"
    ),
    Upstream(ACTOR, "ActorPPOTrainer.ppo_train", "reads replay_buffer.sample_batch_size at every rollout", ("kl_ctl",)),
    Upstream(
        "openrlhf.utils.deepspeed.deepspeed",
        "DeepspeedStrategy.save_model",
        "writes the models that are kept on the way",
        ("model", "tokenizer", "output_dir"),
    ),
    Upstream(
        "openrlhf.utils.deepspeed.deepspeed",
        "DeepspeedStrategy.save_ckpt",
        "removes old checkpoints by time stamp: it is called when there is but one, the last by number",
        ("max_num",),
    ),
    Upstream(
        "openrlhf.trainer.ray.launcher",
        "ReferenceModelActor",
        "subclassed, so that its process is patched too",
        cpu=True,
    ),
    Upstream(ENGINE, "RolloutRayActor.__init__", "subclassed: on a CPU, another worker extension"),
    Upstream("openrlhf.trainer.ray", "create_vllm_engines", "wrapped: the engines that it returns are watched"),
    Upstream("vllm.v1.engine.async_llm", "AsyncLLM.check_health", "says whether an engine's process has ended"),
    Upstream(
        ENGINE,
        "RolloutRayActor.generate_responses",
        "overridden: scores say whether a group's rewards differ, which upstream's filter reads",
        ("prompt", "label", "num_samples"),
    ),
    Upstream(
        "openrlhf.utils.agent",
        "SingleTurnAgentExecutor.execute",
        "OpenRLHF's own hook for rewards (--train.agent_func_path)",
        ("prompt", "label", "sampling_params", "max_length", "hf_tokenizer", "llm_engine", "images"),
    ),
    Upstream(
        "openrlhf.models.ring_attn_utils",
        "unpad_input",
        "imports flash_attn: a stand-in exists during that import, and fails when used",
        cpu=True,
    ),
    Upstream(
        "openrlhf.trainer.ppo_utils.replay_buffer",
        "NaiveReplayBuffer.__init__",
        "builds the device cuda:<current device>",
        cpu=True,
    ),
    Upstream("openrlhf.utils.deepspeed.deepspeed", "init_device_mesh", 'is asked for a mesh on "cuda"', cpu=True),
    Upstream(
        "openrlhf.utils.deepspeed.deepspeed",
        "get_train_ds_config",
        "torch's Adam in the place of a fused one, which needs a compiler; no pinned memory",
        cpu=True,
    ),
    Upstream(
        "openrlhf.utils.distributed_util",
        "stateless_init_process_group",
        "the weight sync goes through vLLM's TCP store in the place of NCCL",
        ("master_address", "master_port", "rank", "world_size", "device"),
        cpu=True,
    ),
    Upstream(
        "openrlhf.trainer.ray.vllm_worker_wrap",
        "WorkerWrap.update_weight",
        'overridden: receives on the worker\'s device in the place of "cuda"',
        ("name", "dtype", "shape", "empty_cache"),
        cpu=True,
    ),
    Upstream(
        "openrlhf.trainer.ray.vllm_worker_wrap",
        "WorkerWrap.init_process_group",
        "overridden: the same group on the other side",
        ("master_address", "master_port", "rank_offset", "world_size"),
        cpu=True,
    ),
    Upstream("deepspeed.comm.torch", "build_shm_op", "its shared-memory allreduce needs a compiler", cpu=True),
    Upstream(
        "vllm.model_executor.layers.utils",
        "dispatch_cpu_unquantized_gemm",
        "packs weights into copies of its own, so that later weight syncs would be lost",
        ("layer", "remove_weight"),
        cpu=True,
    ),
    Upstream("vllm.distributed.utils", "StatelessProcessGroup.broadcast", "carries the weight sync", ("tensor", "src")),
)


def missing_names() -> list[str]:
    """One sentence per name that the installed packages lack, or that takes other parameters."""
    return [problem for upstream in UPSTREAM if (problem := _problem(upstream))]


def _problem(upstream: Upstream) -> str | None:
    where = f"{upstream.module}.{upstream.name}"
    tree = _source(upstream.module)
    if tree is None:
        return f"{where} is gone: there is no module {upstream.module}; it is needed here because: {upstream.reason}"
    node: ast.AST | None = tree
    for part in upstream.name.split("."):
        node = _definition(node, part)
        if node is None:
            return f"{where} is gone; it is needed here because: {upstream.reason}"
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        given = node.args
        names = {a.arg for a in [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg] if a}
        if lost := [name for name in upstream.parameters if name not in names]:
            return f"{where} no longer takes {', '.join(lost)}; it is needed here because: {upstream.reason}"
    return None


@cache
def _source(module: str) -> ast.Module | None:
    package, *rest = module.split(".")
    spec = importlib.util.find_spec(package)
    if spec is None:
        return None
    path = Path(spec.submodule_search_locations[0], *rest)
    file = path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"
    return ast.parse(file.read_text(encoding="utf-8")) if file.exists() else None


def _definition(node: ast.AST, name: str) -> ast.AST | None:
    """What defines `name` in a module or class: a class, a function, an assignment, or an import."""
    for child in node.body:
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and child.name == name:
            return child
        if isinstance(child, ast.Import | ast.ImportFrom) and name in [a.asname or a.name for a in child.names]:
            return child
        if isinstance(child, ast.Assign) and name in [t.id for t in child.targets if isinstance(t, ast.Name)]:
            return child
    return None
