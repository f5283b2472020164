"""Tables as Markdown, LaTeX and CSV: columns with their legends, rows and notes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.cells import SECTION
from analysis.statistics import INTERVAL
from sagc.system.files import write_atomically

Row = dict[str, Any]
MISSING = "\N{EN DASH}"
PLUS_MINUS = "\N{PLUS-MINUS SIGN}"
LATEX = {PLUS_MINUS: r"$\pm$", MISSING: "--"}  # replaced after pandas has escaped the text


@dataclass(frozen=True)
class Column:
    """A column: its title, its meaning (empty if the title explains itself), and the text of a row's cell."""

    title: str
    legend: str
    text: Callable[[Row], str]


@dataclass(frozen=True)
class Table:
    """A table with its notes; each note is a sentence or paragraph without a final line break.

    Attributes
    ----------
    columns : sequence of Column
    rows : DataFrame
        Without rows, only title and notes are shown.
    title : str
    notes : iterable of str
        Below the title.
    by_section : bool
        Whether each model, algorithm and stack gets its own table in Markdown; in LaTeX they are the first columns.
    section_notes : callable, optional
        The sentences below a section's rows.
    key, closing : iterable of str
        Between the rows and the legend, and below the legend.
    latex_notes : iterable of str
        Notes that the LaTeX table needs as well: what its marks mean.
    names : int
        Number of leading columns that hold names, flush left in LaTeX.
    """

    columns: Sequence[Column]
    rows: pd.DataFrame
    title: str = ""
    notes: Iterable[str] = ()
    by_section: bool = False
    section_notes: Callable[[pd.DataFrame], Iterable[str]] | None = None
    key: Iterable[str] = ()
    closing: Iterable[str] = ()
    latex_notes: Iterable[str] = ()
    names: int = 1

    def markdown(self) -> str:
        """The page, with its legend."""
        parts = [*([f"# {self.title}"] if self.title else []), *self.notes]
        if len(self.rows):
            parts += [*self._sections(), *self.key, self._legend(), *self.closing]
        return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"

    def latex(self) -> str:
        """A booktabs tabular, one line per row, and what its marks mean."""
        columns = [*(named(SECTION) if self.by_section else []), *self.columns]
        text = pd.DataFrame({column.title: _cells(self.rows, column) for column in columns})
        left = len(columns) - len(self.columns) + self.names
        latex = text.to_latex(index=False, escape=True, column_format="l" * left + "r" * (len(columns) - left))
        for character, command in LATEX.items():
            latex = latex.replace(character, command)
        return "\n".join([latex, *(f"{note}\n" for note in self.latex_notes)])

    def write(self, path: Path, csv: pd.DataFrame | None = None, latex: bool = True) -> None:
        """Write `path`.md, `path`.tex if `latex`, and `csv` with all its columns as `path`.csv, atomically."""
        if csv is not None:
            write_atomically(path.with_name(f"{path.name}.csv"), csv.to_csv(index=False))
        write_atomically(path.with_name(f"{path.name}.md"), self.markdown())
        if latex:
            write_atomically(path.with_name(f"{path.name}.tex"), self.latex())

    def _sections(self) -> list[str]:
        if not self.by_section:
            return [markdown_table(self.rows, self.columns)]
        parts = []
        for section, rows in self.rows.groupby(SECTION, sort=False):
            parts += [f"## {', '.join(section)}", markdown_table(rows, self.columns)]
            parts += self.section_notes(rows) if self.section_notes else []
        return parts

    def _legend(self) -> str:
        """What every column means."""
        lines = [f"- **{column.title}**: {column.legend}.\n" for column in self.columns if column.legend]
        return "## Columns\n\n" + "".join(lines)


def markdown_table(frame: pd.DataFrame, columns: Sequence[Column]) -> str:
    """One line per row, with cells right-aligned in columns of equal width, so that it also reads well as text."""
    texts = [[column.title, *_cells(frame, column)] for column in columns]
    widths = [max(map(len, column)) for column in texts]
    lines = [[text.rjust(width) for text, width in zip(line, widths, strict=True)] for line in zip(*texts, strict=True)]
    ruler = ["-" * (width - 1) + ":" for width in widths]
    return "".join("| " + " | ".join(line) + " |\n" for line in (lines[0], ruler, *lines[1:]))


def _cells(frame: pd.DataFrame, column: Column) -> list[str]:
    return [column.text(row) for row in frame.to_dict(orient="records")]


# Cells ---------------------------------------------------------------------------------------------------------------


def named(names: Sequence[str]) -> list[Column]:
    """Columns that show names, such as model and algorithm, unchanged; MISSING if a row has none."""
    return [Column(name, "", lambda row, name=name: row[name] or MISSING) for name in names]


def group_column(name: str = "group") -> Column:
    """The column of the arm: its group size, or the controller that chooses it."""
    return Column(name, "static group size G, or the controller that chooses it", itemgetter(name))


def number(value: float | None, decimals: int, scale: float = 1.0) -> str:
    """A number times `scale`; MISSING for NaN or None."""
    return MISSING if pd.isna(value) else f"{value * scale:.{decimals}f}"


def decimals(name: str, decimals: int, scale: float = 1.0) -> Callable[[Row], str]:
    """The text of a column of numbers, times `scale`; MISSING if a row has none."""
    return lambda row: number(row[name], decimals, scale)


def percent(name: str) -> Callable[[Row], str]:
    """The text of a column of shares, 0 to 1, in percent."""
    return decimals(name, 1, scale=100)


def with_error(name: str, decimals: int, scale: float = 1.0) -> Callable[[Row], str]:
    """The text of a mean and its standard error, X and X_se, times `scale`; without the error if it is NaN."""

    def text(row: Row) -> str:
        error = row[f"{name}_se"]
        spread = "" if pd.isna(error) else f" {PLUS_MINUS} {number(error, decimals, scale)}"
        return number(row[name], decimals, scale) + spread

    return text


def with_interval(name: str, form: str) -> Callable[[Row], str]:
    """The text of a value, its interval and the number of pairs: X, X_low, X_high and X_n, in this format.

    A missing interval is shown as [MISSING].
    """

    def text(row: Row) -> str:
        value, low, high, n = (row[f"{name}{part}"] for part in INTERVAL)
        if pd.isna(value):
            return MISSING
        interval = MISSING if pd.isna(low) else f"{low:{form}}, {high:{form}}"
        return f"{value:{form}} [{interval}], n = {n:.0f}"

    return text


def by_seeds(counts: pd.Series, one: str, several: str) -> str:
    """`one` if no count of seeds is above 1; otherwise `several`, with the counts in place of {seeds}."""
    return one if counts.max() == 1 else several.format(seeds=spread(counts))


def spread(counts: pd.Series) -> str:
    """The range of the counts: "3", or "1 to 3"."""
    fewest, most = counts.min(), counts.max()
    return f"{fewest}" if fewest == most else f"{fewest} to {most}"
