"""Whether the wall clocks of runs can be compared: other work on the machine slows a run down.

A run's stretch is its wall clock over its processor time. Arms of one model, algorithm and stack on one kind of machine
do the same kind of work in different amounts, so their stretches are similar; that of a run that shared its processors
is larger.
"""

from __future__ import annotations

from collections.abc import Collection

import pandas as pd

from analysis.cells import SECTION

MAX_STRETCH_RATIO = 1.25  # [ours] largest over smallest stretch; above it wall clocks cannot be compared


def uneven_clocks(runs: pd.DataFrame) -> dict[str, str]:
    """The models, algorithms and stacks whose wall clocks cannot, or may not, be compared, with a sentence on each.

    Parameters
    ----------
    runs : DataFrame
        One row per run (see `analysis.results.summary.summarize_run`): model, algorithm, stack, group, seed, wall_s and
        processor_s, which is NaN or None if it was not recorded.
    """
    sections = {"/".join(section): rows for section, rows in runs.groupby(SECTION, sort=False)} if len(runs) else {}
    return {name: sentence for name, rows in sections.items() if (sentence := _judge(name, rows)) is not None}


def clock_verdict(uneven: Collection[str], arms: pd.DataFrame) -> str:
    """A sentence for the verdict if some hours cannot be compared, with what processor time says; otherwise empty.

    `uneven` are the sections of `uneven_clocks`; `arms` has one row per arm (see
    `analysis.tables.arms.summarize_arms`).
    """
    if not uneven:
        return ""
    controlled = arms[~arms["group"].str.isdigit()].dropna(subset="processor_s_vs_static16")
    ratios = ", ".join(
        f"{name} {rows['processor_s_vs_static16'].mean():.2f}" for name, rows in controlled.groupby("group")
    )
    known = f"; relative processor time of the same arms: {ratios}" if ratios else ""
    return f"Hours cannot, or may not, be compared in {' and '.join(uneven)} (see below){known}."


def _judge(section: str, rows: pd.DataFrame) -> str | None:
    if len(rows) < 2:
        return None
    stretch = rows["wall_s"] / rows["processor_s"].astype(float)
    if unknown := int(stretch.isna().sum()):
        return (
            f"{section}: it is unknown whether wall clocks can be compared, because {unknown} of {len(rows)} runs have "
            "no processor time."
        )
    low, high = stretch.idxmin(), stretch.idxmax()
    if stretch[high] / stretch[low] <= MAX_STRETCH_RATIO:
        return None
    return (
        f"{section}: wall clocks cannot be compared, because other work shared the machine: a second of processor time "
        f"took {stretch[low]:.2f} s in {_named(rows.loc[low])} and {stretch[high]:.2f} s in {_named(rows.loc[high])}. "
        "Compare processor time or tokens instead."
    )


def _named(row: pd.Series) -> str:
    return f"{row['group']}/seed{row['seed']}"
