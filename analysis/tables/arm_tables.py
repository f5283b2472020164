"""The efficiency and accuracy tables over arms, as Markdown, LaTeX and CSV."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from analysis.cells import REFERENCE
from analysis.results.steps import UPPER_BOUND_MARK, slots_are_bound
from analysis.tables.arms import BEST_STATIC
from analysis.tables.runs import idle_note
from analysis.tables.table import (
    MISSING,
    PLUS_MINUS,
    Column,
    Row,
    Table,
    by_seeds,
    group_column,
    with_error,
    with_interval,
)

INTERVAL_LEGEND = "with its 95 % paired t interval over the n seeds that both arms have"


def efficiency_table(arms: pd.DataFrame, clocks: Iterable[str]) -> Table:
    """What training cost, from the rows of `summarize_arms`; `clocks` are the sentences of `uneven_clocks`."""
    return _table(arms, "Training efficiency", efficiency_columns(), clocks, idle_note(arms))


def accuracy_table(arms: pd.DataFrame, names: list[str]) -> Table:
    """What training achieved: the reward, and accuracy on the benchmarks with these names."""
    return _table(arms, "Accuracy", accuracy_columns(names))


def _table(
    arms: pd.DataFrame,
    title: str,
    columns: Sequence[Column],
    notes: Iterable[str] = (),
    latex_notes: Sequence[str] = (),
) -> Table:
    missing = f"{MISSING} marks a comparison with no arm to compare with, [{MISSING}] an interval over a single seed."
    return Table(
        columns,
        arms,
        title=title,
        notes=[*notes, by_seeds(arms["seeds"], ONE_SEED, SEVERAL_SEEDS)],
        by_section=True,
        section_notes=_best_arm,
        closing=[missing, *latex_notes],
        latex_notes=latex_notes,
    )


def _best_arm(rows: pd.DataFrame) -> list[str]:
    best = rows[BEST_STATIC].iloc[0]
    return [f"The best static arm is {best}." if best else "There is no static arm."]


ONE_SEED = "Each arm has one seed, so no error or interval can be given."
SEVERAL_SEEDS = (
    "Each arm has {seeds} seeds. Intervals are paired t intervals over the n seeds that both arms have: wide if n is "
    "small, and undefined for one seed."
)


def efficiency_columns() -> list[Column]:
    """Columns of what training cost."""
    return [
        *_first_columns(),
        Column(
            "stragglers %",
            "groups generated whose max / median length exceeds tau",
            with_error("straggler_rate", 1, 100),
        ),
        Column(
            "idle %",
            "decode slots that waited for the longest response of their round",
            _idle,
        ),
        Column("mean G", "group size, mean over steps", with_error("mean_group_size", 1)),
        Column("hours", "of all training steps, checkpoints excluded", with_error("wall_s", 3, 1 / 3600)),
        Column(
            "rollout, hours", "the part spent generating and scoring responses", with_error("rollout_s", 3, 1 / 3600)
        ),
        Column(
            "processor, hours",
            "used by the run's own processes, regardless of other work on the machine",
            with_error("processor_s", 3, 1 / 3600),
        ),
        Column("tokens, M", "millions of tokens generated in training", with_error("tokens", 3, 1e-6)),
        Column("reward", "training reward at the end", with_error("reward", 3)),
        *(_ratio(f"{short} / {REFERENCE}", name, "static16") for name, short in COSTS.items()),
        *(_ratio(f"{short} / best", name, BEST_STATIC) for name, short in COSTS.items()),
    ]


def accuracy_columns(names: list[str]) -> list[Column]:
    """Columns of what training achieved: reward and benchmarks."""
    values = {"reward": "reward", **{f"accuracy_{name}": name for name in names}}
    columns = _first_columns()
    for name, short in values.items():
        legend_ = "training reward at the end" if name == "reward" else f"accuracy on {short}, avg@k"
        columns += [
            Column(short, legend_, with_error(name, 3)),
            _difference(f"{short} - {REFERENCE}", name, "static16"),
            _difference(f"{short} - best", name, BEST_STATIC),
        ]
    return columns


COSTS = {"wall_s": "hours", "rollout_s": "rollout", "processor_s": "processor", "tokens": "tokens"}


def _idle(row: Row) -> str:
    mark = UPPER_BOUND_MARK if slots_are_bound(row["stack"], row["filtered_share"]) else ""
    return with_error("idle_fraction", 1, 100)(row) + mark


def _first_columns() -> list[Column]:
    return [
        group_column(),
        Column(
            "seeds",
            f"number of seeds; a value is the mean over them {PLUS_MINUS} its standard error",
            lambda r: str(r["seeds"]),
        ),
    ]


def _ratio(title: str, name: str, label: str) -> Column:
    meaning = f"relative to {_called(label)}: the geometric mean of the ratios per seed, {INTERVAL_LEGEND}"
    return Column(title, meaning, with_interval(f"{name}_vs_{label}", ".2f"))


def _difference(title: str, name: str, label: str) -> Column:
    meaning = f"minus that of {_called(label)}: the mean of the differences per seed, {INTERVAL_LEGEND}"
    return Column(title, meaning, with_interval(f"{name}_vs_{label}", "+.3f"))


def _called(label: str) -> str:
    return f"static {REFERENCE}" if label == "static16" else "the best static arm"
