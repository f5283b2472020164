"""The downstream evaluation: `python -m tests.bench evaluation`.

1. An embedded model on both benchmarks of the embedded task with the settings of config/config.yaml, in a process of
   its own with one thread as in the DAG. Target: under 45 s.
2. Scoring of 10 000 responses that are all there at once, no two of them alike. Target: under 30 s.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from sagc.config.changes import load_changed
from sagc.evaluation.scoring import AHEAD, score_choice, score_math, score_tiny
from sagc.tiny.data import load_problems, write_datasets
from sagc.tiny.task import expert_trace
from tests.bench.starting_model import CONFIG, MODEL, PROJECT, starting_model_path

PROBLEMS, SAMPLES = 2500, 4


def rows() -> list[dict]:
    """One row for the evaluation of a model, and one per way of scoring."""
    return [_evaluation(), *(_scoring(name) for name in SCORERS)]


def _evaluation() -> dict:
    evaluation = load_changed(CONFIG, ()).evaluation
    benchmarks = {name: evaluation.benchmarks[name] for name in ("heldout", "harder")}
    settings = evaluation.model_copy(update={"benchmarks": benchmarks})
    with tempfile.TemporaryDirectory(prefix="sagc-") as scratch:
        folder = Path(scratch)
        shutil.copytree(starting_model_path(), folder / "run" / "model")
        (folder / "run" / "config.json").write_text('{"run": {"model": {"type": "tiny"}}, "hash": "0"}')
        write_datasets(folder / "data", seed=0)
        command = [sys.executable, "-m", "sagc.cli", "evaluate", str(folder / "run")]
        command += ["--evaluation", settings.model_dump_json(), "--data", str(folder / "data")]
        started = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=PROJECT)
        wall = time.perf_counter() - started
    content = json.loads(done.stdout)
    tokens = sum(each["output_tokens"] * each["samples"] for each in content["benchmarks"].values())
    seconds = {f"{name}_s": round(value, 1) for name, value in content["seconds"].items()}
    return {"evaluation": f"{MODEL}, 2 benchmarks", "wall_s": round(wall, 1), **seconds, "tokens_k": tokens / 1000}


def _scoring(name: str) -> dict:
    score, problems = SCORERS[name]
    cases = list(problems())
    score(*cases[0])  # starts the processes
    started = time.perf_counter()
    if begin := AHEAD.get(score):
        for problem, (responses,) in cases:
            for response in responses:
                begin(problem, response)
    rewards = [reward for case in cases for reward in score(*case)["accuracy"]]
    seconds = time.perf_counter() - started
    accuracy = sum(rewards) / len(rewards)
    return {"scoring": name, "responses": len(rewards), "wall_s": round(seconds, 1), "accuracy": round(accuracy, 3)}


def _math():
    rng = random.Random(0)
    forms = (
        r"$\boxed{{{}}}$",
        "The answer is {}.",
        r"so \[ x = \frac{{{}}}{{1}} \]",
        "I cannot tell",
        r"\boxed{{{}.0}}",
    )
    for _ in range(PROBLEMS):
        answer = rng.randrange(1000)
        responses = []
        for _ in range(SAMPLES):
            steps = [rf"Then ${rng.randrange(99)}x + {rng.randrange(99)} = {rng.randrange(999)}$." for _ in range(20)]
            last = rng.choice(forms).format(answer if rng.random() < 0.5 else rng.randrange(1000))
            responses.append(" ".join([*steps, last]))
        yield {"problem": "?", "answer": str(answer)}, [responses]


def _choice():
    rng = random.Random(0)
    for _ in range(PROBLEMS):
        responses = ["Let us see. " * 100 + f"Answer: {rng.choice('ABCDE')}" for _ in range(SAMPLES)]
        yield {"problem": "?", "answer": rng.choice("ABCD"), "choices": list("abcd")}, [responses]


def _tiny():
    rng, problems = random.Random(0), load_problems("train")
    for _ in range(PROBLEMS):
        problem = rng.choice(problems)
        responses = [expert_trace(problem, rng, false_claim=0.3, missed_hit=0.1) for _ in range(SAMPLES)]
        yield {"problem": problem.prompt, "answer": problem.answer}, [responses]


SCORERS = {"math": (score_math, _math), "choice": (score_choice, _choice), "tiny": (score_tiny, _tiny)}
