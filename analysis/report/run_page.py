"""The page of one run: what it is, how it went, and the settings and versions that it was trained with."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pandas as pd
import yaml

from analysis.report.page_tables import PageTable, page_table
from analysis.results.runs import RunResults
from analysis.results.steps import REFILLS, slots_are_bound
from analysis.tables.table import Column, decimals
from sagc.system.source_state import as_text

SHOWN_STEPS = 60  # at most this many rows of the trace are shown


@dataclass(frozen=True)
class RunPage:
    """What the template shows of a run."""

    id: str
    name: str
    facts: list[tuple[str, str]]
    problems: list[str]
    trace: PageTable
    settings: str
    versions: list[tuple[str, str]]


def run_page(run: RunResults) -> RunPage:
    """The page of a run, finished or not."""
    return RunPage(
        id=page_id(run.cell),
        name=run.name,
        facts=_facts(run),
        problems=run.problems,
        trace=_trace(run.steps, run.cell["stack"]),
        settings=yaml.safe_dump(run.config["run"], sort_keys=False, allow_unicode=True),
        versions=[(name, str(version)) for name, version in run.config.get("versions", {}).items()],
    )


def page_id(cell: dict[str, Any]) -> str:
    """The id of the run's page, for links."""
    text = "-".join(str(cell[name]) for name in ("model", "algorithm", "stack", "group", "seed"))
    return "run-" + re.sub(r"[^\w.-]", lambda match: f"_{ord(match[0]):x}_", text, flags=re.ASCII)


def _facts(run: RunResults) -> list[tuple[str, str]]:
    machine = run.config.get("machine", {})
    return [
        ("state", run.state),
        ("steps", f"{len(run.steps)} of {run.planned_steps}"),
        ("config hash", str(run.config.get("hash", "none"))),
        ("commit", as_text(run.config.get("code") or {})),
        (
            "machine",
            ", ".join(f"{value} {name}" if name == "processors" else str(value) for name, value in machine.items()),
        ),
        ("folder", str(run.folder.path)),
    ]


def _trace(steps: pd.DataFrame, stack: str) -> PageTable:
    every = max(1, -(-len(steps) // SHOWN_STEPS))
    shown = steps.iloc[::every]
    note = "Every step." if every == 1 else f"One step of {every}; trace.jsonl has all of them, with every length."
    if slots_are_bound(stack, steps["filtered_groups"].sum()):
        note += f" Idle % is an upper bound: {REFILLS}."
    return page_table("Trace", note if len(steps) else "No step was recorded.", shown, TRACE)


TRACE = [
    Column("step", "step number", lambda row: str(row["step"])),
    Column("G", "group size", lambda row: str(row["group_size"])),
    Column("lambda", "dual variable of the published controller", decimals("dual_variable", 2)),
    Column("b", "budget of the robust controller", decimals("budget", 2)),
    Column("stragglers %", "groups whose max / median length exceeds tau", decimals("straggler_rate", 1, 100)),
    Column(
        "idle %", "decode slots that waited for the longest response of their round", decimals("idle_fraction", 1, 100)
    ),
    Column("rounds", "rounds of generation", lambda row: str(row["rounds"])),
    Column("tokens", "tokens generated", lambda row: str(row["tokens"])),
    Column("median", "median response length in tokens", decimals("median_length", 0)),
    Column("max", "longest response in tokens", lambda row: str(row["max_length"])),
    Column("reward", "mean reward of the responses generated", decimals("reward", 3)),
    Column("rollout, s", "seconds spent generating and scoring", decimals("rollout_s", 1)),
    Column("train, s", "seconds spent updating the weights", decimals("train_s", 1)),
    Column("step, s", "seconds of the whole step", decimals("step_s", 1)),
]
