"""Curves of reward and accuracy against seconds of training.

The training reward is the outcome reward of the step's responses as a trailing mean over ten steps; at the first nine
steps it is the mean over the steps so far. If a run kept models on the way (`training.keep_model_every`), their
accuracy on the benchmarks is a curve as well.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.results.runs import RunResults
from analysis.results.summary import LAST_STEPS
from analysis.tables.runs import benchmarks


def reward_curve(steps: pd.DataFrame) -> np.ndarray:
    """The trailing mean of the reward over ten steps, of shape (steps,); NaN if none of them has a reward."""
    return steps["reward"].rolling(LAST_STEPS, min_periods=1).mean().to_numpy()


def time_to(steps: pd.DataFrame, target: float) -> float:
    """Seconds of training until the reward has reached a target; NaN if it never does.

    The target is reached at the first step where both the mean over the ten steps up to it and the mean over the ten
    after it are at least the target. Lucky steps may pass the first test but not the second, which shares no response
    with it. Towards the end fewer steps follow; after the last step none do, and the curve alone decides, as it does
    for the target itself.
    """
    after = steps["reward"][::-1].rolling(LAST_STEPS, min_periods=1).mean()[::-1].shift(-1).to_numpy()
    reached = (reward_curve(steps) >= target) & ~(after < target)  # after the last step this is NaN, which is not below
    return float(steps["elapsed_s"].to_numpy()[reached.argmax()]) if reached.any() else np.nan


def reward_at(steps: pd.DataFrame, seconds: float) -> float:
    """The curve's value at the last step that had ended by then; NaN before the end of the first."""
    done = int((steps["elapsed_s"] <= seconds).sum())
    return float(reward_curve(steps)[done - 1]) if done else np.nan


def accuracy_at(run: RunResults, benchmark: str, seconds: float) -> float:
    """Accuracy after so many seconds of training, interpolated linearly between the models kept before and after.

    NaN before the first of them, and if the run kept none.
    """
    curve = accuracy_curve(run, benchmark)
    return float(np.interp(seconds, curve["elapsed_s"], curve["accuracy"], left=np.nan)) if len(curve) else np.nan


def accuracy_curve(run: RunResults, benchmark: str) -> pd.DataFrame:
    """Columns step, elapsed_s and accuracy, for the models that a run kept and its last one.

    Empty if it kept none, or is being trained again.
    """
    kept = (run.evaluation or {}).get("kept", {}) if len(run.steps) >= run.planned_steps else {}
    found = {int(step): metrics[benchmark]["accuracy"] for step, metrics in kept.items() if benchmark in metrics}
    if found:
        found[len(run.steps)] = run.evaluation["benchmarks"][benchmark]["accuracy"]
    steps = sorted(found)
    elapsed = run.steps["elapsed_s"].to_numpy()[[step - 1 for step in steps]] if steps else []
    return pd.DataFrame({"step": steps, "elapsed_s": elapsed, "accuracy": [found[step] for step in steps]})


def at_end(run: RunResults, columns: Sequence[str]) -> dict[str, float | None]:
    """A run at its end: wall_s, the last value of the reward curve, and accuracies if it was evaluated."""
    known = {"wall_s": run.steps["elapsed_s"].iloc[-1], "reward": reward_curve(run.steps)[-1]}
    return {name: known[name] if name in known else (run.summary or {}).get(name) for name in columns}


def qualities_of(runs: Sequence[RunResults]) -> dict[str, str]:
    """The columns of the reward and of every benchmark, by name."""
    names = benchmarks(pd.DataFrame([run.summary for run in runs if run.summary]))
    return {"reward": "reward", **{name: f"accuracy_{name}" for name in names}}
