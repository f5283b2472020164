"""Tables of the page, with the same text cells as the Markdown tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.tables.table import Column


@dataclass(frozen=True)
class PageTable:
    """A sortable table: its heading, what its columns mean, and its cells as text.

    `links` has, per row, the id of the page that the first cell links to, or None.
    """

    title: str
    note: str
    columns: list[tuple[str, str]]  # title, legend
    rows: list[list[str]]
    links: list[str | None]


def page_table(
    title: str, note: str, frame: pd.DataFrame, columns: Sequence[Column], link: Callable[[dict], str] | None = None
) -> PageTable:
    """The table of a data frame; `link` gives the id of the page that a row's first cell links to."""
    records: list[dict[str, Any]] = frame.to_dict(orient="records")
    rows = [[column.text(record) for column in columns] for record in records]
    links = [link(record) if link else None for record in records]
    return PageTable(title, note, [(column.title, column.legend) for column in columns], rows, links)
