"""The parts of the page that are tables: runs, cost, quality, equal cost, where the time went, lengths, the paper's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from analysis.cells import CELL, SECTION, natural_order
from analysis.report.page_tables import PageTable, page_table
from analysis.report.run_page import page_id
from analysis.results.runs import Results, RunResults
from analysis.results.summary import training_columns
from analysis.tables.arm_tables import accuracy_columns, efficiency_columns
from analysis.tables.cost_tables import AS_GOOD_NOTE, cost_columns, pareto_columns
from analysis.tables.grid import GridTables
from analysis.tables.output_lengths import LENGTH_COLUMNS
from analysis.tables.published import PUBLISHED_COLUMNS
from analysis.tables.runs import benchmarks, idle_note, idle_percent
from analysis.tables.table import MISSING, Column, decimals, named, percent
from analysis.tables.time_split import SAVINGS_COLUMNS, slots_note
from sagc.errors import UserError

SECTION_COLUMNS = named(SECTION)
ONE_SEED_NOTE = "Each arm has one seed, so no error or interval over seeds can be given."

SPLIT_NOTE = "Seconds and, in brackets, percent of the static arm's time; negative if time was lost. The parts add up."
PUBLISHED_NOTE = (
    "Theirs are published numbers, from other hardware and, unless the scale says otherwise, another model: only "
    "ratios to static 16 can be compared."
)


@dataclass(frozen=True)
class Section:
    """A part of the page."""

    id: str
    title: str
    note: str = ""
    tables: list[PageTable] = field(default_factory=list)


def sections_of(loaded: Results, expected: list[dict[str, Any]], tables: GridTables) -> list[Section]:
    """The sections in order; `expected` has the cells of the runs that the grid should have."""
    sections = [Section("runs", "Runs", "One line per run; its name links to its page.", [_runs(loaded, expected)])]
    if len(tables.arms):
        sections += _over_arms(tables)
    if len(tables.costs):
        sections.append(_equal_cost(tables.costs, tables.rivals))
    if len(tables.split):
        note = " ".join([SPLIT_NOTE, *slots_note(tables.split)])
        table = page_table(
            "Seconds of training against a static arm", note, tables.split, [*SECTION_COLUMNS, *SAVINGS_COLUMNS]
        )
        sections.append(Section("savings", "Where the time went", tables=[table]))
    sections.append(_lengths(tables))
    theirs = page_table(
        "The paper's numbers and ours", PUBLISHED_NOTE, tables.published, [*SECTION_COLUMNS, *PUBLISHED_COLUMNS]
    )
    return [*sections, Section("published", "Published numbers", tables=[theirs])]


def _over_arms(tables: GridTables) -> list[Section]:
    arms = tables.arms
    note = ONE_SEED_NOTE if arms["seeds"].max() == 1 else ""
    accuracies = accuracy_columns(benchmarks(tables.runs))
    bound = idle_note(arms)
    cost = page_table("What training cost", " ".join([note, *bound]), arms, [*SECTION_COLUMNS, *efficiency_columns()])
    quality = page_table("What training achieved", note, arms, [*SECTION_COLUMNS, *accuracies])
    return [
        Section("efficiency", "Training efficiency", tables=[cost]),
        Section("accuracy", "Accuracy", tables=[quality]),
    ]


def _equal_cost(costs: pd.DataFrame, rivals: pd.DataFrame) -> Section:
    columns = [*SECTION_COLUMNS, *pareto_columns(costs)]
    front = page_table("Accuracy against hours", f"{_as_good_text(rivals)} {AS_GOOD_NOTE}", costs, columns)
    same = page_table(
        "Time to a given reward, and reward at a given time", "", costs, [*SECTION_COLUMNS, *cost_columns(costs)]
    )
    return Section("equal-cost", "At equal cost", tables=[front, same])


def _as_good_text(rivals: pd.DataFrame) -> str:
    """A sentence on the static arms that are as good as a controlled one."""
    better = rivals[rivals["as_good"].astype(bool)]
    if better.empty:
        return "No static arm is as good as a controlled one in no more time."
    lines = [
        f"{'/'.join(key[:3])}, {key[3]}: static {', '.join(sorted(set(rows['static']), key=int))}"
        for key, rows in better.groupby([*SECTION, "group"], sort=False)
    ]
    return f"Static arms that match a controlled one on some quality in no more time: {'; '.join(lines)}."


def _lengths(tables: GridTables) -> Section:
    try:
        frame = tables.lengths
    except UserError as error:
        return Section("lengths", "Output lengths", f"Lengths cannot be compared: {error}")
    if frame.empty:
        return Section("lengths", "Output lengths", "There is no pair of arms to compare.")
    table = page_table(
        "Controlled arms against static ones, problem by problem", "", frame, [*SECTION_COLUMNS, *LENGTH_COLUMNS]
    )
    return Section("lengths", "Output lengths", "A negative difference means shorter outputs after control.", [table])


# The runs ------------------------------------------------------------------------------------------------------------


def _runs(loaded: Results, expected: list[dict[str, Any]]) -> PageTable:
    rows = [_run_row(run) for run in loaded.runs]
    there = [run.cell for run in loaded.runs]
    rows += [{**cell, "state": "missing"} for cell in expected if cell not in there]
    for row in rows:
        row["run"] = "/".join(str(row[name]) for name in CELL)
    frame = pd.DataFrame(sorted(rows, key=natural_order), columns=RUN_FIELDS)

    def link(row: dict[str, Any]) -> str | None:
        return None if row["state"] == "missing" else page_id(row)

    return page_table(f"{len(loaded.runs)} runs", " ".join(idle_note(frame)), frame, RUN_COLUMNS, link)


def _run_row(run: RunResults) -> dict[str, Any]:
    row = run.summary
    if row is None:  # not done, perhaps not started
        row = training_columns(run.steps, run.config["run"]["straggler"]["event"]) if len(run.steps) else {}
    accuracy = next((value for name, value in row.items() if name.startswith("accuracy_")), None)
    return {
        **row,
        **run.cell,
        "state": run.state,
        "done": f"{len(run.steps)}/{run.planned_steps}",
        "accuracy": accuracy,
    }


RUN_FIELDS = [
    *("run", *CELL, "state", "done", "straggler_rate", "idle_fraction", "filtered_share"),
    *("mean_group_size", "tokens", "wall_s", "rollout_s", "train_s", "sync_s", "reward", "accuracy", "cut_off_rate"),
]


def _as_it_is(name: str):
    return lambda row: MISSING if pd.isna(row[name]) else str(row[name])


RUN_COLUMNS = [
    Column("run", "model, algorithm, stack, group (a static size, or the controller) and seed", _as_it_is("run")),
    Column("state", "done, not evaluated, unfinished, empty (no step yet) or missing", _as_it_is("state")),
    Column("steps", "steps done, of those that the config asks for", _as_it_is("done")),
    Column("stragglers %", "groups whose max / median length exceeds tau", percent("straggler_rate")),
    Column("idle %", "decode slots that waited for the longest response of their round", idle_percent),
    Column("mean G", "group size, mean over steps", decimals("mean_group_size", 1)),
    Column("tokens, k", "thousands of tokens generated in training", decimals("tokens", 0, 1e-3)),
    Column("wall, s", "seconds of all steps so far, checkpoints excluded", decimals("wall_s", 0)),
    Column("rollout, s", "the part spent generating and scoring", decimals("rollout_s", 0)),
    Column("train, s", "the part spent updating the weights", decimals("train_s", 0)),
    Column("sync, s", "the part spent transferring the weights to the generator", decimals("sync_s", 0)),
    Column("reward", "mean training reward of the last ten steps", decimals("reward", 3)),
    Column("accuracy", "on the first benchmark", decimals("accuracy", 3)),
    Column("cut off %", "training responses cut off by the length limit", percent("cut_off_rate")),
]
