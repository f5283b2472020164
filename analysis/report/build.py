"""From a results folder to results/report.html.

    python -m analysis.report.build results

reads every run of a finished grid once and writes everything made from them: summaries, tables, figures and the page.
results/grid.json lists the runs that the grid should have.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import click
import jinja2
import markupsafe

from analysis.cells import CELL
from analysis.figures.kinds import FigureFile, write_figures
from analysis.report.run_page import run_page
from analysis.report.sections import sections_of
from analysis.report.verdict import verdict
from analysis.results.runs import Results, load_results
from analysis.tables.clocks import clock_verdict
from analysis.tables.grid import GridTables
from analysis.tables.runs import benchmarks
from sagc.errors import UserError
from sagc.system.command import Command
from sagc.system.files import write_atomically
from sagc.system.source_state import as_text, source_state

TITLE = "Straggler-aware group control: results"


@dataclass(frozen=True)
class ShownFigure:
    """A figure for the template; `source` is a data URI."""

    title: str
    caption: str
    source: str
    width: int
    height: int
    csv: str


def build_report(results: str | Path) -> Path:
    """Write the report over a results folder, finished or not, and return its path.

    Parameters
    ----------
    results : path
        Folder of the runs. report.html, figures/ and tables/ go into it.

    Raises
    ------
    UserError
        If the folder does not exist.
    """
    return _write(Path(results), *_load(Path(results)))


def _load(results: Path) -> tuple[Results, list[dict[str, Any]]]:
    """The runs, and the cells that the grid should have."""
    expected = _expected(results)
    return _of_the_grid(load_results(results), expected), expected


def _write(results: Path, loaded: Results, expected: list[dict[str, Any]], tables: GridTables | None = None) -> Path:
    tables = tables or GridTables(loaded.runs)
    tables.write_comparisons(results)
    quality = next(iter(benchmarks(tables.runs)), "reward")
    figures = write_figures(loaded.runs, results / "figures")
    page = _render(
        title=TITLE,
        verdict=verdict(tables.arms, quality, tables.rivals, clock_verdict(tables.clocks, tables.arms)),
        problems=[*_problems(loaded, expected), *tables.clocks.values()],
        sections=sections_of(loaded, expected, tables),
        figures=_by_section(figures, results),
        provenance=_provenance(loaded),
        pages=[run_page(run) for run in loaded.runs],
    )
    write_atomically(results / "report.html", page)
    return results / "report.html"


def _expected(results: Path) -> list[dict[str, Any]]:
    """The cells of the grid as written by the DAG; empty for a folder without grid.json."""
    try:
        cells = json.loads((results / "grid.json").read_text(encoding="utf-8"))["runs"]
        return [{name: cell[name] for name in CELL} | {"group": str(cell["group"])} for cell in cells]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _of_the_grid(loaded: Results, expected: list[dict[str, Any]]) -> Results:
    """Without runs of another grid in the same folder, if the grid's own are known."""
    if not expected:
        return loaded
    others = [run.name for run in loaded.runs if run.cell not in expected]
    problems = [f"{name} is not in the grid that was run last; it is left out" for name in others]
    return Results([run for run in loaded.runs if run.cell in expected], loaded.problems + problems)


def _problems(loaded: Results, expected: list[dict[str, Any]]) -> list[str]:
    there = [run.cell for run in loaded.runs]
    missing = [cell for cell in expected if cell not in there]
    states = [run.state for run in loaded.runs]
    found = []
    if not loaded.runs:
        found.append("the folder contains no runs")
    if missing:
        found.append(f"{len(missing)} of the grid's {len(expected)} runs are missing")
    for state in ("empty", "unfinished", "not evaluated"):
        if number := states.count(state):
            found.append(f"{number} of {len(states)} runs are {state}; tables and verdict leave them out")
    of_runs = [f"{run.name}: {problem}" for run in loaded.runs for problem in run.problems]
    return [*found, *loaded.problems, *of_runs]


def _by_section(figures: list[FigureFile], folder: Path) -> list[tuple[str, list[ShownFigure]]]:
    shown: dict[str, list[ShownFigure]] = {}
    for figure in figures:
        width, height = _size(Path(figure.png))
        data = base64.b64encode(Path(figure.svg).read_bytes()).decode()
        path = Path(figure.csv).relative_to(folder).as_posix()
        one = ShownFigure(figure.title, figure.caption, f"data:image/svg+xml;base64,{data}", width, height, path)
        shown.setdefault(", ".join(figure.section), []).append(one)
    return list(shown.items())


def _size(png: Path) -> tuple[int, int]:
    """Width and height in CSS pixels (96 per inch), from the header of the PNG (150 per inch)."""
    width, height = struct.unpack(">II", png.read_bytes()[16:24])
    return round(width * 96 / 150), round(height * 96 / 150)


def _provenance(loaded: Results) -> list[tuple[str, str]]:
    """What the runs and the report were made with, each value once."""
    rows: dict[str, dict[str, None]] = {}
    for run in loaded.runs:
        code = run.config.get("code") or {}
        rows.setdefault("commits of the runs", {})[as_text(code)] = None
        machine = ", ".join(str(value) for value in run.config.get("machine", {}).values())
        rows.setdefault("machines (host, system, processors)", {})[machine] = None
        for name, version in run.config.get("versions", {}).items():
            rows.setdefault(name, {})[str(version)] = None
    facts = [(name, "; ".join(values)) for name, values in rows.items()]
    return [("commit of the report", as_text(source_state())), ("runs", str(len(loaded.runs))), *facts]


def _render(**content: Any) -> str:
    files = {name: resources.files("analysis.report").joinpath("page", name).read_text("utf-8") for name in FILES}
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    style, script = files["style.css"], files["sort.js"]
    return environment.from_string(files["report.html.j2"]).render(
        **content,
        style=markupsafe.Markup(style),
        script=markupsafe.Markup(script),
        style_hash=_csp_hash(style),
        script_hash=_csp_hash(script),
    )


FILES = ("report.html.j2", "style.css", "sort.js")


def _csp_hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@click.command(cls=Command)
@click.argument("results", type=click.Path(path_type=Path, file_okay=False))
def main(results: Path) -> None:
    """Write each run's summary, all tables, figures and the report for the finished grid in RESULTS."""
    loaded, expected = _load(results)
    for run in loaded.runs:
        if run.incomplete:
            raise UserError(run.incomplete)
    tables = GridTables(loaded.runs)
    tables.write_runs(results)
    click.echo(_write(results, loaded, expected, tables))


if __name__ == "__main__":
    main()
