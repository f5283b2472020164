"""Step time of SagcGRPOTrainer at a constant group size beside the stock one: `python -m tests.bench trainer`.

Prints a markdown table. Both train the same random model on the same prompts with the same settings; in every rollout
some response reaches the limit, so that every step does the same work. The two take turns in short runs, in the order
A B B A, and a ratio is the median over pairs of neighbouring runs: whatever else the machine does falls on both. The
processor's time is there beside the wall clock's because other jobs disturb it less. Target: ratios under 1.05.
"""

import itertools
import os
import statistics
import tempfile
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import transformers
from datasets import Dataset, disable_progress_bars
from transformers import PrinterCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from sagc import StaticGroupSize
from sagc.tiny.data import load_problems
from sagc.tiny.models import build_model
from sagc.tiny.tokenizer import build_tokenizer
from sagc.trl import SagcGRPOTrainer

PROMPTS, GROUP_SIZE, TOKENS = 16, 8, 120
PAIRS, STEPS, WARM_UP = 6, 2, 1

Run = list[tuple[float, float]]  # (wall, processor) seconds per step


class StepClock(TrainerCallback):
    """(wall, processor) seconds from the end of one optimizer step to the end of the next: all that a step takes."""

    def __init__(self):
        self.ends = []

    def on_step_end(self, args, state, control, **kwargs):
        self.ends.append((time.perf_counter(), time.process_time()))

    @property
    def seconds(self) -> list[tuple[float, float]]:
        measured = itertools.pairwise(self.ends[WARM_UP - 1 :])
        return [(end[0] - start[0], end[1] - start[1]) for start, end in measured]


def rows(pairs: int = PAIRS) -> list[dict]:
    """One row per number of micro batches and trainer: median seconds per step, and the ratios to the stock trainer."""
    torch.set_num_threads(1)
    disable_progress_bars()
    transformers.logging.set_verbosity_error()
    table = []
    for micro_batches in (1, 4):
        stock, ours = _take_turns(pairs, micro_batches)
        table += [_row(micro_batches, "stock", stock, stock), _row(micro_batches, "sagc", ours, stock)]
    return table


def _row(micro_batches: int, trainer: str, runs: list[Run], stock: list[Run]) -> dict:
    def ratio(clock: int) -> float:
        pairs = zip(runs, stock, strict=True)
        return statistics.median(_median(own, clock) / _median(other, clock) for own, other in pairs)

    return {
        "micro_batches": micro_batches,
        "trainer": trainer,
        "median_s": round(_median([step for run in runs for step in run], clock=0), 3),
        "ratio_to_stock": round(ratio(clock=0), 3),
        "processor_ratio": round(ratio(clock=1), 3),
    }


def _median(run: Run, clock: int) -> float:
    return statistics.median(step[clock] for step in run)


def _take_turns(pairs: int, micro_batches: int) -> tuple[list[Run], list[Run]]:
    """Step times of the stock trainer and of ours, one list per run; the runs of a pair are neighbours in time."""
    stock, ours = [], []
    for pair in range(pairs):
        turns = [(stock, GRPOTrainer, {}), (ours, SagcGRPOTrainer, {"controller": StaticGroupSize(GROUP_SIZE)})]
        for times, trainer, options in turns if pair % 2 == 0 else reversed(turns):
            times.append(_run(trainer, options, micro_batches))
    return stock, ours


def _run(trainer_class: type[GRPOTrainer], options: dict, micro_batches: int) -> Run:
    clock, tokenizer = StepClock(), build_tokenizer()
    problems = load_problems("train")
    with tempfile.TemporaryDirectory() as folder:
        trainer = trainer_class(
            build_model("qwen2", tokenizer, seed=0),
            _reward,
            args=_arguments(folder, micro_batches),
            train_dataset=Dataset.from_dict({"prompt": [problem.prompt for problem in problems]}),
            processing_class=tokenizer,
            callbacks=[clock],
            **options,
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    return clock.seconds


def _reward(completions: list[str], **columns) -> list[float]:
    return [float(len(set(text)) % 3) for text in completions]


def _arguments(folder: str, micro_batches: int) -> GRPOConfig:
    return GRPOConfig(
        output_dir=folder,
        use_cpu=True,
        bf16=False,
        report_to="none",
        disable_tqdm=True,
        logging_strategy="no",
        save_strategy="no",
        seed=0,
        num_generations=GROUP_SIZE,
        per_device_train_batch_size=PROMPTS * GROUP_SIZE // micro_batches,
        gradient_accumulation_steps=micro_batches,
        max_completion_length=TOKENS,
        max_steps=WARM_UP + STEPS,
        learning_rate=1e-6,  # the policy hardly moves, so the last step is as long as the first
        lr_scheduler_type="constant",
    )
