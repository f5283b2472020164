"""All tables over the runs of a results folder, computed once for the files and the report."""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import click
import pandas as pd

from analysis.results.runs import RunResults, read_runs
from analysis.tables.arm_tables import accuracy_table, efficiency_table
from analysis.tables.arms import summarize_arms
from analysis.tables.clocks import uneven_clocks
from analysis.tables.cost_tables import write_equal_cost
from analysis.tables.equal_cost import equal_cost
from analysis.tables.output_lengths import compare_lengths, lengths_table
from analysis.tables.published import published, write_published
from analysis.tables.rivals import compare_with_static
from analysis.tables.runs import add_ratios, benchmarks, runs_table
from analysis.tables.time_split import savings, savings_table
from sagc.errors import UserError
from sagc.run.folder import OLDER, is_older
from sagc.system.files import write_atomically

log = logging.getLogger("sagc")


class GridTables:
    """The tables over these runs, which are in natural order; each is computed on first use."""

    def __init__(self, runs: Sequence[RunResults]):
        self.all = runs
        self.done = [run for run in runs if run.summary is not None]

    @cached_property
    def runs(self) -> pd.DataFrame:
        """One row per finished run (see `analysis.results.summary.summary_row`), with its ratios to static 16."""
        rows = pd.DataFrame([run.summary for run in self.done])
        return add_ratios(rows.astype({"processor_s": float})) if len(rows) else rows

    @cached_property
    def arms(self) -> pd.DataFrame:
        """See `analysis.tables.arms.summarize_arms`; empty if no run is finished."""
        return summarize_arms(self.runs) if len(self.runs) else pd.DataFrame()

    @cached_property
    def clocks(self) -> dict[str, str]:
        """See `analysis.tables.clocks.uneven_clocks`."""
        return uneven_clocks(self.runs)

    @cached_property
    def costs(self) -> pd.DataFrame:
        """See `analysis.tables.equal_cost.equal_cost`."""
        return equal_cost(self.all)

    @cached_property
    def rivals(self) -> pd.DataFrame:
        """See `analysis.tables.rivals.compare_with_static`."""
        return compare_with_static(self.all)

    @cached_property
    def split(self) -> pd.DataFrame:
        """See `analysis.tables.time_split.savings`."""
        return savings(self.all)

    @cached_property
    def published(self) -> pd.DataFrame:
        """See `analysis.tables.published.published`."""
        return published(self.all)

    @cached_property
    def lengths(self) -> pd.DataFrame:
        """See `analysis.tables.output_lengths.compare_lengths`.

        Raises
        ------
        UserError
            If output lengths cannot be compared.
        """
        return compare_lengths(self.done)

    def write_runs(self, results: Path) -> None:
        """Write every run's summary.json, the tables summary and output_lengths, and those over arms in tables/.

        Raises
        ------
        UserError
            If output lengths cannot be compared; nothing is written then.
        """
        lengths = lengths_table(self.lengths)
        for run in self.done:
            write_atomically(run.folder.summary, json.dumps(run.summary, indent=2, allow_nan=False) + "\n")
        columns = ["processor_s", *self.runs.columns.drop("processor_s")]  # readers may rely on this order
        runs_table(self.runs).write(results / "summary", csv=self.runs[columns], latex=False)
        write_atomically(results / "tables" / "arms.csv", self.arms.to_csv(index=False))
        efficiency_table(self.arms, self.clocks.values()).write(results / "tables" / "efficiency")
        accuracy_table(self.arms, benchmarks(self.runs)).write(results / "tables" / "accuracy")
        lengths.write(results / "output_lengths", csv=self.lengths)

    def write_comparisons(self, results: Path) -> None:
        """Write the comparisons of traces into tables/: equal_cost, pareto, savings and published."""
        folder, clocks = results / "tables", list(self.clocks.values())
        write_equal_cost(self.costs, self.rivals, folder, clocks)
        savings_table(self.split, clocks).write(folder / "savings", csv=self.split)
        write_published(self.published, folder, clocks)


def summarize_results(results: str | Path) -> pd.DataFrame:
    """Summarize every complete run below a folder, write the tables over them, and return the table over runs.

    See `GridTables.write_runs`. Incomplete runs are left out, each with a warning.

    Raises
    ------
    UserError
        If there is no complete run, two are of the same cell, or output lengths cannot be compared.
    """
    results = Path(results)
    runs, elsewhere, unread = read_runs(results)
    complete = [run for run in runs if not run.incomplete]
    left_out = [*unread, *(run.incomplete for run in runs if run.incomplete)]
    older = [f"{run.folder.path} is {OLDER}" for run in complete if is_older(run.config)]
    for sentence in [*elsewhere, *(f"left out: {reason}" for reason in left_out), *older]:
        log.warning("%s", sentence)
    if not complete:
        raise UserError(f"{results} holds no complete run")
    for one, other in itertools.pairwise(complete):
        if one.cell == other.cell:
            cell = "/".join(map(str, one.cell.values()))
            raise UserError(f"{one.folder.path} and {other.folder.path} are both of {cell}; keep one of them")
    tables = GridTables(complete)
    tables.write_runs(results)
    click.echo(f"{len(complete)} run{'s' if len(complete) > 1 else ''}: {results / 'summary.md'}")
    return tables.runs
