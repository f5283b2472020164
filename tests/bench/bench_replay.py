"""Replay of static 16: how long it takes, and how near it comes to the runs of results/, where a grid is there.

For every run beside a static 16, over the first 20 steps and over all: how many of its measures (straggler rate,
barrier, tokens, idle fraction, informative share, groups generated) are outside the 95 % intervals, how far the
straggler rate and the tokens are off, and whether the hours are in the range.
"""

import dataclasses
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sagc.logs import Log, read_log
from sagc.replay.estimate import Estimate, Replay, replay_all
from tests.made_results import make_run

CASES = ({"steps": 60, "prompts": 16}, {"steps": 1000, "prompts": 128})
FIRST = 20
RESULTS = Path("results")


def rows() -> list[dict]:
    """Seconds and peak memory of the command; then a row per window and run that static 16 was compared with."""
    table = [measure(**case) for case in CASES]
    for large in sorted(RESULTS.glob("*/*/*/16/seed*/trace.jsonl")):
        cell, seed = large.parents[2], large.parent.name
        table += [
            compare(large, other, steps)
            for other in sorted(cell.glob(f"*/{seed}/trace.jsonl"))
            for steps in (FIRST, None)
            if other != large and (other.parent.parent.name.isdecimal() or steps is None)  # controllers start slowly
        ]
    return table


def measure(steps: int, prompts: int) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        run = make_run(Path(folder), "16", 0, steps, prompts=prompts)
        started = time.perf_counter()
        command = [sys.executable, "-m", "sagc.cli", "replay", str(run)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=os.environ | {"OMP_NUM_THREADS": "1"})
        seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3  # of the largest process so far
    return {"steps": steps, "responses": f"{prompts * 16}", "wall_s": seconds, "peak_mb": peak}


def compare(large: Path, other: Path, steps: int | None) -> dict:
    estimated, real = first(large, steps), first(other, steps)
    arm = other.parent.parent.name
    estimate = next(each for each in run(estimated).estimates if each.arm == arm)
    played = next(each for each in run(real).estimates if each.played)
    outside = sum(not inside(estimate, measure, value) for measure, value in played.values.items())
    low, high = estimate.hours
    return {
        "run": "/".join(other.parts[1:-1]),
        "window": f"first {steps}" if steps else "all",
        "hours_inside": low <= played.hours[0] <= high,
        "outside_of_6": float(outside),
        "rate_off": estimate.values["straggler_rate"] - played.values["straggler_rate"],
        "tokens_off": estimate.values["tokens"] / played.values["tokens"] - 1,
        "hours_range": high / low,
    }


def first(trace: Path, steps: int | None) -> Log:
    log = read_log(trace)
    return dataclasses.replace(log, steps=log.steps[:steps])


def run(log: Log) -> Replay:
    """With the delta and eta of the default grid."""
    return replay_all([log], delta=0.65, eta=2)[0]


def inside(estimate: Estimate, measure: str, value: float) -> bool:
    low, high = estimate.intervals[measure]
    return low - 1e-9 <= value <= high + 1e-9
