"""Results folders as runs write them, made up from a seed: for tests and benchmarks of what reads them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from sagc.controllers.robust import RobustSAGC
from sagc.controllers.sagc import SAGC
from sagc.controllers.static import StaticGroupSize
from sagc.run.folder import FORMAT
from sagc.run.rollout import Rollout
from sagc.trace import StepRecord

CONTROLLERS = {"sagc": SAGC, "sagc-robust": RobustSAGC}
HASH = "0123456789abcdef"
EVALUATION = {"max_response_tokens": 400, "temperature": 1.0, "top_p": 1.0}


def make_run(
    results: Path,
    group: str = "16",
    seed: int = 0,
    steps: int = 12,
    planned: int | None = None,
    prompts: int = 8,
    evaluated: bool = True,
    model: str = "tiny",
    algorithm: str = "grpo",
    settings: dict | None = None,
) -> Path:
    """Write one run below a results folder, at its usual place, and return its folder."""
    cell = {"model": model, "algorithm": algorithm, "stack": "vanilla", "group": group, "seed": seed}
    folder = results / model / algorithm / "vanilla" / group / f"seed{seed}"
    folder.mkdir(parents=True)
    run = {
        "cell": cell,
        "model": {"type": "tiny", "architecture": "llama"},
        "straggler": {"tau": 2.0, "event": "group"},
        "controller": {"tau": 2.0, "event": "group", **({} if group.isdigit() else {"delta": 0.5})},
        "training": {"steps": planned or steps, **(settings or {})},
    }
    versions, machine = {"python": "3.11.7", "sagc": "0.1.0"}, {"host": "host", "system": "Linux", "processors": 2}
    config = {"format": FORMAT, "run": run, "hash": HASH, "versions": versions, "machine": machine, "code": {}}
    (folder / "config.json").write_text(json.dumps(config))
    with open(folder / "trace.jsonl", "w", encoding="utf-8") as trace:
        for record in _records(group, seed, steps, prompts):
            trace.write(record.to_json() + "\n")
    if evaluated:
        _evaluate(folder, seed)
    return folder


def _records(group: str, seed: int, steps: int, prompts: int) -> Iterator[StepRecord]:
    """Lognormal lengths that get longer, under the real controller of the group."""
    generator = np.random.default_rng([seed, len(group)])
    controller = StaticGroupSize(int(group)) if group.isdigit() else CONTROLLERS[group](delta=0.5)
    for step in range(1, steps + 1):
        size = controller.group_size
        drawn = generator.lognormal(3.5 + step / steps / 2, 0.6, size=(prompts, size)).astype(int) + 1
        rollout = Rollout(step, size, prompts, rounds=[prompts], lengths=drawn.tolist(), kept=prompts)
        rollout.rewards = generator.integers(0, 2, size=(prompts, size)).astype(float).tolist()
        rollout.prompt_index = list(range(prompts))
        rollout.report = controller.step(rollout.lengths)
        longest, tokens = rollout.report.max_length, rollout.report.tokens
        times = {"rollout_s": longest / 50, "train_s": tokens / 4000, "sync_s": 0.125}
        step_s = sum(times.values()) + 0.125
        yield replace(rollout.record(controller, processor_s=step_s), **times, step_s=step_s)


def _evaluate(folder: Path, seed: int, problems: int = 20) -> None:
    generator = np.random.default_rng(seed)
    tokens = generator.integers(5, 60, size=(problems, 2)).tolist()
    metrics = {
        "accuracy": 0.5 + seed / 100,
        "accuracy_se": 0.01,
        "pass_at": {"1": 0.5, "2": 0.7},
        "majority": 0.6,
        "problems": problems,
        "output_tokens": float(np.mean(tokens)),
        "output_tokens_median": float(np.median(tokens)),
        "cut_off_rate": 0.0,
        "no_answer_rate": 0.0,
        "unchecked": 0,
        "left_out": 0,
    }
    place = folder / "eval"
    (place / "heldout").mkdir(parents=True)
    content = {"run_hash": HASH, "evaluation": EVALUATION, "benchmarks": {"heldout": metrics}}
    (place / "evaluation.json").write_text(json.dumps(content))
    with open(place / "heldout" / "samples.jsonl", "w", encoding="utf-8") as samples:
        for number, lengths in enumerate(tokens):
            samples.write(json.dumps({"id": str(number), "output_tokens": lengths, "cut_off": [False, False]}) + "\n")
