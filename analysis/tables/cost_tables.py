"""The tables of arms at equal cost and of accuracy against hours, as Markdown, LaTeX and CSV."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pandas as pd

from analysis.cells import SECTION
from analysis.results.summary import LAST_STEPS
from analysis.tables.equal_cost import COMPARISON_COLUMNS, FRONT, KEPT
from analysis.tables.rivals import NO_WORSE
from analysis.tables.table import (
    MISSING,
    PLUS_MINUS,
    Column,
    Row,
    Table,
    by_seeds,
    group_column,
    number,
    with_error,
    with_interval,
)


def write_equal_cost(frame: pd.DataFrame, rivals: pd.DataFrame, folder: Path, clocks: Iterable[str] = ()) -> None:
    """Write equal_cost and pareto, each as .csv, .md and .tex, atomically.

    `frame` is from `equal_cost`, `rivals` from `compare_with_static`; `clocks` are the sentences of `uneven_clocks`.
    """
    compared = [name for name in frame.columns if name in COMPARISON_COLUMNS or name.startswith(KEPT)]
    front = [*SECTION, "group", "seeds", *(name for name in frame.columns if name not in compared)]
    cost_table(frame, clocks).write(folder / "equal_cost", csv=frame[compared])
    pareto_table(frame, rivals, clocks).write(folder / "pareto", csv=frame[front])


def cost_table(frame: pd.DataFrame, clocks: Iterable[str] = ()) -> Table:
    """Time to the target and reward after the given time, a line per arm."""
    return Table(
        cost_columns(frame),
        frame,
        title="Arms at equal cost",
        notes=[*clocks, _compared(frame)],
        by_section=True,
        section_notes=_target_and_budget,
        closing=[TARGET_NOTE, CENSORED_NOTE, f"{MISSING_NOTE}, such as a comparison with no arm to compare with."],
    )


TARGET_NOTE = (
    f"The reward is a trailing mean over {LAST_STEPS} steps, over fewer in the first {LAST_STEPS - 1}. An arm has "
    f"reached the target at the first step where the mean over the {LAST_STEPS} steps up to it and the mean over the "
    f"{LAST_STEPS} steps after it (fewer towards the end) are both at least the target: one lucky step is not enough. "
    "The target is where the reference ended, so a reference that is still improving reaches it late."
)
CENSORED_NOTE = (
    "A seed that has not reached the target might do so with more steps; all seeds did the same number. All that is "
    "known is that it needs at least its whole training time, which is what it counts with: the mean is then a lower "
    "bound, *at least*. A ratio is *at least* its value if only seeds of the arm missed the target, *at most* if only "
    "seeds of the reference did, and left out if seeds of both did."
)
MISSING_NOTE = f"{MISSING} marks a missing value"


def pareto_table(frame: pd.DataFrame, rivals: pd.DataFrame, clocks: Iterable[str] = ()) -> Table:
    """What every arm achieved against its hours, and which static arms are as good as a controlled one."""

    def section_notes(rows: pd.DataFrame) -> list[str]:
        own = rivals[(rivals[SECTION] == rows[SECTION].iloc[0].tolist()).all(axis=1)]
        return [_rivals_of(row, own) for row in rows.to_dict(orient="records") if _is_controlled(row)]

    front = (
        "An arm is on the front if no other arm of the cell is at least as good in no more time, and better or "
        f"faster. Means over seeds are compared, regardless of their errors. {MISSING_NOTE}."
    )
    return Table(
        pareto_columns(frame),
        frame,
        title="Accuracy against hours",
        notes=[*clocks, _compared(frame)],
        by_section=True,
        section_notes=section_notes,
        closing=[front, AS_GOOD_NOTE],
    )


def _compared(frame: pd.DataFrame) -> str:
    if frame.empty:
        return "There is nothing to compare: no run was found."
    if frame["seeds"].max() == 0:
        return "No run has finished training yet, so nothing can be compared."
    limits = by_seeds(
        frame["seeds"],
        "No arm has more than one seed, so no error or interval can be given",
        "An arm has {seeds} seeds; intervals are 95 % paired t intervals over the n seeds that both arms have, wide if "
        "n is small",
    )
    return f"{limits}. Runs that have not finished training are left out."


def _target_and_budget(rows: pd.DataFrame) -> list[str]:
    """The target and the time budget of a cell."""
    cell = rows.iloc[0]
    if pd.isna(cell["budget_s"]):
        return ["No run has finished training yet."]
    if cell["reference"] is None:
        target = "There is no static arm, so there is no target"
    elif pd.isna(cell["target"]):
        target = f"Static {cell['reference']} has no reward at its end, so there is no target"
    else:
        target = f"The target is {cell['target']:.3f}, the reward of static {cell['reference']} at its end"
    return [f"{target}; the given time is {cell['budget_s'] / 3600:.3f} hours, when the fastest run ended."]


def _is_controlled(row: Row) -> bool:
    return not row["group"].isdigit() and row["seeds"] > 0


AS_GOOD_NOTE = (
    "A static arm is as good as a controlled one in no more time if the 95 % intervals over the seeds that both have "
    f"show it: that of the difference lies above -{NO_WORSE:g}, that of the ratio of the times not above 1. With one "
    "seed there is no interval, and the two runs are compared directly: at least as good, in no more time."
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
        group_column(),
        Column(
            "seeds",
            f"seeds that finished training; a value is their mean {PLUS_MINUS} its standard error",
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
        "of training until the reward reached the target; a lower bound if not all seeds reached it",
        _hours_to_target,
    ),
    Column("reached", "seeds that reached the target, and their share", _reached),
    Column(
        "hours / reference",
        "relative to the static arm that sets the target: the geometric mean over the n seeds that both have, with its "
        "95 % paired t interval; a bound without an interval if not all reached it",
        _time_ratio,
    ),
    Column(
        "reward then",
        "training reward after the given time, which is the same for all arms",
        with_error("reward_at_budget", 3),
    ),
    Column(
        "reward - reference",
        "minus that of the same static arm at that time, with the 95 % paired t interval over n seeds",
        with_interval("reward_vs_reference", "+.3f"),
    ),
]


def cost_columns(frame: pd.DataFrame) -> list[Column]:
    """Columns of time to the target, reward after the given time, and accuracy at that time if models were kept."""
    columns = [*COST_COLUMNS]
    for then in (name for name in frame.columns if name.startswith(KEPT) and f"{name}_se" in frame.columns):
        name = then.removeprefix(KEPT)
        meaning = (
            f"accuracy on {name}, avg@k, at that time, interpolated between the models kept before and after it, over "
            "the seeds with both"
        )
        columns.append(Column(f"{name} then", meaning, with_error(then, 3)))
        against = "minus that of the same static arm at that time, with the 95 % paired t interval over n seeds"
        columns.append(Column(f"{name} - reference", against, with_interval(f"{then}_vs_reference", "+.3f")))
    return columns


def pareto_columns(frame: pd.DataFrame) -> list[Column]:
    """Columns of hours and of what every arm achieved, and whether it is on the front."""
    columns = [*_first_columns(), Column("hours", "of all training steps", with_error("wall_s", 3, 1 / 3600))]
    for name, column in _qualities(frame).items():
        meaning = "training reward at the end" if name == "reward" else f"accuracy on {name}, avg@k"
        columns.append(Column(name, meaning, with_error(column, 3)))
        columns.append(
            Column(
                f"{name}, front",
                f"whether the arm is on the front of {name} against hours",
                _on_front(FRONT + name, column),
            )
        )
    return columns


def _on_front(front: str, column: str) -> Callable[[Row], str]:
    return lambda row: MISSING if pd.isna(row[column]) else ("yes" if row[front] else "no")
