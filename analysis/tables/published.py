"""The paper's published numbers beside ours.

They are of other hardware, data and settings, and here mostly of another model: what can be compared is the ratio of
an arm to static 16. Nothing is here but what is known for certain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.cells import REFERENCE, SECTION
from analysis.results.runs import RunResults
from analysis.results.summary import training_columns
from analysis.statistics import INTERVAL, mean_and_error, over_common, paired_ratio
from analysis.tables.equal_cost import Arms, arms_by_cell, trained
from analysis.tables.table import (
    MISSING,
    Column,
    Row,
    decimals,
    latex_table,
    legend,
    markdown_table,
    named,
    percent,
    with_error,
    with_interval,
    with_notes,
)
from sagc.system.files import write_atomically

SOURCE = (
    'Khan, Ahmed, Fayyaz, Di, Hong, Ali Anwar, "Faster Synchronous On-Policy RL via Straggler-Aware Group Sizing", '
    "arXiv 2606.02218, 2026"
)
FAMILY, MODEL, ALGORITHM = "llama", "Llama-3.2-3B", "dapo"


@dataclass(frozen=True)
class Published:
    """What the paper gives for one arm of MODEL with ALGORITHM; for which of its stacks could not be established."""

    group: str
    straggler_rate: float  # 0 to 1
    wall_s: float


PUBLISHED = (Published("16", 0.996, 29.50 * 3600), Published("sagc", 0.434, 16.00 * 3600))
SAME, EMBEDDED, ANOTHER, NONE = "the paper's model", "embedded scale", "another model", "no run"
COMPARED = ("straggler_rate", "wall_s")
COLUMNS = [
    *(*SECTION, "scale", "group", "seeds"),
    *(f"{name}{suffix}" for name in COMPARED for suffix in ("_published", "", "_se")),
    *(f"{name}_vs_static16{suffix}" for name in COMPARED for suffix in ("_published", *INTERVAL)),
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
    rows = [row for section, arms in cells for row in _rows(section, arms)]
    return pd.DataFrame(rows or _rows((MODEL, ALGORITHM, None), {}), columns=COLUMNS)


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


def _rows(section: tuple, arms: Arms) -> list[Row]:
    """The rows of one of our cells."""
    measured = {group: _measure(trained(seeds)) for group, seeds in arms.items()}
    theirs = {arm.group: arm for arm in PUBLISHED}
    rows = []
    for group, arm in theirs.items():
        own = measured.get(group, _measure({}))
        row = {**dict(zip(SECTION, section, strict=True)), "scale": _scale(arms), "group": group, "seeds": len(own)}
        for name in COMPARED:
            row[f"{name}_published"] = getattr(arm, name)
            row[f"{name}_vs_static16_published"] = getattr(arm, name) / getattr(theirs[REFERENCE], name)
            row[name], row[f"{name}_se"] = mean_and_error(own[name].to_numpy()) if len(own) else (np.nan, np.nan)
            ratio = over_common(paired_ratio, own[name], measured.get(REFERENCE, _measure({}))[name])
            row |= ratio.columns(f"{name}_vs_static16")
        rows.append(row)
    return rows


def _measure(seeds: dict[int, RunResults]) -> pd.DataFrame:
    """What is compared, a row per seed."""
    rows = {}
    for seed, run in seeds.items():
        columns = training_columns(run.steps, run.config["run"]["straggler"].get("event", "group"))
        rows[seed] = [columns[name] for name in COMPARED]
    return pd.DataFrame(rows, index=list(COMPARED), dtype=float).T


# Tables --------------------------------------------------------------------------------------------------------------


def write_published(frame: pd.DataFrame, folder: Path, clocks: Iterable[str] = ()) -> None:
    """Write published as .csv, .md and .tex, each whole; `clocks` as of analysis.tables.clocks."""
    write_atomically(folder / "published.csv", frame.assign(source=SOURCE).to_csv(index=False))
    write_atomically(folder / "published.md", with_notes(to_markdown(frame), clocks))
    write_atomically(folder / "published.tex", latex_table(frame, [*named(SECTION), *READ], left=len(SECTION) + 2))


def to_markdown(frame: pd.DataFrame) -> str:
    """The table with the cells as its first columns, what may be compared in it, the source, and a legend."""
    columns = [*named(SECTION), *READ]
    parts = [
        "# The paper's numbers beside ours\n",
        f"**Theirs** is published: {MODEL} with {ALGORITHM.upper()}, on other hardware, with data and settings that "
        "could not be found; for which of the paper's stacks could not be established. **Ours** was measured here. "
        "Only the ratios to static 16 can be compared.\n",
    ]
    parts += [sentence for scale, sentence in SCALES.items() if scale in set(frame["scale"])]
    parts += [markdown_table(frame, columns), f"Source of theirs: {SOURCE}.\n", legend(READ)]
    if frame["straggler_rate_vs_static16"].isna().any():
        parts.append(
            f"{MISSING} stands for what there is not: an arm without a run that is trained to its end, a ratio without "
            "any stragglers, and an interval of one seed.\n"
        )
    return "\n".join(parts)


SCALES = {
    SAME: "The rows of the paper's model are of the same model as theirs.\n",
    EMBEDDED: "The rows at embedded scale are of a tiny model of the same family, on a toy task: another "
    "model than theirs, so that even the ratios show no more than the direction.\n",
    ANOTHER: "The rows of another model are of the same family, and of another model than theirs.\n",
    NONE: f"No run here is of a Llama model with {ALGORITHM.upper()}.\n",
}


Text = Callable[[str], Callable[[Row], str]]  # of a column's name: the text of its cells


def _ours_and_theirs(title: str, meaning: str, name: str, theirs: Text, ours: Text) -> list[Column]:
    return [
        Column(f"{title}, theirs", f"{meaning}; published, on other hardware", theirs(f"{name}_published")),
        Column(f"{title}, ours", f"{meaning}; measured here", ours(name)),
    ]


READ = [
    Column("scale", "what our rows train, beside the paper's model", lambda row: row["scale"]),
    Column("group", "static group size G, or the controller as published", lambda row: row["group"]),
    Column("seeds, ours", "how many; theirs are not known", lambda row: str(row["seeds"])),
    *_ours_and_theirs(
        "stragglers %",
        "straggler rate of the whole training",
        "straggler_rate",
        percent,
        lambda name: with_error(name, 1, 100),
    ),
    *_ours_and_theirs(
        "stragglers / 16",
        f"straggler rate relative to static {REFERENCE}",
        "straggler_rate_vs_static16",
        lambda name: decimals(name, 2),
        lambda name: with_interval(name, ".2f"),
    ),
    *_ours_and_theirs(
        "hours",
        "of training",
        "wall_s",
        lambda name: decimals(name, 2, 1 / 3600),
        lambda name: with_error(name, 3, 1 / 3600),
    ),
    *_ours_and_theirs(
        "hours / 16",
        f"hours relative to static {REFERENCE}",
        "wall_s_vs_static16",
        lambda name: decimals(name, 2),
        lambda name: with_interval(name, ".2f"),
    ),
]
