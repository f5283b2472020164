"""Launches the `vanilla` stack: builds a SagcGRPOTrainer from a RunConfig and trains from the last whole checkpoint."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow
import torch
from datasets import Dataset
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PrinterCallback,
    TrainerCallback,
)
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from transformers.utils.logging import disable_progress_bar
from trl import GRPOConfig
from trl.rewards import get_soft_overlong_punishment

from sagc.config.batches import check_divisible, check_prompts
from sagc.config.run import RunConfig
from sagc.config.sections import AlgorithmConfig, TrainingConfig
from sagc.data.prompts import read_prompts
from sagc.errors import UserError
from sagc.rewards.registry import reward_function
from sagc.run.checkpoints import newest_first, number, restore, save_trace
from sagc.run.folder import RunFolder
from sagc.run.progress import Progress
from sagc.system.files import folder_atomically
from sagc.trace import StepRecord, TraceWriter
from sagc.trl import SagcGRPOTrainer

CHECKPOINT_PREFIX = f"{PREFIX_CHECKPOINT_DIR}-"


def check(run: RunConfig) -> None:
    """Check that one process does not see several GPUs, over which transformers would split batches.

    Raises
    ------
    UserError
        If it does.
    """
    if torch.cuda.device_count() > 1 and _processes() == 1:
        raise UserError(
            f"the vanilla stack uses one GPU per process, but this one sees {torch.cuda.device_count()}; start it with "
            "`torchrun --nproc-per-node`, or choose one with CUDA_VISIBLE_DEVICES"
        )


def train(
    run: RunConfig, folder: RunFolder, model_path: str, data: Path, on_step: Callable[[StepRecord], None]
) -> None:
    """Train one run into its folder, continuing from its last whole checkpoint; the model is written last.

    `on_step` is called in the main process with every record once it is in the trace.

    Raises
    ------
    UserError
        If the model or data cannot be loaded, there are fewer prompts than a rollout needs, the processes cannot share
        the batch evenly, or WORLD_SIZE is not their number.
    """
    checkpoints = folder.checkpoints(run)
    arguments = _arguments(run, checkpoints)
    _check_processes(arguments.world_size)
    check_divisible(run, arguments.world_size)
    main = arguments.process_index == 0
    disable_progress_bar()  # of loading and saving weights; `Progress` shows the steps
    with arguments.main_process_first(desc="clean up"):
        # The first process removes incomplete checkpoints; the others then see what is left.
        if main:
            restore(checkpoints, CHECKPOINT_PREFIX, folder.trace)
        checkpoint = next(iter(newest_first(checkpoints, CHECKPOINT_PREFIX)), None)
    dataset = _as_table(data)
    check_prompts(run, len(dataset))
    done = number(checkpoint, CHECKPOINT_PREFIX) // run.training.optimizer_steps if checkpoint else 0
    finished = done >= run.training.steps  # the process died between its last checkpoint and its model
    tokenizer, model = _load(run, str(checkpoint) if finished else model_path)
    with Progress(str(folder.path), run.training.steps, done, enabled=main) as progress:
        writer = TraceWriter(folder.trace) if main else None
        trainer = SagcGRPOTrainer(
            model,
            _rewards(run),
            args=arguments,
            train_dataset=dataset,
            processing_class=tokenizer,
            controller=run.build_controller(),
            hold=run.training.hold,
            max_rounds=run.algorithm.dynamic_sampling.max_rounds if run.algorithm.dynamic_sampling else None,
            reference_samples=run.algorithm.reference_samples,
            on_step=lambda record: (writer.append(record), progress.step(record), on_step(record)),
            callbacks=[_SaveTrace(folder.trace)] if main else None,
        )
        trainer.remove_callback(PrinterCallback)
        if main and run.training.keep_model_every:
            trainer.add_callback(_KeepModel(trainer, folder.kept(run.hash), run.training))
        if not finished:  # otherwise the stock trainer would do one more step
            trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    if main:
        with folder_atomically(folder.model) as temporary:
            trainer.save_model(str(temporary))
    trainer.accelerator.wait_for_everyone()
    if main:
        shutil.rmtree(checkpoints.parent, ignore_errors=True)


def _as_table(data: Path) -> Dataset:
    try:
        return Dataset.from_list(read_prompts(data))
    except (pyarrow.ArrowException, OverflowError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"training prompts {data} do not form a table of typed columns: {reason}") from None


class _SaveTrace(TrainerCallback):
    """Completes every checkpoint with the trace so far."""

    def __init__(self, trace: Path):
        self.trace = trace

    def on_save(self, args, state, control, **kwargs):
        save_trace(Path(args.output_dir) / f"{CHECKPOINT_PREFIX}{state.global_step}", self.trace)


class _KeepModel(TrainerCallback):
    """Keeps the intermediate models that the config asks for."""

    def __init__(self, trainer: SagcGRPOTrainer, folder: Path, training: TrainingConfig):
        self.trainer, self.folder, self.training = trainer, folder, training

    def on_step_end(self, args, state, control, **kwargs):
        rollouts, rest = divmod(state.global_step, self.training.optimizer_steps)
        if rest == 0 and self.training.keeps_model(rollouts):
            with folder_atomically(self.folder / str(rollouts)) as temporary:
                self.trainer.save_model(str(temporary))


def _processes() -> int:
    """The number of processes that share the run, as torchrun gives it: TRL knows it only once it has arguments."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def _check_processes(joined: int) -> None:
    """Refuse a launcher that torch does not follow: each process would train its share of the batch, and no other."""
    if joined != _processes():
        raise UserError(
            f"WORLD_SIZE={_processes()} in the environment, but torch joined {joined} "
            f"process{'es' if joined > 1 else ''}; start several with `torchrun --nproc-per-node`, or unset it for one"
        )


def _arguments(run: RunConfig, checkpoints: Path) -> GRPOConfig:
    training, algorithm = run.training, run.algorithm
    size, parts = run.build_controller().group_size, training.optimizer_steps * training.micro_batches
    samples = training.samples_per_step or training.prompts_per_step * size
    cuda = torch.cuda.is_available()
    return GRPOConfig(
        output_dir=str(checkpoints),
        # runtime
        use_cpu=not cuda,
        bf16=cuda,
        report_to="none",
        disable_tqdm=True,
        logging_strategy="no",
        dataloader_pin_memory=cuda,
        seed=run.seeds["rollout"],
        data_seed=run.seeds["data"],
        # checkpoints: two, so that a whole one remains if the process dies while saving the next
        save_strategy="steps",
        save_steps=training.checkpoint_every * training.optimizer_steps,
        save_total_limit=2,
        # batches; num_generations only determines P, the controller sets G
        num_generations=size,
        per_device_train_batch_size=max(1, samples // (parts * _processes())),
        steps_per_generation=parts,
        gradient_accumulation_steps=training.micro_batches,
        max_steps=training.steps * training.optimizer_steps,
        # generation
        max_completion_length=training.max_response_tokens,
        temperature=training.temperature,
        top_p=1.0,
        top_k=0,
        # optimization
        learning_rate=training.learning_rate,
        lr_scheduler_type=training.lr_schedule if training.warmup_steps == 0 else _with_warmup(training.lr_schedule),
        warmup_steps=training.warmup_steps,
        max_grad_norm=training.max_grad_norm,
        weight_decay=0.0,
        model_init_kwargs=_loading(run) if algorithm.kl_coef else None,  # TRL loads the reference model of a KL term
        **_loss(algorithm),
    )


def _with_warmup(schedule: str) -> str:
    return "constant_with_warmup" if schedule == "constant" else schedule


def _loss(algorithm: AlgorithmConfig) -> dict:
    return {
        "loss_type": algorithm.loss,
        "epsilon": algorithm.clip_low,
        "epsilon_high": algorithm.clip_high,
        "beta": algorithm.kl_coef,
        "scale_rewards": "group",
    }


def _rewards(run: RunConfig) -> list:
    """The outcome reward, followed by DAPO's length penalty (Yu et al. 2025, eq. 13) if the config asks for it."""
    rewards = [reward_function(run.reward)]
    if overlong := run.algorithm.overlong:
        limit = run.training.max_response_tokens
        penalty = get_soft_overlong_punishment(limit, round(limit * overlong.fraction))

        def overlong_penalty(completion_ids, **columns):
            return [overlong.penalty * value for value in penalty(completion_ids, **columns)]

        rewards.append(overlong_penalty)
    return rewards


def _loading(run: RunConfig) -> dict:
    if run.model.type == "tiny":
        return {"local_files_only": True}
    return {"revision": run.model.revision, "trust_remote_code": run.model.trust_remote_code}


def _load(run: RunConfig, path: str) -> tuple[PreTrainedTokenizerBase, PreTrainedModel]:
    options = _loading(run)
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, padding_side="left", **options)
        model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, use_safetensors=True, **options)
    except (OSError, ValueError) as error:
        raise UserError(f"model {path} cannot be loaded: {str(error).splitlines()[0]}") from error
    if tokenizer.eos_token_id is None:
        raise UserError(f"model {path} has a tokenizer without an end token, so no response would ever end")
    return tokenizer, model
