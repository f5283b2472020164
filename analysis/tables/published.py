"""The paper's published numbers beside ours.

They are of other hardware, data and settings, and here mostly of another model: what can be compared is the ratio of
an arm to static 16. Nothing is here but what is known for certain.
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
FAMILY, MODEL, ALGORITHM = "llama", "Llama-3.2-3B", "dapo"  # for which of its stacks could not be established
PUBLISHED = pd.DataFrame(
    {"straggler_rate": [0.996, 0.434], "wall_s": [29.50 * 3600, 16.00 * 3600]}, index=[REFERENCE, "sagc"]
)
SCALES = {  # what our rows train, and what is said of it
    "the paper's model": "The rows of the paper's model are of the same model as theirs.",
    "embedded scale": "The rows at embedded scale are of a tiny model of the same family, on a toy task: another model "
    "than theirs, so that even the ratios show no more than the direction.",
    "another model": "The rows of another model are of the same family, and of another model than theirs.",
    "no run": f"No run here is of a Llama model with {ALGORITHM.upper()}.",
}
SAME, EMBEDDED, ANOTHER, NONE = SCALES
COLUMNS = [
    *(*SECTION, "scale", "group", "seeds"),
    *(f"{name}{suffix}" for name in PUBLISHED for suffix in ("_published", "", "_se")),
    *(f"{name}_vs_static16{suffix}" for name in PUBLISHED for suffix in ("_published", *INTERVAL)),
]


def published(runs: Sequence[RunResults]) -> pd.DataFrame:
    """Every published arm beside ours, for each of our cells of the same algorithm and a model of the same family.

    Parameters
    ----------
    runs : sequence of RunResults
        In natural order, as `analysis.results.runs.load_results` gives them. Those that are not trained to their end do
        not count.

    Returns
    -------
    DataFrame
        model, algorithm, stack : our cell; where there is none, the paper's model, and no stack.
        scale : "the paper's model", "embedded scale" or "another model", as what our cell trains; or "no run".
        group : the arm.
        seeds : number of our runs.
        X_published, X, X_se : for X in straggler_rate (0 to 1) and wall_s (seconds): theirs, and ours as the mean over
        seeds and its standard error; NaN where there is none.
        X_vs_static16_published, X_vs_static16, _low, _high, _n : relative to static 16, theirs, and ours as the
        geometric mean over the seeds that both have, with its 95 % paired t interval and the number of these seeds.
    """
    cells = [(section, arms) for section, arms in arms_by_cell(runs).items() if _matches(section[1], arms)]
    rows = [row for section, arms in cells or [((MODEL, ALGORITHM, None), {})] for row in _rows(section, arms)]
    return pd.DataFrame(rows, columns=COLUMNS)


def _matches(algorithm: str, arms: Arms) -> bool:
    return algorithm == ALGORITHM and FAMILY in _architecture(_model(arms))


def _model(arms: Arms) -> dict[str, Any]:
    """The model's part of the config, of the first run of a cell."""
    first = next(iter(next(iter(arms.values())).values()))
    return first.config["run"].get("model", {})


def _architecture(model: dict[str, Any]) -> str:
    """What names the family: a tiny model's architecture, or the last part of the path to a pretrained one."""
    return str(model.get("architecture") or Path(model.get("path") or "").name).lower()


def _scale(arms: Arms) -> str:
    if not arms:
        return NONE
    model = _model(arms)
    if model.get("type") == "tiny":
        return EMBEDDED
    return SAME if _architecture(model) == MODEL.lower() else ANOTHER


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
    """What is compared, a row per seed that is trained to its end."""
    rows = {
        seed: training_columns(run.steps, run.config["run"]["straggler"].get("event", "group"))
        for seed, run in trained(seeds).items()
    }
    return pd.DataFrame(rows, index=list(PUBLISHED), dtype=float).T


def write_published(frame: pd.DataFrame, folder: Path, clocks: Iterable[str] = ()) -> None:
    """Write published as .csv, .md and .tex, each whole; `clocks` as of analysis.tables.clocks."""
    intro = (
        f"**Theirs** is published: {MODEL} with {ALGORITHM.upper()}, on other hardware, with data and settings that "
        "could not be found; for which of the paper's stacks could not be established. **Ours** was measured here. "
        "Only the ratios to static 16 can be compared."
    )
    missing = (
        f"{MISSING} stands for what there is not: an arm without a run that is trained to its end, a ratio without any "
        "stragglers, and an interval of one seed."
    )
    table = Table(
        [*named(SECTION), *PUBLISHED_COLUMNS],
        frame,
        title="The paper's numbers beside ours",
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
    Column("scale", "what our rows train, beside the paper's model", lambda row: row["scale"]),
    Column("group", "static group size G, or the controller as published", lambda row: row["group"]),
    Column("seeds, ours", "how many; theirs are not known", lambda row: str(row["seeds"])),
    *_pair("stragglers %", "straggler rate of the whole training", "straggler_rate", 1, 100),
    *_pair("stragglers / 16", f"straggler rate {TO_REFERENCE}", "straggler_rate_vs_static16", 2),
    *_pair("hours", "of training", "wall_s", 3, 1 / 3600),
    *_pair("hours / 16", f"hours {TO_REFERENCE}", "wall_s_vs_static16", 2),
]
