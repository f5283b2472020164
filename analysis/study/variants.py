"""The study's variants of sagc-robust as a table, one line per variant and number of prompts."""

from __future__ import annotations

import pandas as pd

from analysis.tables.table import Column, Table, decimals
from sagc.simulation.study.config import StudyConfig

KEYS = ["variant", "prompts"]


def variants_table(found: pd.DataFrame, study: StudyConfig) -> Table:
    """The table of what `sagc.simulation.study.variants.variants` found."""
    head = f"Means over {study.variants.seeds} seeds of {study.steps} steps."
    return Table(VARIANT_COLUMNS, summarize(found), notes=[head])


def summarize(found: pd.DataFrame) -> pd.DataFrame:
    """One row per variant and number of prompts: mean distance, and the worst workload's bias, moves and recovery."""
    groups = found.groupby(KEYS, sort=False)
    still = found[found["stationary"]].groupby(KEYS, sort=False)
    columns = {"distance": groups["distance"].mean(), "bias": groups["bias"].max()}
    columns |= {"moves": still["moves"].max(), "recovery": groups["recovery"].max()}
    return pd.DataFrame(columns).reset_index().sort_values(["prompts"], kind="stable")


VARIANT_COLUMNS = [
    Column("prompts", "per step", lambda row: str(row["prompts"])),
    Column("sagc-robust", "its parameters", lambda row: row["variant"]),
    Column(
        "distance",
        "of the rolling rate from its aim, mean over the workloads",
        decimals("distance", 3),
    ),
    Column("bias", "of the mean rate where delta is feasible; the worst workload", decimals("bias", 3)),
    Column("moves", "changes of G per 100 steps; the worst of the stationary workloads", decimals("moves", 1)),
    Column("recovery", "steps after a change; the worst workload", decimals("recovery", 1)),
]
