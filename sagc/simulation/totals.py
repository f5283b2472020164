"""What simulated steps add up to: rates, sizes, and hours per step and per sample."""

from __future__ import annotations

import numpy as np
import pandas as pd

from sagc.lengths import idle_fraction


def summarize_steps(steps: pd.DataFrame) -> dict[str, float]:
    """The sums and means of an arm's steps.

    Parameters
    ----------
    steps : DataFrame
        As of `sagc.simulation.steps.simulate`; not empty.

    Returns
    -------
    dict
        straggler_rate, mean_group_size, mean_log2 (of G), mean_inverse (of G) : means over the steps.
        idle_fraction : of all steps together (see `sagc.lengths.idle_fraction`), each of one round.
        moves : changes of the size per 100 steps.
        samples, preemptions : sums.
        hours : of all steps.
        hours_per_sample : hours per 100 000 samples trained on.
        barrier_share, rows_share : of the hours, what the slowest engine's iterations took by themselves, and its rows.
    """
    sizes = steps["group_size"].to_numpy(dtype=float)
    seconds, samples = steps["step_s"].sum(), int(steps["samples"].sum())
    return {
        "straggler_rate": steps["straggler_rate"].mean(),
        "idle_fraction": float(idle_fraction(steps["tokens"].sum(), (steps["samples"] * steps["max_length"]).sum())),
        "mean_group_size": sizes.mean(),
        "mean_log2": np.log2(sizes).mean(),
        "mean_inverse": (1 / sizes).mean(),
        "moves": moves_per_100(sizes),
        "samples": samples,
        "preemptions": int(steps["preemptions"].sum()),
        "hours": seconds / 3600,
        "hours_per_sample": seconds / 3600 / samples * 1e5,
        "barrier_share": steps["barrier_s"].sum() / seconds,
        "rows_share": steps["rows_s"].sum() / seconds,
    }


def moves_per_100(sizes: np.ndarray) -> float:
    """How often per 100 steps the next size is another one; 0 for a single step."""
    return 100 * float(np.count_nonzero(np.diff(sizes))) / max(1, len(sizes) - 1)
