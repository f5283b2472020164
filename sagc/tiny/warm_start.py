"""Warm start: supervised training of a fresh embedded model on traces of the imperfect expert.

    python -m sagc.tiny.warm_start --architecture qwen2 --out models/qwen2 --seed 0

writes a Hugging Face folder (weights, configuration, tokenizer) and warm_start.json with the settings and the measured
start: solved rates, response lengths and straggler rates. The same seed and number of threads give the same weights.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, stdev

import click
import numpy as np
import torch
from tqdm import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging

from sagc.errors import UserError
from sagc.lengths import straggler_report
from sagc.system.command import Command
from sagc.system.files import folder_atomically
from sagc.tiny.data import load_problems
from sagc.tiny.models import ARCHITECTURES, build_model
from sagc.tiny.task import WARM_START_STEPS, Problem, expert_trace, outcome_reward
from sagc.tiny.tokenizer import build_tokenizer

RECORD = "warm_start.json"
IGNORED = -100  # the label that the loss of transformers skips
STRAGGLER_TAU = 2.0
GROUP_SIZES = (4, 8, 16)


@dataclass(frozen=True)
class WarmStartSettings:
    """What the warm start is made with; lengths are in tokens, the end token included."""

    false_claim: float = 0.1
    missed_hit: float = 0.05
    steps: int = WARM_START_STEPS
    batch_tokens: int = 800
    pool_size: int = 1024
    learning_rate: float = 4e-3
    learning_rate_steps_up: int = 50
    response_limit: int = 300
    measured_problems: int = 128


def batches(tokenizer: PreTrainedTokenizerBase, settings: WarmStartSettings, seed: int) -> Iterator[dict]:
    """Batches of traces (traces, longest trace), padded on the right; prompts and padding carry no loss.

    Traces are drawn in pools and sorted by length, so that few tokens are padding. Batches hold a constant number of
    tokens, not of traces: the loss is a mean over tokens, and short traces must not weigh more in it than long ones,
    or the model claims its guesses too early.
    """
    rng = random.Random(seed)
    problems = load_problems("train")
    while True:
        drawn = [rng.choice(problems) for _ in range(settings.pool_size)]
        traces = [expert_trace(p, rng, settings.false_claim, settings.missed_hit) for p in drawn]
        prompts = tokenizer([p.prompt for p in drawn])["input_ids"]
        responses = tokenizer([trace + tokenizer.eos_token for trace in traces])["input_ids"]
        pairs = [(p, r[: settings.response_limit]) for p, r in zip(prompts, responses, strict=True)]
        pool = cut_by_tokens(sorted(pairs, key=lambda pair: len(pair[1])), settings.batch_tokens)
        rng.shuffle(pool)
        for batch in pool:
            yield collate(batch, tokenizer.pad_token_id)


def cut_by_tokens(pairs: list[tuple[list[int], list[int]]], tokens: int) -> list[list[tuple[list[int], list[int]]]]:
    """Consecutive (prompt ids, response ids) pairs in batches of about `tokens` response tokens each."""
    cut, size = [[]], 0
    for pair in pairs:
        if size >= tokens:
            cut.append([])
            size = 0
        cut[-1].append(pair)
        size += len(pair[1])
    return cut


def collate(pairs: list[tuple[list[int], list[int]]], pad: int) -> dict[str, torch.Tensor]:
    """(prompt ids, response ids) pairs as input_ids and labels of shape (pairs, longest)."""
    width = max(len(prompt) + len(response) for prompt, response in pairs)
    input_ids = torch.full((len(pairs), width), pad)
    labels = torch.full((len(pairs), width), IGNORED)
    for row, (prompt, response) in enumerate(pairs):
        end = len(prompt) + len(response)
        input_ids[row, :end] = torch.tensor(prompt + response)
        labels[row, len(prompt) : end] = torch.tensor(response)
    # No attention mask: attention is causal and the padding comes last.
    return {"input_ids": input_ids, "labels": labels}


def train(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, settings: WarmStartSettings, seed: int) -> float:
    """Train in place; returns the mean loss of the last 50 steps, in nats per token."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, betas=(0.9, 0.98), weight_decay=0.0)

    def schedule(step: int) -> float:
        return min((step + 1) / settings.learning_rate_steps_up, 1 - step / settings.steps)

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, schedule)
    stream = batches(tokenizer, settings, seed)
    losses = []
    model.train()
    for _ in tqdm(range(settings.steps), desc="warm start", unit="step", disable=None):
        loss = model(**next(stream)).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    return mean(losses[-50:])


@torch.no_grad()
def sample(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    problems: list[Problem],
    group_size: int,
    response_limit: int,
    seed: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Responses at temperature 1 to each problem, as three arrays of shape (problems, group_size).

    They are rewards, lengths (tokens, end token included) and whether a response was cut off at `response_limit`.
    """
    model.eval()
    rewards, lengths, cut_off = [], [], []
    chunk = max(1, 256 // group_size)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for start in tqdm(range(0, len(problems), chunk), desc="measuring", unit="batch", disable=None):
            group = [problem for problem in problems[start : start + chunk] for _ in range(group_size)]
            inputs = tokenizer([problem.prompt for problem in group], padding=True, return_tensors="pt")
            output = model.generate(**inputs, max_new_tokens=response_limit)
            responses = output[:, inputs["input_ids"].shape[1] :]
            ends = responses == tokenizer.eos_token_id
            ended = ends.any(dim=1)
            cut_off += (~ended).tolist()
            lengths += torch.where(ended, ends.int().argmax(dim=1) + 1, responses.shape[1]).tolist()
            texts = tokenizer.batch_decode(responses, skip_special_tokens=True)
            rewards += [outcome_reward(text, problem.answer) for text, problem in zip(texts, group, strict=True)]
    shape = (len(problems), group_size)
    return np.reshape(rewards, shape), np.reshape(lengths, shape), np.reshape(cut_off, shape)


def measure(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, settings: WarmStartSettings, seed: int
) -> dict[str, object]:
    """What the model does at temperature 1: solved rates, lengths, cut-off share and straggler rates.

    Problems are drawn from each split with `seed`; standard errors are over problems, not over single responses.
    """
    metrics = {}
    largest = max(GROUP_SIZES)
    for split in ("heldout", "harder"):
        problems = random.Random(seed).sample(load_problems(split), settings.measured_problems)
        rewards, lengths, cut_off = sample(model, tokenizer, problems, largest, settings.response_limit, seed)
        by_problem = rewards.mean(axis=1)
        metrics[f"solved_{split}"] = float(by_problem.mean())
        metrics[f"solved_{split}_se"] = stdev(by_problem.tolist()) / len(problems) ** 0.5
        metrics[f"length_quantiles_{split}"] = {str(q): float(np.quantile(lengths, q / 100)) for q in (10, 50, 90, 99)}
        metrics[f"length_mean_{split}"] = float(lengths.mean())
        metrics[f"cut_off_rate_{split}"] = float(cut_off.mean())
        metrics[f"straggler_rate_{split}"] = {
            str(size): straggler_report(lengths.reshape(-1, size), STRAGGLER_TAU).straggler_rate for size in GROUP_SIZES
        }
    return metrics


def warm_start(architecture: str, out_dir: Path, seed: int, settings: WarmStartSettings) -> dict[str, object]:
    """Build, train, measure and save one model; returns the metrics that warm_start.json holds beside the settings.

    An earlier warm start in `out_dir` is replaced; times are in seconds.

    Raises:
        ValueError: the architecture is unknown.
        UserError: `out_dir` holds something other than a warm start.
    """
    out_dir = Path(out_dir).absolute()
    if out_dir.exists() and any(out_dir.iterdir()) and not (out_dir / RECORD).exists():
        raise UserError(f"out is {str(out_dir)!r}, which holds other files; allowed: a new folder or a warm start's")
    tokenizer = build_tokenizer()
    model = build_model(architecture, tokenizer, seed)
    started = time.perf_counter()
    loss = train(model, tokenizer, settings, seed)
    trained = time.perf_counter()
    metrics = {
        "loss": loss,
        **measure(model, tokenizer, settings, seed),
        "parameters": model.num_parameters(),
        "train_s": trained - started,
        "measure_s": time.perf_counter() - trained,
        "threads": torch.get_num_threads(),
    }
    record = {"architecture": architecture, "seed": seed, "settings": asdict(settings), "metrics": metrics}
    save(model, tokenizer, record, out_dir)
    return metrics


def save(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, record: dict, out_dir: Path) -> None:
    """Write the folder beside its place, then rename it: a killed warm start leaves no half-written model."""
    with folder_atomically(out_dir) as partial:
        model.save_pretrained(partial)
        tokenizer.save_pretrained(partial)
        (partial / RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


@click.command(cls=Command)
@click.option("--architecture", type=click.Choice(list(ARCHITECTURES)), required=True)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder of the model; replaced if there.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option(
    "--steps", type=click.IntRange(min=1), default=WarmStartSettings.steps, show_default=True, help="Optimizer steps."
)
def main(architecture: str, out: Path, seed: int, steps: int) -> None:
    """Warm-start an embedded model and save it in Hugging Face format."""
    logging.disable_progress_bar()  # tqdm's own rule, no bars off a terminal, does not reach the one of save_pretrained
    torch.set_num_threads(1)  # two threads are slower at this size, and the weights depend on their number
    click.echo(json.dumps(warm_start(architecture, out, seed, WarmStartSettings(steps=steps)), indent=2))


if __name__ == "__main__":
    main()
