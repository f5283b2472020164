"""The paper's published numbers next to ours.

They were measured on other hardware, data and settings, and mostly with another model than ours: only ratios of an arm
to static 16 can be compared. Only numbers that are known for certain are listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.cells import REFERENCE, SECTION
from analysis.results.arms import Arms, arms_by_cell, trained
from analysis.results.runs import RunResults
from analysis.results.summary import training_columns
from analysis.statistics import INTERVAL, against, mean_and_error
from analysis.tables.table import MISSING, Column, Table, decimals, named, with_error, with_interval

SOURCE = (
    'Khan, Ahmed, Fayyaz, Di, Hong, Ali Anwar, "Faster Synchronous On-Policy RL via Straggler-Aware Group Sizing", '
    "arXiv 2606.02218, 2026"
)
FAMILY, MODEL, ALGORITHM = "llama", "Llama-3.2-3B", "dapo"  # the paper's stack for these is unknown
PUBLISHED = pd.DataFrame(
    {"straggler_rate": [0.996, 0.434], "wall_s": [29.50 * 3600, 16.00 * 3600]}, index=[REFERENCE, "sagc"]
)
SCALES = {  # what our rows train -> the note on it
    "the paper's model": "The rows of the paper's model use the same model as theirs.",
    "embedded scale": "The rows at embedded scale use a tiny model of the same family on a toy task, so even the "
    "ratios show no more than the direction.",
    "another model": "The rows of another model use a different model of the same family.",
    "no run": f"No run here trains a Llama model with {ALGORITHM.upper()}.",
}
SAME_MODEL, EMBEDDED, OTHER_MODEL, NO_RUN = SCALES
COLUMNS = [
    *(*SECTION, "scale", "group", "seeds"),
    *(f"{name}{suffix}" for name in PUBLISHED for suffix in ("_published", "", "_se")),
    *(f"{name}_vs_static16{suffix}" for name in PUBLISHED for suffix in ("_published", *INTERVAL)),
]


def published(runs: Sequence[RunResults]) -> pd.DataFrame:
    """Every published arm next to ours, for each of our cells with the same algorithm and a model of the same family.

    Parameters
    ----------
    runs : sequence of RunResults
        In natural order, as from `analysis.results.runs.load_results`. Those that did not finish training are ignored.

    Returns
    -------
    DataFrame
        model, algorithm, stack : our cell; if there is none, the paper's model, and no stack.
        scale : what our cell trains: "the paper's model", "embedded scale" or "another model"; or "no run".
        group : the arm.
        seeds : number of our runs.
        X_published, X, X_se : for X in straggler_rate (0 to 1) and wall_s (seconds): theirs, and ours as the mean over
        seeds and its standard error; NaN if missing.
        X_vs_static16_published, X_vs_static16, _low, _high, _n : relative to static 16: theirs, and ours as the
        geometric mean over common seeds, with its 95 % paired t interval and the number of these seeds.
    """
    cells = [(section, arms) for section, arms in arms_by_cell(runs).items() if _matches(section[1], arms)]
    rows = [row for section, arms in cells or [((MODEL, ALGORITHM, None), {})] for row in _rows(section, arms)]
    return pd.DataFrame(rows, columns=COLUMNS)


def _matches(algorithm: str, arms: Arms) -> bool:
    return algorithm == ALGORITHM and FAMILY in _architecture(_model(arms))


def _model(arms: Arms) -> dict[str, Any]:
    """The model section of the config of a cell's first run."""
    first = next(iter(next(iter(arms.values())).values()))
    return first.config["run"].get("model", {})


def _architecture(model: dict[str, Any]) -> str:
    """The text that names the family: a tiny model's architecture, or the last part of a pretrained model's path."""
    return str(model.get("architecture") or Path(model.get("path") or "").name).lower()


def _scale(arms: Arms) -> str:
    if not arms:
        return NO_RUN
    model = _model(arms)
    if model.get("type") == "tiny":
        return EMBEDDED
    return SAME_MODEL if _architecture(model) == MODEL.lower() else OTHER_MODEL


def _rows(section: tuple, arms: Arms) -> Iterable[dict[str, Any]]:
    """The rows of one of our cells."""
    measured = {group: _measure(arms.get(group, {})) for group in PUBLISHED.index}
    for group, own in measured.items():
        row = dict(zip(SECTION, section, strict=True)) | {"scale": _scale(arms), "group": group, "seeds": len(own)}
        for name, theirs in PUBLISHED.items():
            row |= {f"{name}_published": theirs[group]}
            row[f"{name}_vs_static16_published"] = theirs[group] / theirs[REFERENCE]
            row[name], row[f"{name}_se"] = mean_and_error(own[name].to_numpy()) if len(own) else (np.nan, np.nan)
        yield row | against(own, measured[REFERENCE], "static16", ratios=PUBLISHED)


def _measure(seeds: dict[int, RunResults]) -> pd.DataFrame:
    """The compared values, one row per seed that finished training."""
    rows = {
        seed: training_columns(run.steps, run.config["run"]["straggler"].get("event", "group"))
        for seed, run in trained(seeds).items()
    }
    return pd.DataFrame(rows, index=list(PUBLISHED), dtype=float).T


def write_published(frame: pd.DataFrame, folder: Path, clocks: Iterable[str] = ()) -> None:
    """Write published as .csv, .md and .tex, atomically; `clocks` are the sentences of `uneven_clocks`."""
    intro = (
        f"**Theirs** is published: {MODEL} with {ALGORITHM.upper()}, on other hardware; its data, its settings and "
        "which of the paper's stacks it used could not be determined. **Ours** was measured here. Only the ratios to "
        "static 16 can be compared."
    )
    missing = (
        f"{MISSING} marks a missing value: an arm with no run that finished training, a ratio without any stragglers, "
        "or an interval over one seed."
    )
    table = Table(
        [*named(SECTION), *PUBLISHED_COLUMNS],
        frame,
        title="The paper's numbers next to ours",
        notes=[*clocks, intro, *(sentence for scale, sentence in SCALES.items() if scale in set(frame["scale"]))],
        key=[f"Source of theirs: {SOURCE}."],
        closing=[missing] if frame["straggler_rate_vs_static16"].isna().any() else [],
        names=len(SECTION) + 2,
    )
    table.write(folder / "published", csv=frame.assign(source=SOURCE))


def _pair(title: str, meaning: str, name: str, digits: int, scale: float = 1.0) -> list[Column]:
    """Theirs and ours: a mean with its error, or a ratio to static 16 with its interval."""
    ours = with_interval(name, f".{digits}f") if name.endswith("static16") else with_error(name, digits, scale)
    theirs = decimals(f"{name}_published", min(digits, 2), scale)
    return [
        Column(f"{title}, theirs", f"{meaning}; published, on other hardware", theirs),
        Column(f"{title}, ours", f"{meaning}; measured here", ours),
    ]


TO_REFERENCE = f"relative to static {REFERENCE}"
PUBLISHED_COLUMNS = [
    Column("scale", "what our rows train, compared with the paper's model", lambda row: row["scale"]),
    Column("group", "static group size G, or the controller as published", lambda row: row["group"]),
    Column("seeds, ours", "number of our seeds; theirs is not known", lambda row: str(row["seeds"])),
    *_pair("stragglers %", "straggler rate over the whole training", "straggler_rate", 1, 100),
    *_pair("stragglers / 16", f"straggler rate {TO_REFERENCE}", "straggler_rate_vs_static16", 2),
    *_pair("hours", "of training", "wall_s", 3, 1 / 3600),
    *_pair("hours / 16", f"hours {TO_REFERENCE}", "wall_s_vs_static16", 2),
]
