"""How a table is written: its columns with their legends, as Markdown to read and as LaTeX to print."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.statistics import INTERVAL

Row = dict[str, Any]
MISSING = "\N{EN DASH}"
PLUS_MINUS = "\N{PLUS-MINUS SIGN}"
LATEX = {PLUS_MINUS: r"$\pm$", MISSING: "--"}  # after what LaTeX itself wants escaped


@dataclass(frozen=True)
class Column:
    """A column to read: its title, what it means, and the text of a row's cell."""

    title: str
    legend: str
    text: Callable[[Row], str]


def markdown_table(frame: pd.DataFrame, columns: Sequence[Column]) -> str:
    """A line per row, the cells padded to their column's width and to the right, so that it also reads well as text."""
    titles = [column.title for column in columns]
    lines = [[column.text(row) for column in columns] for row in frame.to_dict(orient="records")]
    widths = [max(map(len, column)) for column in zip(titles, *lines, strict=True)]
    padded = [[cell.rjust(width) for cell, width in zip(line, widths, strict=True)] for line in (titles, *lines)]
    ruler = ["-" * (width - 1) + ":" for width in widths]
    return "".join("| " + " | ".join(line) + " |\n" for line in (padded[0], ruler, *padded[1:]))


def latex_table(frame: pd.DataFrame, columns: Sequence[Column], left: int) -> str:
    """A tabular for booktabs, a line per row; the first `left` columns are names, flush left."""
    rows = frame.to_dict(orient="records")
    text = pd.DataFrame({column.title: [column.text(row) for row in rows] for column in columns})
    latex = text.to_latex(index=False, escape=True, column_format="l" * left + "r" * (len(columns) - left))
    for character, command in LATEX.items():
        latex = latex.replace(character, command)
    return latex


def with_notes(markdown: str, notes: Iterable[str]) -> str:
    """A page with notes, a sentence each, below its title."""
    title, rest = markdown.split("\n", 1)
    return "\n".join([title, *(f"\n{note}" for note in notes), rest])


def legend(columns: Sequence[Column]) -> str:
    """What every column means."""
    return "## Columns\n\n" + "".join(f"- **{column.title}**: {column.legend}.\n" for column in columns)


# Cells ---------------------------------------------------------------------------------------------------------------


def named(names: Sequence[str]) -> list[Column]:
    """Columns of names, such as model and algorithm, as they are; MISSING where a row has none."""
    return [Column(name, "", lambda row, name=name: row[name] or MISSING) for name in names]


def number(value: float | None, decimals: int, scale: float = 1.0) -> str:
    """A number times `scale`; MISSING for none."""
    return MISSING if pd.isna(value) else f"{value * scale:.{decimals}f}"


def decimals(name: str, decimals: int, scale: float = 1.0) -> Callable[[Row], str]:
    """The text of a column of numbers, times `scale`; MISSING where a row has none."""
    return lambda row: number(row[name], decimals, scale)


def percent(name: str) -> Callable[[Row], str]:
    """The text of a column of shares, 0 to 1, in percent."""
    return decimals(name, 1, scale=100)


def with_error(name: str, decimals: int, scale: float = 1.0) -> Callable[[Row], str]:
    """The text of a mean and its standard error, X and X_se, times `scale`; without the error where there is none."""

    def text(row: Row) -> str:
        error = row[f"{name}_se"]
        spread = "" if pd.isna(error) else f" {PLUS_MINUS} {number(error, decimals, scale)}"
        return number(row[name], decimals, scale) + spread

    return text


def with_interval(name: str, form: str) -> Callable[[Row], str]:
    """The text of a value, its interval and how many pairs they are of: X, X_low, X_high and X_n, in this format.

    An interval that there is none of is [MISSING].
    """

    def text(row: Row) -> str:
        value, low, high, n = (row[f"{name}{part}"] for part in INTERVAL)
        if pd.isna(value):
            return MISSING
        interval = MISSING if pd.isna(low) else f"{low:{form}}, {high:{form}}"
        return f"{value:{form}} [{interval}], n = {n:.0f}"

    return text


def spread(counts: pd.Series) -> str:
    """The numbers that counts take: "3", or "1 to 3"."""
    fewest, most = counts.min(), counts.max()
    return f"{fewest}" if fewest == most else f"{fewest} to {most}"
