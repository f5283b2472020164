"""Arms at equal cost: time to a given accuracy, accuracy at a given time, and the front of accuracy against hours.

Every arm does the same number of steps, and the quick ones are done early: the end of training alone compares them at
unequal cost. What is compared is the curve of the training reward, the outcome reward of the step's responses as a
trailing mean over ten steps. The first nine steps are means over what there is. Where runs kept models on the way
(`training.keep_model_every`), their accuracy on the benchmarks is compared at equal time, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.cells import REFERENCE, SECTION
from analysis.results.runs import RunResults
from analysis.results.summary import LAST_STEPS
from analysis.statistics import INTERVAL, Comparison, mean_and_error, over_common, paired_difference, paired_ratio
from analysis.tables.runs import benchmarks
from analysis.tables.table import (
    MISSING,
    PLUS_MINUS,
    Column,
    Row,
    Table,
    by_seeds,
    number,
    with_error,
    with_interval,
)

Section = tuple[str, str, str]
Arms = dict[str, dict[int, RunResults]]  # group -> seed -> run
FRONT, KEPT = "front_", "kept_"
COMPARED = [
    *(*SECTION, "group", "seeds", "reference", "target", "reached", "reached_share"),
    *("time_to_target_s", "time_to_target_s_se", "time_to_target_at_least_s"),
    *(f"time_vs_reference{part}" for part in (*INTERVAL, "_at_least", "_at_most")),
    *("budget_s", "reward_at_budget", "reward_at_budget_se"),
    *(f"reward_vs_reference{part}" for part in INTERVAL),
]
RIVALS = [
    *(*SECTION, "group", "quality", "static"),
    *(f"{name}{part}" for name in ("difference", "time") for part in INTERVAL),
    "as_good",
]
NO_WORSE = 0.01  # of reward or accuracy, one in a hundred: here about an accuracy's standard error over its problems


def equal_cost(runs: Sequence[RunResults]) -> pd.DataFrame:
    """One row per arm, of the runs that are trained to their end; all NaN where an arm has none.

    Parameters
    ----------
    runs : sequence of RunResults
        In natural order, as `analysis.results.runs.load_results` gives them.

    Returns
    -------
    DataFrame
        model, algorithm, stack, group : the arm.
        seeds : number of its runs that are trained to their end.
        reference : the group that the arms of a cell are compared with: static 16, or the largest static size where
        it has no trained run; None where no static arm has.
        target : reward, the reference's mean over seeds of the curve's last value. The same for the whole cell.
        reached, reached_share : number and share of the seeds whose run reached the target (see `time_to`).
        time_to_target_s, _se : seconds of training, mean over the seeds and its standard error; NaN where a seed has
        not reached the target, as a mean over the others would be that of the lucky ones.
        time_to_target_at_least_s : then this, the mean of what is known: a seed that has not reached the target took
        at least its whole training (a restricted mean).
        time_vs_reference, _low, _high, _n : time relative to the reference's, as the geometric mean over common seeds,
        its 95 % paired t interval, and the number of these seeds; NaN but for the last where one of them has not
        reached the target in one of the arms.
        time_vs_reference_at_least, _at_most : then this, with what is known in the place of the time: where it was only
        the arm's seeds, or only the reference's, that did not reach it. Where it was both the ratio is not known.
        budget_s : seconds of training that every run of the cell has had: when its quickest run ended.
        reward_at_budget, reward_at_budget_se : the curve's value then (see `reward_at`), mean over seeds and error.
        reward_vs_reference, _low, _high, _n : mean difference to the reference's then, its paired t interval, and the
        number of common seeds.
        kept_B, _se, kept_B_vs_reference, _low, _high, _n : likewise the accuracy then (see `accuracy_at`) on each
        benchmark B that kept models have been evaluated on.
        wall_s, wall_s_se : seconds of all steps.
        reward, accuracy_B, and their _se : the curve's last value, and accuracy on each benchmark B of the seeds that
        are evaluated.
        front_reward, front_B : whether the arm is on the cell's front of that against wall_s (see `pareto_front`).
    """
    qualities = _qualities_of(runs)
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
    return pd.DataFrame(rows, columns=[*COMPARED, *then, *measured, *(FRONT + name for name in qualities)])


def _qualities_of(runs: Sequence[RunResults]) -> dict[str, str]:
    """The reward and every benchmark, and their columns."""
    names = benchmarks(pd.DataFrame([run.summary for run in runs if run.summary]))
    return {"reward": "reward", **{name: f"accuracy_{name}" for name in names}}


def arms_by_cell(runs: Sequence[RunResults]) -> dict[Section, Arms]:
    """The runs per model, algorithm and stack, and there per group and seed."""
    cells: dict[Section, Arms] = {}
    for run in runs:
        section = tuple(run.cell[name] for name in SECTION)
        cells.setdefault(section, {}).setdefault(run.cell["group"], {})[run.cell["seed"]] = run
    return cells


def trained(seeds: dict[int, RunResults]) -> dict[int, RunResults]:
    """The runs of an arm that have done all their steps."""
    return {seed: run for seed, run in seeds.items() if len(run.steps) >= max(1, run.planned_steps)}


# The reward curve ----------------------------------------------------------------------------------------------------


def reward_curve(steps: pd.DataFrame) -> np.ndarray:
    """The trailing mean of the reward over ten steps, of shape (steps,); NaN where none of them has a reward."""
    return steps["reward"].rolling(LAST_STEPS, min_periods=1).mean().to_numpy()


def time_to(steps: pd.DataFrame, target: float) -> float:
    """Seconds of training until the reward has reached a target; NaN where it never does.

    It has at the first step where the mean over the ten steps up to it is at the target, and the mean over the ten
    after it, too. A lucky step, or ten of them, would win the first of these and not the second, which shares no
    response with it. Towards the end fewer steps come after, and after the last none, so that there the curve decides:
    the target is a value of this kind, too.
    """
    after = steps["reward"][::-1].rolling(LAST_STEPS, min_periods=1).mean()[::-1].shift(-1).to_numpy()
    reached = (reward_curve(steps) >= target) & ~(after < target)  # nothing after is NaN, and not below
    return float(steps["elapsed_s"].to_numpy()[reached.argmax()]) if reached.any() else np.nan


def reward_at(steps: pd.DataFrame, seconds: float) -> float:
    """The curve's value at the last step that had ended after so many seconds of training; NaN before the first."""
    done = int((steps["elapsed_s"] <= seconds).sum())
    return float(reward_curve(steps)[done - 1]) if done else np.nan


def accuracy_at(run: RunResults, benchmark: str, seconds: float) -> float:
    """Accuracy after so many seconds of training, on a line between the models that were kept before and after.

    NaN before the first of them, and where a run kept none.
    """
    curve = accuracy_curve(run, benchmark)
    return float(np.interp(seconds, curve["elapsed_s"], curve["accuracy"], left=np.nan)) if len(curve) else np.nan


def accuracy_curve(run: RunResults, benchmark: str) -> pd.DataFrame:
    """Columns step, elapsed_s and accuracy, of the models that a run kept and its last one.

    Empty where it kept none, and where it is being trained anew.
    """
    kept = (run.evaluation or {}).get("kept", {}) if len(run.steps) >= run.planned_steps else {}
    found = {int(step): metrics[benchmark]["accuracy"] for step, metrics in kept.items() if benchmark in metrics}
    if found:
        found[len(run.steps)] = run.evaluation["benchmarks"][benchmark]["accuracy"]
    steps = sorted(found)
    elapsed = run.steps["elapsed_s"].to_numpy()[[step - 1 for step in steps]] if steps else []
    return pd.DataFrame({"step": steps, "elapsed_s": elapsed, "accuracy": [found[step] for step in steps]})


# The front -----------------------------------------------------------------------------------------------------------


def pareto_front(hours: np.ndarray, accuracy: np.ndarray) -> np.ndarray:
    """Whether no other point is at least as good in both, less time and more accuracy, and better in one.

    Parameters
    ----------
    hours, accuracy : numpy.ndarray
        (points,) in any unit. A point with a NaN is never on the front, and keeps no other from it. Of two equal
        points both or neither are on it.

    Returns
    -------
    numpy.ndarray
        (points,) of bool.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.tables.equal_cost import pareto_front
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
        In natural order, as `analysis.results.runs.load_results` gives them. Those that are not trained to their end do
        not count.

    Returns
    -------
    DataFrame
        model, algorithm, stack, group : the controlled arm.
        quality : reward, or a benchmark.
        static : the static arm; no row where no seed of both has a value of the quality.
        difference, _low, _high, _n : the static arm's quality minus the controlled arm's, mean over common seeds, its
        95 % paired t interval, and their number.
        time, _low, _high, _n : likewise the static arm's seconds relative to the controlled arm's, the geometric mean.
        as_good : whether the static arm is as good in no more time. With several seeds by the intervals: that of
        difference is above -NO_WORSE, that of time not above 1. With one seed, which has none: difference is at least
        0, time at most 1.
    """
    qualities = _qualities_of(runs)
    rows = []
    for section, arms in arms_by_cell(runs).items():
        cell = dict(zip(SECTION, section, strict=True))
        rows += [cell | row for row in _rivals_of_cell(arms, qualities)]
    return pd.DataFrame(rows, columns=RIVALS)


def _rivals_of_cell(arms: Arms, qualities: dict[str, str]) -> list[dict]:
    columns = ["wall_s", *qualities.values()]
    ends = {
        group: pd.DataFrame(
            {seed: _at_end(run, columns) for seed, run in trained(seeds).items()}, index=columns, dtype=float
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


# Rows of a cell ------------------------------------------------------------------------------------------------------


def _cell_rows(section: Section, arms: Arms, ends: Sequence[str], kept: Sequence[str]) -> list[Row]:
    """The rows of `equal_cost` of one cell, without the front."""
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
        rows.append(row | _time_to_target(own, target) | _against(own, measured.get(reference)))
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
        **_at_end(run, ends),
        **{KEPT + name: accuracy_at(run, name, budget) for name in kept},
    }


def _at_end(run: RunResults, columns: Sequence[str]) -> dict[str, float | None]:
    """What a run has come to: wall_s, the reward curve's last value, and accuracies where it is evaluated."""
    known = {"wall_s": run.steps["elapsed_s"].iloc[-1], "reward": reward_curve(run.steps)[-1]}
    return {name: known[name] if name in known else (run.summary or {}).get(name) for name in columns}


def _mean(values: Iterable[float]) -> tuple[float, float]:
    """Mean and standard error of the values that are there; NaN, NaN where none is."""
    values = pd.Series(list(values), dtype=float).dropna().to_numpy()
    return mean_and_error(values) if len(values) else (np.nan, np.nan)


def _time_to_target(own: pd.DataFrame, target: float) -> dict[str, float]:
    """The times of an arm's seeds, censored where a run ended before it had reached the target."""
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
    """Seconds to the target, or of the whole training for a seed that has not reached it."""
    return own["time_to_target_s"].fillna(own["wall_s"])


def _against(own: pd.DataFrame, reference: pd.DataFrame | None) -> dict[str, float]:
    """Time as a ratio, reward and accuracy then as differences, over the seeds that both arms have."""
    row = _time_against(own, own.iloc[:0] if reference is None else reference)
    then = [(name, name) for name in own.columns if name.startswith(KEPT)]
    for name, measure in (("reward", "reward_at_budget"), *then):
        other = None if reference is None else reference[measure]
        row |= over_common(paired_difference, own[measure], other).columns(f"{name}_vs_reference")
    return row


def _time_against(own: pd.DataFrame, reference: pd.DataFrame) -> dict[str, float]:
    """The ratio of the times to the target; a bound of it where seeds of one arm have not reached it."""
    seeds = own.index.intersection(reference.index)
    late = [bool(arm.loc[seeds, "time_to_target_s"].isna().any()) for arm in (own, reference)]
    ratio = over_common(paired_ratio, _known_times(own), _known_times(reference))
    shown = Comparison(np.nan, np.nan, np.nan, ratio.n) if any(late) else ratio
    return shown.columns("time_vs_reference") | {
        "time_vs_reference_at_least": ratio.value if late == [True, False] else np.nan,
        "time_vs_reference_at_most": ratio.value if late == [False, True] else np.nan,
    }


# Tables --------------------------------------------------------------------------------------------------------------


def write_equal_cost(frame: pd.DataFrame, rivals: pd.DataFrame, folder: Path, clocks: Iterable[str] = ()) -> None:
    """Write equal_cost and pareto, each as .csv, .md and .tex, each whole or not.

    `frame` as of `equal_cost`, `rivals` as of `compare_with_static`, and `clocks` as of `analysis.tables.clocks`.
    """
    compared = [name for name in frame.columns if name in COMPARED or name.startswith(KEPT)]
    front = [*SECTION, "group", "seeds", *(name for name in frame.columns if name not in compared)]
    cost_table(frame, clocks).write(folder / "equal_cost", csv=frame[compared])
    pareto_table(frame, rivals, clocks).write(folder / "pareto", csv=frame[front])


def cost_table(frame: pd.DataFrame, clocks: Iterable[str] = ()) -> Table:
    """Time to the target and reward at the time given, a line per arm."""
    return Table(
        cost_columns(frame),
        frame,
        title="Arms at equal cost",
        notes=[*clocks, _compared(frame)],
        by_section=True,
        said=_what_is_given,
        closing=[TARGET, CENSORED, f"{UNKNOWN}, such as a comparison without an arm to compare with."],
    )


TARGET = (
    f"The reward is a trailing mean over {LAST_STEPS} steps, over fewer in the first {LAST_STEPS - 1}. An arm has "
    f"reached the target at the first step where the mean over the {LAST_STEPS} steps up to it is at least the "
    f"target, and the mean over the {LAST_STEPS} after it (fewer towards the end), too: one lucky step does not "
    "win. The target is where the reference ended, so that one that is still getting better reaches it late."
)
CENSORED = (
    "A seed that has not reached the target might with more steps; all did the same number. Of it no more is known "
    "than that it took at least its whole training, and with that it counts: the mean is then *at least* so much. "
    "A ratio is *at least* so much where only seeds of the arm did not reach the target, *at most* where only "
    "seeds of the reference did not, and left out where seeds of both did not."
)
UNKNOWN = f"{MISSING} stands for what there is not"


def pareto_table(frame: pd.DataFrame, rivals: pd.DataFrame, clocks: Iterable[str] = ()) -> Table:
    """What every arm has come to against its hours, and the static arms as good as a controlled one."""

    def said(rows: pd.DataFrame) -> list[str]:
        own = rivals[(rivals[SECTION] == rows[SECTION].iloc[0].tolist()).all(axis=1)]
        return [_rivals_of(row, own) for row in rows.to_dict(orient="records") if _is_controlled(row)]

    front = (
        "An arm is on the front where no other arm of the cell is at least as good in no more time, and better or "
        f"quicker. The means over seeds decide, whatever their errors. {UNKNOWN}."
    )
    return Table(
        pareto_columns(frame),
        frame,
        title="Accuracy against hours",
        notes=[*clocks, _compared(frame)],
        by_section=True,
        said=said,
        closing=[front, AS_GOOD],
    )


def _compared(frame: pd.DataFrame) -> str:
    if frame.empty:
        return "There is nothing to compare: no run was found."
    if frame["seeds"].max() == 0:
        return "No run is trained to its end yet, so that nothing can be compared."
    limits = by_seeds(
        frame["seeds"],
        "No arm has more than one seed, so that no error and no interval can be given",
        "There are {seeds} seeds of an arm; intervals are 95 % paired t intervals over the n seeds that both arms "
        "have, wide where these are few",
    )
    return f"{limits}. Runs that are not trained to their end are left out."


def _what_is_given(rows: pd.DataFrame) -> list[str]:
    """Target and budget of a cell."""
    cell = rows.iloc[0]
    if pd.isna(cell["budget_s"]):
        return ["No run is trained to its end yet."]
    if cell["reference"] is None:
        target = "There is no static arm, and so no target"
    elif pd.isna(cell["target"]):
        target = f"Static {cell['reference']} has no reward at its end, and so there is no target"
    else:
        target = f"The target is {cell['target']:.3f}, the reward of static {cell['reference']} at its end"
    return [f"{target}; the time given is {cell['budget_s'] / 3600:.3f} hours, when the quickest run ended."]


def _is_controlled(row: Row) -> bool:
    return not row["group"].isdigit() and row["seeds"] > 0


AS_GOOD = (
    "A static arm is as good as a controlled one in no more time where the 95 % intervals over the seeds that both "
    f"have say so: that of the difference is above -{NO_WORSE:g}, that of the ratio of the times not above 1. With one "
    "seed there is no interval, and the two runs decide: at least as good, in no more time."
)


def _rivals_of(own: Row, rivals: pd.DataFrame) -> str:
    """A sentence: which static arms of the cell are as good as a controlled one in no more time, and in what."""
    group = own["group"]
    compared = rivals[rivals["group"] == group]
    if compared.empty:
        return f"There is no static arm to compare {group} with."
    better = [row for row in compared.to_dict(orient="records") if row["as_good"]]
    if not better:
        known = ", ".join(compared["quality"].unique())
        return f"No static arm is as good as {group} in no more time, in any of {known}."
    difference, time = with_interval("difference", "+.3f"), with_interval("time", ".2f")
    arms = [f"static {row['static']} in {row['quality']} ({difference(row)}; time {time(row)})" for row in better]
    return f"As good as {group} in no more time: {', '.join(arms)}."


def _qualities(frame: pd.DataFrame) -> dict[str, str]:
    """The column of the reward and of each benchmark's accuracy."""
    names = [name.removeprefix(FRONT) for name in frame.columns if name.startswith(FRONT)]
    return {name: name if name == "reward" else f"accuracy_{name}" for name in names}


def _first_columns() -> list[Column]:
    return [
        Column("group", "static group size G, or the controller that chooses it", lambda row: row["group"]),
        Column(
            "seeds",
            f"trained to their end; a value is their mean {PLUS_MINUS} its standard error",
            lambda row: str(row["seeds"]),
        ),
    ]


def _hours_to_target(row: Row) -> str:
    known = row["time_to_target_at_least_s"]
    if not pd.isna(known):
        return f"at least {number(known, 3, 1 / 3600)}"
    return with_error("time_to_target_s", 3, 1 / 3600)(row)


def _reached(row: Row) -> str:
    share = row["reached_share"]
    return MISSING if pd.isna(share) else f"{row['reached']} of {row['seeds']} ({number(share, 0, 100)} %)"


def _time_ratio(row: Row) -> str:
    for bound in ("at least", "at most"):
        value = row[f"time_vs_reference_{bound.replace(' ', '_')}"]
        if not pd.isna(value):
            return f"{bound} {value:.2f}, n = {row['time_vs_reference_n']:.0f}"
    return with_interval("time_vs_reference", ".2f")(row)


COST_COLUMNS = [
    *_first_columns(),
    Column(
        "hours to target",
        "of training until the reward was at the target; at least so much where not all seeds reached it",
        _hours_to_target,
    ),
    Column("reached", "seeds that reached the target, and their share", _reached),
    Column(
        "hours / reference",
        "relative to the static arm that sets the target: the geometric mean over the n seeds that both have, with its "
        "95 % paired t interval; a bound, without one, where not all reached it",
        _time_ratio,
    ),
    Column("reward then", "training reward at the time given, the same for all", with_error("reward_at_budget", 3)),
    Column(
        "reward - reference",
        "minus that of the same static arm at that time, with the 95 % paired t interval over n seeds",
        with_interval("reward_vs_reference", "+.3f"),
    ),
]


def cost_columns(frame: pd.DataFrame) -> list[Column]:
    """Time to the target, reward at the time given, and accuracy then where models were kept."""
    columns = [*COST_COLUMNS]
    for then in (name for name in frame.columns if name.startswith(KEPT) and f"{name}_se" in frame.columns):
        name = then.removeprefix(KEPT)
        meaning = (
            f"accuracy on {name}, avg@k, at that time, between the models kept before and after; of seeds with both"
        )
        columns.append(Column(f"{name} then", meaning, with_error(then, 3)))
        against = "minus that of the same static arm then, with the 95 % paired t interval over n seeds"
        columns.append(Column(f"{name} - reference", against, with_interval(f"{then}_vs_reference", "+.3f")))
    return columns


def pareto_columns(frame: pd.DataFrame) -> list[Column]:
    """Hours, and what every arm has come to, with its place on the front."""
    columns = [*_first_columns(), Column("hours", "of all training steps", with_error("wall_s", 3, 1 / 3600))]
    for name, column in _qualities(frame).items():
        meaning = "training reward at the end" if name == "reward" else f"accuracy on {name}, avg@k"
        columns.append(Column(name, meaning, with_error(column, 3)))
        columns.append(
            Column(f"{name}, front", "whether the arm is on the front of that", _on_front(FRONT + name, column))
        )
    return columns


def _on_front(front: str, column: str) -> Callable[[Row], str]:
    return lambda row: MISSING if pd.isna(row[column]) else ("yes" if row[front] else "no")
