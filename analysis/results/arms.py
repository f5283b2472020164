"""The runs of a grid by section and arm, as comparisons need them."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.cells import SECTION
from analysis.results.runs import RunResults

Section = tuple[str, str, str]
Arms = dict[str, dict[int, RunResults]]  # group -> seed -> run


def arms_by_cell(runs: Sequence[RunResults]) -> dict[Section, Arms]:
    """Section (model, algorithm, stack) -> group -> seed -> run."""
    cells: dict[Section, Arms] = {}
    for run in runs:
        section = tuple(run.cell[name] for name in SECTION)
        cells.setdefault(section, {}).setdefault(run.cell["group"], {})[run.cell["seed"]] = run
    return cells


def trained(seeds: dict[int, RunResults]) -> dict[int, RunResults]:
    """The runs of an arm that have done all their steps."""
    return {seed: run for seed, run in seeds.items() if len(run.steps) >= max(1, run.planned_steps)}
