"""Arms at equal cost: time to a given accuracy, accuracy at a given time, and the front of accuracy against hours.

All arms do the same number of steps, and fast ones finish early: comparing only the ends of training compares them at
unequal cost. So the curves of the training reward are compared (see `analysis.tables.curves`) and, if runs kept models
on the way (`training.keep_model_every`), their accuracy on the benchmarks at equal time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from analysis.cells import REFERENCE, SECTION
from analysis.results.arms import Arms, Section, arms_by_cell, trained
from analysis.results.runs import RunResults
from analysis.statistics import INTERVAL, Comparison, against, mean_and_error, over_common, paired_ratio
from analysis.tables.curves import (
    accuracy_at,
    accuracy_curve,
    at_end,
    qualities_of,
    reward_at,
    reward_curve,
    time_to,
)
from analysis.tables.rivals import pareto_front
from analysis.tables.table import Row

FRONT, KEPT = "front_", "kept_"
COMPARISON_COLUMNS = [
    *(*SECTION, "group", "seeds", "reference", "target", "reached", "reached_share"),
    *("time_to_target_s", "time_to_target_s_se", "time_to_target_at_least_s"),
    *(f"time_vs_reference{part}" for part in (*INTERVAL, "_at_least", "_at_most")),
    *("budget_s", "reward_at_budget", "reward_at_budget_se"),
    *(f"reward_vs_reference{part}" for part in INTERVAL),
]


def equal_cost(runs: Sequence[RunResults]) -> pd.DataFrame:
    """One row per arm, from the runs that finished training; all NaN if an arm has none.

    Parameters
    ----------
    runs : sequence of RunResults
        In natural order, as `analysis.results.runs.load_results` gives them.

    Returns
    -------
    DataFrame
        model, algorithm, stack, group : the arm.
        seeds : number of its runs that finished training.
        reference : the group that the arms of a cell are compared with: static 16, or the largest static size that
        has a trained run if 16 has none; None if no static arm has one.
        target : last value of the reference's reward curve, mean over seeds. The same for the whole cell.
        reached, reached_share : number and share of the seeds whose run reached the target (see `time_to`).
        time_to_target_s, _se : seconds of training, mean over the seeds and its standard error; NaN if a seed did not
        reach the target, since the mean over the others would be biased towards lucky seeds.
        time_to_target_at_least_s : set in that case: the mean with the whole training time for seeds that did not
        reach the target (a restricted mean).
        time_vs_reference, _low, _high, _n : time relative to the reference's, as the geometric mean over common seeds,
        its 95 % paired t interval, and the number of these seeds; all but the number are NaN if a seed did not reach
        the target in one of the arms.
        time_vs_reference_at_least, _at_most : set in that case, with the whole training time for seeds that did not
        reach the target: at_least if these are all the arm's, at_most if all the reference's. If both have some, the
        ratio is unknown.
        budget_s : seconds of training that every run of the cell had: the time when its fastest run ended.
        reward_at_budget, reward_at_budget_se : the curve's value then (see `reward_at`), mean over seeds and error.
        reward_vs_reference, _low, _high, _n : mean difference from the reference's, its paired t interval, and the
        number of common seeds.
        kept_B, _se, kept_B_vs_reference, _low, _high, _n : likewise the accuracy at that time (see `accuracy_at`) on
        each benchmark B that kept models were evaluated on.
        wall_s, wall_s_se : seconds of all steps.
        reward, accuracy_B, and their _se : the curve's last value, and accuracy on each benchmark B over the seeds that
        were evaluated.
        front_reward, front_B : whether the arm is on the cell's front of reward, or of accuracy on B, against wall_s
        (see `pareto_front`).
    """
    qualities = qualities_of(runs)
    ends = ["wall_s", *qualities.values()]
    kept = [name for name in qualities if any(len(accuracy_curve(run, name)) for run in runs)]
    rows = []
    for section, arms in arms_by_cell(runs).items():
        cell = _cell_rows(section, arms, ends, kept)
        for name, column in qualities.items():
            front = pareto_front(*(np.array([row[key] for row in cell]) for key in ("wall_s", column)))
            cell = [row | {FRONT + name: bool(is_on)} for row, is_on in zip(cell, front, strict=True)]
        rows += cell
    measured = (column for name in ends for column in (name, f"{name}_se"))
    then = (f"{KEPT}{name}{of}" for name in kept for of in ("", "_se", *(f"_vs_reference{i}" for i in INTERVAL)))
    return pd.DataFrame(rows, columns=[*COMPARISON_COLUMNS, *then, *measured, *(FRONT + name for name in qualities)])


def _cell_rows(section: Section, arms: Arms, ends: Sequence[str], kept: Sequence[str]) -> list[Row]:
    """The rows of `equal_cost` for one cell, without the front."""
    arms = {group: trained(seeds) for group, seeds in arms.items()}
    reference = _reference(arms)
    target = _mean(reward_curve(run.steps)[-1] for run in arms.get(reference, {}).values())[0]
    budget = min((run.steps["elapsed_s"].iloc[-1] for seeds in arms.values() for run in seeds.values()), default=np.nan)
    measured = {
        group: pd.DataFrame(
            {seed: _measure(run, target, budget, ends, kept) for seed, run in seeds.items()},
            index=["time_to_target_s", "reward_at_budget", *ends, *(KEPT + name for name in kept)],
            dtype=float,
        ).T
        for group, seeds in arms.items()
    }
    rows = []
    for group, own in measured.items():
        row = dict(zip(SECTION, section, strict=True)) | {"group": group, "seeds": len(own), "reference": reference}
        row |= {"target": target, "budget_s": budget}
        for name in own.columns:
            row[name], row[f"{name}_se"] = _mean(own[name])
        rows.append(row | _time_to_target(own, target) | _against_reference(own, measured.get(reference)))
    return rows


def _reference(arms: Arms) -> str | None:
    static = [group for group, seeds in arms.items() if group.isdigit() and seeds]
    return REFERENCE if REFERENCE in static else max(static, key=int, default=None)


def _measure(
    run: RunResults, target: float, budget: float, ends: Sequence[str], kept: Sequence[str]
) -> dict[str, float | None]:
    return {
        "time_to_target_s": time_to(run.steps, target),
        "reward_at_budget": reward_at(run.steps, budget),
        **at_end(run, ends),
        **{KEPT + name: accuracy_at(run, name, budget) for name in kept},
    }


def _mean(values: Iterable[float]) -> tuple[float, float]:
    """Mean and standard error, ignoring missing values; NaN, NaN if there are no others."""
    values = pd.Series(list(values), dtype=float).dropna().to_numpy()
    return mean_and_error(values) if len(values) else (np.nan, np.nan)


def _time_to_target(own: pd.DataFrame, target: float) -> dict[str, float]:
    """Time to the target over an arm's seeds, censored if a run ended before it reached the target."""
    times = own["time_to_target_s"]
    reached = int(times.notna().sum())
    row = {"reached": reached, "reached_share": np.nan, "time_to_target_at_least_s": np.nan}
    if len(own) and not np.isnan(target):
        row["reached_share"] = reached / len(own)
        if reached < len(own):
            row |= {"time_to_target_s": np.nan, "time_to_target_s_se": np.nan}
            row["time_to_target_at_least_s"] = _known_times(own).mean()
    return row


def _known_times(own: pd.DataFrame) -> pd.Series:
    """Seconds to the target, or of the whole training for seeds that did not reach it."""
    return own["time_to_target_s"].fillna(own["wall_s"])


def _against_reference(own: pd.DataFrame, reference: pd.DataFrame | None) -> dict[str, float]:
    """Time to the target as a ratio; reward and accuracy at the budget as differences."""
    time = _time_against(own, own.iloc[:0] if reference is None else reference)
    then = {"reward_at_budget": "reward", **{name: name for name in own if name.startswith(KEPT)}}
    arms = [arm if arm is None else arm[list(then)].rename(columns=then) for arm in (own, reference)]
    return time | against(*arms, "reference", differences=then.values())


def _time_against(own: pd.DataFrame, reference: pd.DataFrame) -> dict[str, float]:
    """The ratio of the times to the target; a bound on it if seeds of one arm did not reach it."""
    seeds = own.index.intersection(reference.index)
    late = [bool(arm.loc[seeds, "time_to_target_s"].isna().any()) for arm in (own, reference)]
    ratio = over_common(paired_ratio, _known_times(own), _known_times(reference))
    shown = Comparison(np.nan, np.nan, np.nan, ratio.n) if any(late) else ratio
    return shown.columns("time_vs_reference") | {
        "time_vs_reference_at_least": ratio.value if late == [True, False] else np.nan,
        "time_vs_reference_at_most": ratio.value if late == [False, True] else np.nan,
    }
