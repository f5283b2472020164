"""How far simulated seconds are from real ones, as a table: `python -m analysis.study.calibration CSV`.

CSV is the output of `sagc.simulation.study.calibration`; the table is written next to it, as Markdown.
"""

from __future__ import annotations

from pathlib import Path

import click
import pandas as pd

from analysis.cells import SECTION
from analysis.tables.table import Column, Table, decimals, named
from sagc.simulation.study.calibration import FITTED
from sagc.system.command import Command

CALIBRATION_COLUMNS = [
    *named([*SECTION, "group"]),
    Column("seconds", "of the run's steps", decimals("seconds", 0)),
    Column(
        "own, median, %",
        "error of its even steps, with costs fitted to its odd ones",
        decimals("own_median", 1, 100),
    ),
    Column("own, sum, %", "the same for their sum", decimals("own_total", 1, 100)),
    Column(
        "others, median, %", f"with costs fitted to static {' and '.join(FITTED)}", decimals("other_median", 1, 100)
    ),
    Column("others, sum, %", "the same for the sum", decimals("other_total", 1, 100)),
    Column("simulated, %", "error of the sum for a run simulated as a whole", decimals("simulated", 1, 100)),
    Column("rate", "straggler rate", decimals("rate", 3)),
    Column("simulated rate", "of the simulated run", decimals("simulated_rate", 3)),
    Column("G", "mean group size", decimals("size", 1)),
    Column("simulated G", "of the simulated run", decimals("simulated_size", 1)),
]


@click.command(cls=Command)
@click.argument("csv", type=click.Path(path_type=Path, exists=True, dir_okay=False))
def main(csv: Path) -> None:
    """Write the table of CSV as Markdown."""
    table = Table(CALIBRATION_COLUMNS, pd.read_csv(csv, dtype={"group": str}))
    table.write(csv.with_suffix(""), latex=False)
    click.echo(csv.with_suffix(".md"))


if __name__ == "__main__":
    main()
