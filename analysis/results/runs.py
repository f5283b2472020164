"""Reads every run below a results folder, finished or not, for tables, figures and the report."""

from __future__ import annotations

import itertools
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from tqdm import tqdm

from analysis.cells import CELL, SECTION, natural_order
from analysis.results.steps import read_steps
from analysis.results.summary import read_evaluation, summary_row
from sagc.errors import UserError
from sagc.run.folder import OLDER, RunFolder, is_older
from sagc.run.folders import find_runs

DONE, NOT_EVALUATED, UNFINISHED, EMPTY = "done", "not evaluated", "unfinished", "empty"


@dataclass
class RunResults:
    """What one run wrote.

    Attributes
    ----------
    name : str
        Its path below the results folder.
    folder : RunFolder
    cell : dict
        model, algorithm, stack, group (text) and seed.
    config : dict
        Contents of config.json: run, hash, versions, machine.
    planned_steps : int
    steps, risks, realised : DataFrame
        See `analysis.results.steps.Steps`.
    evaluation : dict or None
        Contents of eval/evaluation.json.
    summary : dict or None
        The row of `analysis.results.summary.summary_row` if the run is done.
    incomplete : str
        One sentence on why the run is incomplete; empty if it is complete.
    state : str
        "done"; "not evaluated": all steps, but no evaluation; "unfinished": some steps; "empty": no steps.
    problems : list of str
        What is wrong with the run, one sentence each.
    """

    name: str
    folder: RunFolder
    cell: dict[str, Any]
    config: dict[str, Any]
    planned_steps: int
    steps: pd.DataFrame
    risks: pd.DataFrame
    realised: pd.DataFrame
    evaluation: dict[str, Any] | None = None
    summary: dict[str, Any] | None = None
    incomplete: str = ""
    problems: list[str] = field(default_factory=list)

    @property
    def section(self) -> tuple[str, str, str]:
        """Model, algorithm and stack."""
        return tuple(self.cell[name] for name in SECTION)

    @property
    def state(self) -> str:
        if self.summary is not None:
            return DONE
        if len(self.steps) == 0:
            return EMPTY
        return NOT_EVALUATED if len(self.steps) >= self.planned_steps else UNFINISHED


@dataclass(frozen=True)
class Results:
    """The runs in natural order, and what is wrong with the folder as a whole, one sentence each."""

    runs: list[RunResults]
    problems: list[str]

    def table(self) -> pd.DataFrame:
        """One row per run that is done (see `analysis.results.summary.summary_row`)."""
        return pd.DataFrame([run.summary for run in self.runs if run.summary is not None])


def load_results(folder: str | Path) -> Results:
    """Read every run below a folder; a run that cannot be read is listed as a problem and raises no error.

    Of two runs of the same cell, only the first by path is kept.

    Raises
    ------
    UserError
        If the folder does not exist.
    """
    runs, elsewhere, unread = read_runs(folder)
    runs, doubled = _one_per_cell(runs)
    return Results(runs, elsewhere + unread + doubled + _of_older_versions(runs) + _of_different_configs(runs))


def read_runs(folder: str | Path) -> tuple[list[RunResults], list[str], list[str]]:
    """Every run below a folder in natural order, a sentence on each one left out, and one on each unreadable one.

    Raises
    ------
    UserError
        If the folder does not exist.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f"results folder {folder} does not exist")
    places, elsewhere = find_runs(folder)
    runs, unread = [], []
    for place in tqdm(places, desc="reading runs", unit="run", disable=not sys.stderr.isatty()):
        try:
            runs.append(load_run(place, str(place.relative_to(folder))))
        except UserError as error:
            unread.append(str(error))
    return sorted(runs, key=lambda run: (natural_order(run.cell), run.name)), elsewhere, unread


def load_run(path: Path, name: str = "") -> RunResults:
    """Read one run, finished or not.

    Raises
    ------
    UserError
        If the folder is not a run.
    """
    place = RunFolder(path)
    config = place.read_config()
    try:
        run = config["run"]
        cell = {key: run["cell"][key] for key in CELL} | {"group": str(run["cell"]["group"])}
        planned, tau = int(run["training"]["steps"]), float(run["straggler"]["tau"])
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{place.config} is not the config of a run ({type(error).__name__}: {error})") from None
    steps = read_steps(place.trace, tau)
    loaded = RunResults(name, place, cell, config, planned, steps.table, steps.risks, steps.realised)
    loaded.problems += steps.problems
    if len(steps.table) >= planned:
        _add_evaluation(loaded)
    in_order = steps.table["step"].tolist() == list(range(1, planned + 1))
    if steps.broken or not in_order:
        loaded.incomplete = steps.broken or (
            f"{place.trace} does not contain steps 1 to {planned} in order; finish training the run first"
        )
    return loaded


def _add_evaluation(run: RunResults) -> None:
    """Read the evaluation, and summarize the run if nothing is missing."""
    try:
        run.evaluation = read_evaluation(run.folder, run.config["hash"])
        run.summary = summary_row(run.config, run.steps, run.evaluation)
    except UserError as error:
        run.incomplete = str(error)
    except (KeyError, TypeError) as error:
        run.incomplete = f"the evaluation lacks {error}; evaluate the run again"
    run.problems += [run.incomplete] if run.incomplete else []


def _one_per_cell(runs: list[RunResults]) -> tuple[list[RunResults], list[str]]:
    kept, problems = [], []
    for _, same in itertools.groupby(runs, key=lambda run: natural_order(run.cell)):
        first, *others = same
        kept.append(first)
        for other in others:
            differ = "" if first.config.get("hash") == other.config.get("hash") else ", with different configs"
            problems.append(f"{first.name} and {other.name} are of the same cell{differ}; only the first is shown")
    return kept, problems


def _of_older_versions(runs: list[RunResults]) -> list[str]:
    older = [run.name for run in runs if is_older(run.config)]
    more = f" and {len(older) - 1} more" if len(older) > 1 else ""
    return [f"{older[0]}{more}: {OLDER}; if delta is missing, figures do not show it"] if older else []


def _of_different_configs(runs: list[RunResults]) -> list[str]:
    """Runs of one section with different settings, which a comparison of their arms would confound."""
    problems = []
    for section, same in itertools.groupby(runs, key=lambda run: run.section):
        first, *others = same
        for other in others:
            if keys := _differing(_common(first), _common(other)):
                problems.append(
                    f"{'/'.join(section)}: {first.name} and {other.name} differ in {', '.join(keys)}, "
                    "which a comparison of their arms does not account for"
                )
    return problems


def _common(run: RunResults) -> dict[str, Any]:
    """The settings that the arms of a section share."""
    return {key: value for key, value in run.config["run"].items() if key not in ("cell", "controller")}


def _differing(one: Any, other: Any, prefix: str = "") -> list[str]:
    """Dotted names of the keys that differ."""
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return [] if one == other else [prefix]
    return [
        each
        for name in dict.fromkeys([*one, *other])
        for each in _differing(one.get(name), other.get(name), f"{prefix}.{name}" if prefix else name)
    ]
