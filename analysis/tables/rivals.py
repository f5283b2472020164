"""Accuracy against hours: which arms are on the front, and which static arms are as good as a controlled one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.cells import SECTION
from analysis.results.arms import Arms, arms_by_cell, trained
from analysis.results.runs import RunResults
from analysis.statistics import INTERVAL, Comparison, paired_difference, paired_ratio
from analysis.tables.curves import at_end, qualities_of

RIVAL_COLUMNS = [
    *(*SECTION, "group", "quality", "static"),
    *(f"{name}{part}" for name in ("difference", "time") for part in INTERVAL),
    "as_good",
]
NO_WORSE = 0.01  # of reward or accuracy; about the standard error of an accuracy over its problems here


def pareto_front(hours: np.ndarray, accuracy: np.ndarray) -> np.ndarray:
    """Whether no other point is at least as good in both time (less) and accuracy (more), and better in one.

    Parameters
    ----------
    hours, accuracy : numpy.ndarray
        (points,) in any unit. A point with a NaN is never on the front, and keeps no other off it. Of two equal
        points, both or neither are on it.

    Returns
    -------
    numpy.ndarray
        (points,) of bool.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.tables.rivals import pareto_front
    >>> pareto_front(np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.7, 0.6]))
    array([ True,  True, False])
    """
    no_worse = (hours <= hours[:, None]) & (accuracy >= accuracy[:, None])  # [i, j]: j against i
    better = (hours < hours[:, None]) | (accuracy > accuracy[:, None])
    return ~(no_worse & better).any(axis=1) & ~np.isnan(hours) & ~np.isnan(accuracy)


def compare_with_static(runs: Sequence[RunResults]) -> pd.DataFrame:
    """Every controlled arm against every static arm of its cell.

    Parameters
    ----------
    runs : sequence of RunResults
        In natural order, as from `analysis.results.runs.load_results`. Those that did not finish training are ignored.

    Returns
    -------
    DataFrame
        model, algorithm, stack, group : the controlled arm.
        quality : reward, or a benchmark.
        static : the static arm; no row unless both arms have a value of the quality for a common seed.
        difference, _low, _high, _n : the static arm's quality minus the controlled arm's: mean over common seeds, its
        95 % paired t interval, and the number of seeds.
        time, _low, _high, _n : likewise the static arm's seconds relative to the controlled arm's, the geometric mean.
        as_good : whether the static arm is as good in no more time. With several seeds, judged by the intervals: that
        of difference is above -NO_WORSE, that of time not above 1. With one seed: difference is at least 0, time at
        most 1.
    """
    qualities = qualities_of(runs)
    rows = []
    for section, arms in arms_by_cell(runs).items():
        cell = dict(zip(SECTION, section, strict=True))
        rows += [cell | row for row in _rivals_of_cell(arms, qualities)]
    return pd.DataFrame(rows, columns=RIVAL_COLUMNS)


def _rivals_of_cell(arms: Arms, qualities: dict[str, str]) -> list[dict]:
    columns = ["wall_s", *qualities.values()]
    ends = {
        group: pd.DataFrame(
            {seed: at_end(run, columns) for seed, run in trained(seeds).items()}, index=columns, dtype=float
        ).T
        for group, seeds in arms.items()
    }
    rows = []
    for group in (group for group in arms if not group.isdigit()):
        for quality, column in qualities.items():
            for static in (group for group in arms if group.isdigit()):
                seeds = (ends[static][column] - ends[group][column]).dropna().index
                if len(seeds):
                    pair = [ends[arm].loc[seeds] for arm in (static, group)]
                    difference = paired_difference(*(arm[column].to_numpy() for arm in pair))
                    time = paired_ratio(*(arm["wall_s"].to_numpy() for arm in pair))
                    row = {"group": group, "quality": quality, "static": static}
                    row |= difference.columns("difference") | time.columns("time")
                    rows.append(row | {"as_good": _as_good(difference, time)})
    return rows


def _as_good(difference: Comparison, time: Comparison) -> bool:
    if difference.n == 1:
        return difference.value >= 0 and time.value <= 1
    return difference.low > -NO_WORSE and time.high <= 1
