"""The arms of each model, algorithm and stack over their seeds: what training cost, and what it achieved.

An arm is compared with static 16, and with the best static arm: a fixed smaller size is often a strong baseline.
"""

from __future__ import annotations

import pandas as pd

from analysis.cells import REFERENCE, SECTION
from analysis.statistics import against, mean_and_error
from analysis.tables.runs import benchmarks

COSTS = ("wall_s", "rollout_s", "processor_s", "tokens")  # compared as ratios
MEANS = ("straggler_rate", "idle_fraction", "filtered_share", "mean_group_size", *COSTS, "reward")
BEST_STATIC = "best_static"


def summarize_arms(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per arm.

    Parameters
    ----------
    frame : DataFrame
        One row per run (see `analysis.results.summary.summarize_run`).

    Returns
    -------
    DataFrame
        model, algorithm, stack, group : the arm.
        seeds : number of its runs.
        X, X_se : mean over seeds and its standard error, for MEANS and the accuracy on every benchmark; the error is
        NaN with one seed.
        best_static : the static size with the highest mean accuracy over the benchmarks (the highest reward if there
        are none); the cheaper one in a tie.
        C_vs_R, C_vs_R_low, C_vs_R_high, C_vs_R_n : for each cost C and R in static16 and best_static, cost relative to
        R's, as the geometric mean over common seeds, its 95 % paired t interval (NaN with one seed), and the number of
        common seeds.
        A_vs_R and so on : likewise for reward and accuracies, the mean difference.
    """
    qualities = ["reward", *(f"accuracy_{name}" for name in benchmarks(frame))]
    rows = []
    for section, cell in frame.groupby(SECTION, sort=False):
        arms = {group: runs.set_index("seed") for group, runs in cell.groupby("group", sort=False)}
        best = _best_static(arms, qualities)
        for group, runs in arms.items():
            row = {**dict(zip(SECTION, section, strict=True)), "group": group, "seeds": len(runs)}
            for name in dict.fromkeys([*MEANS, *qualities]):
                row[name], row[f"{name}_se"] = mean_and_error(runs[name].to_numpy(dtype=float))
            row[BEST_STATIC] = best
            for label, reference in (("static16", REFERENCE), (BEST_STATIC, best)):
                row |= against(runs, arms.get(reference), label, COSTS, qualities)
            rows.append(row)
    return pd.DataFrame(rows)


def _best_static(arms: dict[str, pd.DataFrame], qualities: list[str]) -> str | None:
    static = [group for group in arms if group.isdigit()]
    decisive = qualities[1:] or qualities

    def rank(group: str) -> tuple[float, float]:
        return arms[group][decisive].mean(axis=None), -arms[group]["wall_s"].mean()

    return max(static, key=rank, default=None)
