"""The upstream names that this package builds on: where each is, and why it is needed.

`sagc doctor` and a test look up every one in upstream's source, importing none, so that another version of OpenRLHF,
DeepSpeed or vLLM is a sentence and not a run that trains wrongly. openrlhf_patch/README.md has the same table.
"""

import ast
import importlib.util
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

# A module; below it a name that it defines or imports, with the parameters that are relied on; below that, why it is
# replaced, or what it is relied on for. CPU: replaced on machines without CUDA only.
TABLE = """
openrlhf.trainer.ppo_trainer
    PPOTrainer.__init__(pretrain, strategy, actor_model_group, vllm_engines, generate_kwargs)
        subclassed: the run's prompts, sample generator and experience maker take the place of upstream's
    PPOTrainer.get_max_steps
        the learning-rate horizon, which must not depend on G
    PPOTrainer.fit
        the loop that calls what is overridden here
    BasePPOTrainer.train_step(rollout_samples, global_step)
        overridden: batch shapes follow G, short rollouts are filled up, the step is recorded
    BasePPOTrainer.broadcast_to_vllm
        overridden: the weight sync is timed
    BasePPOTrainer.save_logs_and_checkpoints(global_step, logs_dict, client_states)
        overridden: the controller's state, the trace and a mark of completeness go into checkpoints
    BasePPOTrainer.init_checkpoint_states
        overridden: the controller's state is restored
openrlhf.trainer.ppo_utils.samples_generator
    SamplesGenerator.generate_samples(generate_kwargs)
        overridden: G is read from the controller, nothing is left over for a rollout of another G
    SamplesGenerator._generate_vllm(dataloader_iter, num_prompts, dynamic_filtering)
        generates and filters; draws its prompts from our iterator
    SamplesGenerator._process_response_into_experience(response)
        overridden: lengths and rewards of every response are recorded, filtered ones too
openrlhf.trainer.ppo_utils.experience_maker
    RemoteExperienceMaker.make_experience(samples_list)
        overridden: vLLM's distance to the policy is measured
    RemoteExperienceMaker.compute_advantages_and_returns(experiences)
        overridden: equal rewards give advantages of 0, which an epsilon of 1e-9 does not
openrlhf.trainer.ray.ppo_actor
    PolicyModelActor
        subclassed: micro batches change their size with G, and keep their number
    PolicyModelActor.init_model_from_pretrained(strategy)
        overridden: its scheduler's rates get a scale that follows the samples of an update
    PolicyModelActor.fit(kl_ctl)
        overridden: its status has the optimizer steps done
    aggregate_loss
        the KL term is averaged as the policy loss is; upstream's always over all tokens
    ActorPPOTrainer.ppo_train(kl_ctl)
        reads replay_buffer.sample_batch_size at every rollout
openrlhf.utils.deepspeed.deepspeed
    DeepspeedStrategy.save_model(model, tokenizer, output_dir)
        writes the models that are kept on the way
    DeepspeedStrategy.save_ckpt(max_num)
        removes old checkpoints by time stamp: it is called when there is but one, the last by number
    init_device_mesh
        CPU: is asked for a mesh on "cuda"
    get_train_ds_config
        CPU: torch's Adam in the place of a fused one, which needs a compiler; no pinned memory
openrlhf.trainer.ray.launcher
    ReferenceModelActor
        CPU: subclassed, so that its process is patched too
openrlhf.trainer.ray.vllm_engine
    RolloutRayActor.__init__
        subclassed: on a CPU, another worker extension
    RolloutRayActor.generate_responses(prompt, label, num_samples)
        overridden: scores say whether a group's rewards differ, which upstream's filter reads
openrlhf.trainer.ray
    create_vllm_engines
        wrapped: the engines that it returns are watched
vllm.v1.engine.async_llm
    AsyncLLM.check_health
        says whether an engine's process has ended
openrlhf.utils.agent
    SingleTurnAgentExecutor.execute(prompt, label, sampling_params, max_length, hf_tokenizer, llm_engine, images)
        OpenRLHF's own hook for rewards (--train.agent_func_path)
openrlhf.models.ring_attn_utils
    unpad_input
        CPU: imports flash_attn: a stand-in exists during that import, and fails when used
openrlhf.trainer.ppo_utils.replay_buffer
    NaiveReplayBuffer.__init__
        CPU: builds the device cuda:<current device>
openrlhf.utils.distributed_util
    stateless_init_process_group(master_address, master_port, rank, world_size, device)
        CPU: the weight sync goes through vLLM's TCP store in the place of NCCL
openrlhf.trainer.ray.vllm_worker_wrap
    WorkerWrap.update_weight(name, dtype, shape, empty_cache)
        CPU: overridden: receives on the worker's device in the place of "cuda"
    WorkerWrap.init_process_group(master_address, master_port, rank_offset, world_size)
        CPU: overridden: the same group on the other side
deepspeed.comm.torch
    build_shm_op
        CPU: its shared-memory allreduce needs a compiler
vllm.model_executor.layers.utils
    dispatch_cpu_unquantized_gemm(layer, remove_weight)
        CPU: packs weights into copies of its own, so that later weight syncs would be lost
vllm.distributed.utils
    StatelessProcessGroup.broadcast(tensor, src)
        carries the weight sync
"""


class Row(NamedTuple):
    """A name of the table; `name` is `Class.method` for a method, `cpu` says whether only CPUs have it replaced."""

    module: str
    name: str
    parameters: list[str]
    reason: str
    cpu: bool


def rows() -> list[Row]:
    """The table, in its order."""
    found = []
    for part in re.split(r"\n(?=\S)", TABLE.strip()):
        module, *lines = map(str.strip, part.splitlines())
        for signature, reason in zip(lines[::2], lines[1::2], strict=True):
            name, *parameters = re.findall(r"[\w.]+", signature)
            found.append(Row(module, name, parameters, reason.removeprefix("CPU: "), reason.startswith("CPU: ")))
    return found


def missing_names() -> list[str]:
    """One sentence per name that the installed packages lack, or that takes other parameters."""
    return [sentence for row in rows() if (sentence := problem(row))]


def problem(row: Row) -> str | None:
    """What has become of a name in the installed packages, in one sentence; None where it is as it is needed."""
    tree = found = _source(row.module)
    for part in row.name.split("."):
        found = next((child for child in getattr(found, "body", ()) if part in _defined(child)), None)
    if tree is None:
        wrong = f"is gone: there is no module {row.module}"
    elif found is None:
        wrong = "is gone"
    elif lost := _lost(found, row.parameters):
        wrong = f"no longer takes {', '.join(lost)}"
    else:
        return None
    return f"{row.module}.{row.name} {wrong}; it is needed here because: {row.reason}"


@cache
def _source(module: str) -> ast.Module | None:
    package, *rest = module.split(".")
    spec = importlib.util.find_spec(package)
    if spec is None:
        return None
    path = Path(spec.submodule_search_locations[0], *rest)
    file = path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"
    return ast.parse(file.read_text(encoding="utf-8")) if file.exists() else None


def _defined(statement: ast.stmt) -> list[str]:
    """The names that a statement of a module or class defines."""
    match statement:
        case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            return [statement.name]
        case ast.Import() | ast.ImportFrom():
            return [alias.asname or alias.name for alias in statement.names]
        case ast.Assign():
            return [target.id for target in statement.targets if isinstance(target, ast.Name)]
    return []


def _lost(definition: ast.stmt, parameters: list[str]) -> list[str]:
    """The parameters that a function does not take; none where the name stands for something else."""
    if not isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef):
        return []
    taken = {each.arg for each in ast.walk(definition.args) if isinstance(each, ast.arg)}
    return [name for name in parameters if name not in taken]
