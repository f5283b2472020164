"""The tables over arms, to read and to print: efficiency and accuracy, as Markdown and LaTeX, and all columns as CSV.

python -m analysis.tables.arm_tables --out results/tables results/summary.csv
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
import pandas as pd

from analysis.cells import REFERENCE, SECTION
from analysis.results.steps import MARK, UPPER_BOUND, slots_are_bound
from analysis.tables.arms import BEST, MEANS, summarize_arms
from analysis.tables.clocks import uneven_clocks
from analysis.tables.runs import benchmarks, idle_marked
from analysis.tables.table import (
    MISSING,
    PLUS_MINUS,
    Column,
    Row,
    latex_table,
    legend,
    markdown_table,
    named,
    spread,
    with_error,
    with_interval,
    with_notes,
)
from sagc.errors import UserError
from sagc.system.command import Command
from sagc.system.files import write_atomically

INTERVAL = "with its 95 % paired t interval, and of n seeds, those that both have"


def write_arm_tables(runs: pd.DataFrame, folder: Path) -> None:
    """Write arms.csv, and efficiency and accuracy as .md and .tex, each whole or not.

    `runs` has one row per run (see `analysis.results.summary.summarize_run`).
    """
    arms = summarize_arms(runs)
    write_atomically(folder / "arms.csv", arms.to_csv(index=False))
    bound = [f"{UPPER_BOUND}\n"] if idle_marked(arms).any() else []
    for name, title, columns, notes, more in (
        ("efficiency", "Training efficiency", efficiency_columns(), uneven_clocks(runs).values(), bound),
        ("accuracy", "Accuracy", accuracy_columns(benchmarks(runs)), [], []),
    ):
        text = with_notes(to_markdown(arms, title, columns), notes)
        write_atomically(folder / f"{name}.md", "\n".join([text, *more]))
        latex = latex_table(arms, [*named(SECTION), *columns], left=len(SECTION) + 1)
        write_atomically(folder / f"{name}.tex", "\n".join([latex, *more]))


def to_markdown(arms: pd.DataFrame, title: str, columns: Sequence[Column]) -> str:
    """One section per model, algorithm and stack, one line per arm, and a legend."""
    parts = [f"# {title}\n", _what_is_here(arms)]
    for (model, algorithm, stack), rows in arms.groupby(SECTION, sort=False):
        best = rows[BEST].iloc[0]
        parts.append(f"## {model}, {algorithm}, {stack}\n")
        parts.append(markdown_table(rows, columns))
        parts.append(f"The best static arm is {best}.\n" if best else "There is no static arm.\n")
    parts.append(legend(columns))
    parts.append(
        f"{MISSING} stands for a comparison without an arm to compare with, [{MISSING}] for an interval of one seed.\n"
    )
    return "\n".join(parts)


def efficiency_columns() -> list[Column]:
    """What training cost."""
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
        Column("rollout, hours", "of which generating and scoring responses", with_error("rollout_s", 3, 1 / 3600)),
        Column(
            "processor, hours",
            "that the run's own processes computed, whatever else the machine did",
            with_error("processor_s", 3, 1 / 3600),
        ),
        Column("tokens, M", "millions of tokens generated in training", with_error("tokens", 3, 1e-6)),
        Column("reward", "training reward at the end", with_error("reward", 3)),
        *(_ratio(f"{short} / {REFERENCE}", name, "static16") for name, short in COSTS.items()),
        *(_ratio(f"{short} / best", name, BEST) for name, short in COSTS.items()),
    ]


def accuracy_columns(names: list[str]) -> list[Column]:
    """What came of it: training reward and benchmarks."""
    values = {"reward": "reward", **{f"accuracy_{name}": name for name in names}}
    columns = _first_columns()
    for name, short in values.items():
        legend_ = "training reward at the end" if name == "reward" else f"accuracy on {short}, avg@k"
        columns += [
            Column(short, legend_, with_error(name, 3)),
            _difference(f"{short} - {REFERENCE}", name, "static16"),
            _difference(f"{short} - best", name, BEST),
        ]
    return columns


COSTS = {"wall_s": "hours", "rollout_s": "rollout", "processor_s": "processor", "tokens": "tokens"}


def _idle(row: Row) -> str:
    mark = MARK if slots_are_bound(row["stack"], row["filtered_share"]) else ""
    return with_error("idle_fraction", 1, 100)(row) + mark


def _first_columns() -> list[Column]:
    return [
        Column("group", "static group size G, or the controller that chooses it", lambda row: row["group"]),
        Column("seeds", f"how many; a value is their mean {PLUS_MINUS} its standard error", lambda r: str(r["seeds"])),
    ]


def _ratio(title: str, name: str, label: str) -> Column:
    meaning = f"relative to {_called(label)}: the geometric mean of the seeds' ratios, {INTERVAL}"
    return Column(title, meaning, with_interval(f"{name}_vs_{label}", ".2f"))


def _difference(title: str, name: str, label: str) -> Column:
    meaning = f"minus that of {_called(label)}: the mean of the seeds' differences, {INTERVAL}"
    return Column(title, meaning, with_interval(f"{name}_vs_{label}", "+.3f"))


def _called(label: str) -> str:
    return f"static {REFERENCE}" if label == "static16" else "the best static arm"


def _what_is_here(arms: pd.DataFrame) -> str:
    if arms["seeds"].max() == 1:
        return "There is one seed of every arm, so that no error and no interval can be given.\n"
    return (
        f"There are {spread(arms['seeds'])} seeds of every arm. Intervals are paired t intervals over the n seeds that "
        "both arms have: wide where these are few, and with one seed there is none.\n"
    )


@click.command(cls=Command)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder of the tables.")
@click.argument("summary", type=click.Path(path_type=Path, dir_okay=False))
def main(out: Path, summary: Path) -> None:
    """Write the tables over the arms in SUMMARY, the table over runs."""
    try:
        runs = pd.read_csv(summary, dtype={"group": str})
    except (OSError, ValueError) as error:
        raise UserError(f"{summary} cannot be read as a table: {str(error).splitlines()[0]}") from None
    if missing := [name for name in (*SECTION, "group", "seed", *MEANS) if name not in runs]:
        raise UserError(f"{summary} lacks the column {missing[0]}; summarize the runs again")
    write_arm_tables(runs, out)


if __name__ == "__main__":
    main()
