"""A RunConfig in OpenRLHF's own flags (openrlhf/cli/train_ppo_ray.py), and the flags that are refused.

What the run decides is not left to a profile's `flags`: those may only add to it.
"""

from pathlib import Path

from sagc.config.run import RunConfig
from sagc.config.sections import OpenRLHFProfile
from sagc.errors import UserError

# Flags that change what is trained, how it is counted or where it is written, and why a profile must not set them.
REFUSED = {
    "train.async_enable": "the asynchronous trainer trains on responses of an older policy, and is not supported",
    "train.partial_rollout_enable": "it needs the asynchronous trainer, which is not supported",
    "rollout.vllm_generate_batch_size": "responses left over from a rollout would have the group size of another step",
    "ds.ring_attn_size": "processes that share a sequence are not counted as one by the group size's batch shapes",
    "ds.tensor_parallel_size": "processes that share a layer are not counted as one by the group size's batch shapes",
    "ds.load_in_4bit": "weights in 4 bits cannot be handed to vLLM",
    "ds.lora.rank": "adapter weights have names that vLLM's copy of the model lacks, so that it would never change",
    "algo.kl.target": "an adaptive KL weight depends on the number of samples, which changes with the group size",
    "logger.wandb.key": "keys are never written down; the config's `logging` sends scalars to W&B, after `wandb login`",
    "use_ms": "models and data are found by the run's config",
}
# What a profile's flags may begin with: they describe a machine, not a run.
ALLOWED = (
    "ds.",
    "vllm.",
    "ref.",
    "actor.gradient_checkpointing",
    "train.dynamic_batch_enable",
    "train.max_tokens_per_gpu",
    "rollout.max_tokens_per_gpu",
    "data.dataloader_num_workers",
)


def build_flags(
    run: RunConfig, model: str, data: Path, checkpoints: Path, output: Path, prompt_tokens: int, chat: bool, seed: int
) -> list[str]:
    """The command line of openrlhf.cli.train_ppo_ray for a run.

    Parameters
    ----------
    run
        The run; `run.openrlhf` is its profile.
    model, data, checkpoints, output
        Starting model, prompts (JSON lines), and the folders for checkpoints and for the trained model.
    prompt_tokens
        Tokens of the longest prompt.
    chat
        Whether prompts are messages that the tokenizer's chat template turns into text.
    seed
        Seed of the sampling.
    """
    flags = {
        **decided_flags(run),
        "actor.model_name_or_path": model,
        "data.prompt_dataset": data,
        "data.apply_chat_template": chat,
        "data.max_len": prompt_tokens + run.training.max_response_tokens,
        "train.seed": seed,
        "ckpt.output_dir": output,
        "ckpt.path": checkpoints,
        **run.openrlhf.flags,
    }
    return [word for name, value in flags.items() for word in _words(name, value)]


def _words(name: str, value: object) -> list[str]:
    if isinstance(value, bool):
        return [f"--{name}"] if value else []
    return [f"--{name}", *map(str, value if isinstance(value, tuple) else (value,))]


def decided_flags(run: RunConfig) -> dict[str, object]:
    """The flags that follow from the run's config alone."""
    return {
        **_machine(run),
        **_batches(run),
        **_algorithm(run),
        **_optimizer(run),
        "data.input_key": "prompt",
        "train.agent_func_path": Path(__file__).with_name("agent.py"),
        "ckpt.save_steps": run.training.checkpoint_every,
        "ckpt.max_num": 2,  # so that a whole one is left when the process dies while it saves the next
        "ckpt.load_enable": True,
        "ckpt.best_metric_key": "none",
    }


def micro_batch_size(run: RunConfig, size: int) -> int:
    """Responses per micro batch and process at a group size: their number is the same at every size."""
    profile, training = run.openrlhf, run.training
    parts = profile.nodes * profile.actors * training.optimizer_steps * run.micro_batches
    return training.prompts_at(size) * size // parts


def _machine(run: RunConfig) -> dict:
    profile = run.openrlhf
    flags = {
        "actor.num_nodes": profile.nodes,
        "actor.num_gpus_per_node": profile.actors,
        "ref.num_nodes": profile.nodes,
        "ref.num_gpus_per_node": profile.actors,
        "vllm.num_engines": profile.engines,
        "vllm.tensor_parallel_size": profile.tensor_parallel,
        "vllm.gpu_memory_utilization": profile.gpu_memory_utilization,
        "vllm.sync_backend": "nccl" if profile.device == "cuda" else "gloo",
        "ds.zero_stage": profile.zero_stage,
        "ds.attn_implementation": profile.attention,
        "ds.param_dtype": "bf16",
    }
    if profile.colocate:
        flags |= {"train.colocate_all": True, "vllm.enable_sleep": True, "ds.enable_sleep": True}
    elif run.algorithm.kl_coef:
        flags["train.colocate_actor_ref"] = True  # the reference model shares the policy's GPUs
    if profile.device == "cpu":
        flags |= {"vllm.enforce_eager": True, "vllm.gpu_memory_utilization": 0.1}
    return flags


def _batches(run: RunConfig) -> dict:
    """Shapes at the first group size; the trainer changes them with it."""
    training = run.training
    size = run.build_controller().group_size
    prompts, micro = training.prompts_at(size), micro_batch_size(run, size)
    return {
        "rollout.batch_size": prompts,
        "rollout.n_samples_per_prompt": size,
        "rollout.micro_batch_size": micro,
        "rollout.max_new_tokens": training.max_response_tokens,
        "rollout.temperature": training.temperature,
        "rollout.top_p": 1.0,
        "train.batch_size": prompts * size // training.optimizer_steps,
        "train.micro_batch_size": micro,
        "train.num_episodes": 1,
        "train.max_epochs": 1,
    }


def _algorithm(run: RunConfig) -> dict:
    algorithm = run.algorithm
    flags = {
        "algo.advantage.estimator": "group_norm",
        "algo.kl.init_coef": algorithm.kl_coef,
        # The ratio of the trained policy to vLLM's, per token: without it the two engines' rounding makes every update
        # slightly off-policy. Its mean logarithm is the trace's vllm_kl.
        "algo.advantage.is_correction_level": "token",
        "actor.eps_clip_low_high": (algorithm.clip_low, algorithm.clip_high),
        "actor.loss_agg_mode": {"grpo": "seq-mean-token-mean", "dapo": "token-mean"}[algorithm.loss],
        "algo.dynamic_filtering_enable": algorithm.dynamic_sampling is not None,
    }
    if algorithm.kl_coef:
        flags |= {"algo.kl.use_loss": True, "algo.kl.estimator": "k3"}
    if algorithm.overlong:
        limit = run.training.max_response_tokens
        flags |= {
            "reward.overlong_buffer_len": round(limit * algorithm.overlong.fraction),
            "reward.overlong_penalty_factor": algorithm.overlong.penalty,
        }
    return flags


def _optimizer(run: RunConfig) -> dict:
    training = run.training
    updates = training.steps * training.optimizer_steps
    schedule = training.lr_schedule
    if schedule == "constant" and training.warmup_steps:
        schedule = "constant_with_warmup"
    return {
        "actor.adam.lr": training.learning_rate,
        "actor.adam.betas": (0.9, 0.999),  # as the vanilla stack
        "actor.lr_scheduler": schedule,
        # Upstream takes the ceiling of ratio x updates; half a step less keeps a rounding error from adding one.
        "actor.lr_warmup_ratio": max(0.0, training.warmup_steps - 0.5) / updates,
        "actor.max_norm": training.max_grad_norm,
    }


def check_flags(run: RunConfig, known: frozenset[str]) -> None:
    """Refuse a profile's flags that OpenRLHF lacks, that the run decides, or that are known to train wrongly.

    `known` are the names of OpenRLHF's flags. Raises UserError.
    """
    profile, decided = run.openrlhf, decided_flags(run)
    for name in profile.flags:
        if name not in known:
            raise UserError(f"openrlhf flag {name!r} is no flag of OpenRLHF's train_ppo_ray")
        if name in REFUSED:
            raise UserError(f"openrlhf flag {name!r} is refused: {REFUSED[name]}")
        if name in decided:
            raise UserError(f"openrlhf flag {name!r} follows from the run's config; change it there")
        if not name.startswith(ALLOWED):
            raise UserError(f"openrlhf flag {name!r} is not about the machine; a profile may set {', '.join(ALLOWED)}")
    _check_packing(profile)


def _check_packing(profile: OpenRLHFProfile) -> None:
    if profile.flags.get("train.dynamic_batch_enable") and profile.zero_stage in (1, 2):
        raise UserError(
            "openrlhf flag 'train.dynamic_batch_enable' is refused: with DeepSpeed 0.19.6 and ZeRO stage "
            f"{profile.zero_stage} only the last micro batch's gradient of an update counts; use zero_stage 0 or 3"
        )
    packed = [name for name in ("train.dynamic_batch_enable", "ds.packing_samples") if profile.flags.get(name)]
    if packed and profile.device == "cpu":
        raise UserError(f"openrlhf flag {packed[0]!r} needs flash attention, which device: cpu lacks")
