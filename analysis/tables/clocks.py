"""Whether the seconds of runs can be compared: other work on the machine is in the wall clock of a run.

A run's stretch is its wall clock over its processor time. Arms of one model, algorithm and stack on one kind of machine
do the same work in other amounts, so that their stretches are alike; one that had to share its processor has a larger.
"""

from __future__ import annotations

from collections.abc import Collection

import pandas as pd

from analysis.cells import SECTION

UNEVEN = 1.25  # [ours] of the largest stretch to the smallest: beyond it wall clock does not compare


def uneven_clocks(runs: pd.DataFrame) -> dict[str, str]:
    """The models, algorithms and stacks whose runs' wall clocks do not compare, or may not, and a sentence for each.

    Parameters
    ----------
    runs : DataFrame
        One row per run (see `analysis.results.summary.summarize_run`): model, algorithm, stack, group, seed, wall_s and
        processor_s, which is NaN or None where it was not recorded.
    """
    sections = {"/".join(section): rows for section, rows in runs.groupby(SECTION, sort=False)} if len(runs) else {}
    return {name: sentence for name, rows in sections.items() if (sentence := _judge(name, rows)) is not None}


def clock_verdict(uneven: Collection[str], arms: pd.DataFrame) -> str:
    """One sentence for a verdict whose hours do not compare, with what processor time says; none where all do.

    `uneven` are the sections of `uneven_clocks`; `arms` has one row per arm (see
    `analysis.tables.arms.summarize_arms`).
    """
    if not uneven:
        return ""
    controlled = arms[~arms["group"].str.isdigit()].dropna(subset="processor_s_vs_static16")
    ratios = ", ".join(
        f"{name} {rows['processor_s_vs_static16'].mean():.2f}" for name, rows in controlled.groupby("group")
    )
    known = f"; of its processor time the same arms take {ratios}" if ratios else ""
    return f"Hours do not compare, or may not, in {' and '.join(uneven)} (see below){known}."


def _judge(section: str, rows: pd.DataFrame) -> str | None:
    if len(rows) < 2:
        return None
    stretch = rows["wall_s"] / rows["processor_s"].astype(float)
    if unknown := int(stretch.isna().sum()):
        return (
            f"{section}: whether wall clock compares is not known, because {unknown} of {len(rows)} runs have no "
            "processor time."
        )
    low, high = stretch.idxmin(), stretch.idxmax()
    if stretch[high] / stretch[low] <= UNEVEN:
        return None
    return (
        f"{section}: wall clock does not compare, because other work shared the machine: a second of processor time "
        f"took {stretch[low]:.2f} s in {_named(rows.loc[low])} and {stretch[high]:.2f} s in {_named(rows.loc[high])}. "
        "Compare processor time or tokens instead."
    )


def _named(row: pd.Series) -> str:
    return f"{row['group']}/seed{row['seed']}"
