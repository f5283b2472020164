"""A run's trace as tables: one row per step, without the length of every response, which would fill the memory."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sagc.lengths import GroupLengths, decode_slots, expected_events
from sagc.trace import StepRecord, read_trace

QUANTILES = {"q10": 0.1, "q25": 0.25, "q75": 0.75, "q90": 0.9, "q99": 0.99}
COPIED = (  # unchanged from the record
    *("step", "group_size", "next_group_size", "prompts", "samples", "kept_groups", "filtered_groups"),
    *("straggler_events", "straggler_rate", "idle_fraction", "tokens", "mean_length", "median_length", "max_length"),
    *("truncated", "learning_rate", "optimizer_steps", "rollout_s", "train_s", "sync_s", "step_s", "infeasible"),
)
OPTIONAL = ("reward", "dual_variable", "budget", "vllm_kl", "processor_s")  # NaN if the record has none
COLUMNS = (*COPIED, *OPTIONAL, "groups", "responses", "rounds", "slots", *QUANTILES, "elapsed_s")


@dataclass(frozen=True)
class Steps:
    """The tables of one trace.

    Attributes
    ----------
    table : DataFrame
        (steps, ...) with COLUMNS, named as in `sagc.trace.StepRecord`; and groups and responses generated, rounds of
        generation, slots (see `sagc.lengths.decode_slots`), quantiles of the response lengths in tokens, and elapsed_s,
        the seconds of training until the end of the step.
    risks : DataFrame
        (steps, ladder sizes), index step: the controller's estimate of the straggler risk after the step.
    realised : DataFrame
        Same shape: the exact straggler rate of the rollout's sub-groups of that size; NaN for sizes above the step's
        own. Empty if there was no controller to compare with.
    problems : list of str
        What is wrong with the trace, one sentence each; the steps before a bad line are in the tables.
    broken : str
        Why it cannot be read to its end; empty if it can.
    """

    table: pd.DataFrame
    risks: pd.DataFrame
    realised: pd.DataFrame
    problems: list[str]
    broken: str


def read_steps(trace: str | Path, tau: float) -> Steps:
    """Read a trace, finished or not, record by record; a half-written last line is left out."""
    rows: list[dict[str, Any]] = []
    risks: dict[int, dict[int, float]] = {}
    realised: dict[int, dict[int, float]] = {}
    problems: list[str] = []
    broken = ""
    try:
        for record in read_trace(trace):
            rows.append(step_row(record))
            if record.risks:
                risks[record.step] = {int(size): risk for size, risk in record.risks.items()}
                realised[record.step] = _realised(record, risks[record.step], tau)
    except FileNotFoundError:
        broken = f"{Path(trace).parent} has no trace.jsonl; train it first"
        problems.append(f"{trace} does not exist: no step was recorded")
    except (OSError, ValueError, TypeError, KeyError) as error:
        broken = str(error)
        problems.append(f"the trace cannot be read beyond step {len(rows)}: {error}")
    table = steps_table(rows)
    problems += _odd_values(table)
    believed = _by_size(risks)
    return Steps(table, believed, _by_size(realised).reindex(columns=believed.columns), problems, broken)


def steps_table(rows: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """The table of rows from `step_row`; it has all columns even without rows."""
    table = pd.DataFrame(list(rows), columns=[name for name in COLUMNS if name != "elapsed_s"])
    table = table.astype({name: float for name in OPTIONAL})
    return table.assign(elapsed_s=table["step_s"].cumsum())


def step_row(record: StepRecord) -> dict[str, Any]:
    """The row of one step, without elapsed_s."""
    lengths = np.concatenate([np.asarray(group) for group in record.lengths])
    quantiles = np.quantile(lengths, list(QUANTILES.values()))
    row = {name: getattr(record, name) for name in COPIED}
    row |= {name: math.nan if (value := getattr(record, name)) is None else float(value) for name in OPTIONAL}
    row |= {"groups": len(record.lengths), "responses": len(lengths), "rounds": len(record.rounds)}
    row["slots"] = decode_slots(record.lengths, record.rounds)
    return row | dict(zip(QUANTILES, quantiles.tolist(), strict=True))


UPPER_BOUND_MARK = "*"  # on values computed from slots that are only an upper bound
REFILLS = (
    "OpenRLHF with dynamic sampling replaces groups while others are still being decoded, so rounds have no barrier of "
    "their own"
)
UPPER_BOUND = f"A star marks values computed from slots that are only an upper bound: {REFILLS}."


def slots_are_bound(stack: str, filtered: float) -> bool:
    """Whether slots are only an upper bound, given how many groups were dropped (see openrlhf_patch/README.md)."""
    return stack == "openrlhf" and filtered > 0


def _realised(record: StepRecord, sizes: Iterable[int], tau: float) -> dict[int, float]:
    """Size -> straggler rate of the rollout's sub-groups of that size."""
    rollout = GroupLengths.parse(record.lengths)
    smallest = int(rollout.sizes.min())
    return {n: expected_events(rollout, n, tau) / len(rollout.sizes) for n in sizes if n <= smallest}


def _by_size(values: dict[int, dict[int, float]]) -> pd.DataFrame:
    table = pd.DataFrame.from_dict(values, orient="index")
    return table.reindex(columns=sorted(table.columns)).rename_axis(index="step")


def _odd_values(table: pd.DataFrame) -> list[str]:
    """Sentences on values that can be read but that a run would not write."""
    found = []
    steps = table["step"].tolist()
    if steps != list(range(1, len(steps) + 1)):
        found.append("the trace does not contain its steps in order from 1")
    if missing := int(table["reward"].isna().sum()):
        found.append(f"{missing} of {len(table)} steps have no reward")
    return found
