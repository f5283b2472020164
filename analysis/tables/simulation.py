"""What `sagc simulate` prints: a line per arm, and how well the fitted costs predict seconds."""

from __future__ import annotations

import pandas as pd

from analysis.tables.table import Column, Table, decimals, group_column, percent
from sagc.simulation.calibration import Misfit
from sagc.simulation.step_time import StepTime
from sagc.simulation.totals import summarize_steps

ARM_COLUMNS = [
    group_column("arm"),
    Column("straggler rate", "mean over the steps", decimals("straggler_rate", 3)),
    Column("mean G", "over the steps", decimals("mean_group_size", 1)),
    Column("moves", "changes of G per 100 steps", decimals("moves", 1)),
    Column("samples", "trained on, thousands", decimals("samples", 0, 1e-3)),
    Column("hours", "of all steps", decimals("hours", 2)),
    Column("per 100k samples", "hours per 100 000 samples", decimals("hours_per_sample", 2)),
    Column("iterations, %", "share of the hours for the slowest engine's decode iterations", percent("barrier_share")),
    Column("rows, %", "share of the hours that the rows add to them", percent("rows_share")),
    Column("preemptions", "sequences evicted from a full KV cache", decimals("preemptions", 0)),
]


def report(steps: pd.DataFrame, costs: StepTime, misfit: Misfit | None) -> str:
    """One line per arm, what the columns mean and, if the costs were fitted, their error against real seconds."""
    rows = [{"arm": arm} | summarize_steps(own) for arm, own in steps.groupby("arm", sort=False)]
    closing = []
    if misfit is not None:
        seconds = ", ".join(f"{name} {cost:.2g}" for name, cost in vars(costs).items() if name != "batching")
        closing.append(
            f"Seconds, with {costs.batching} batching: {seconds}.\n"
            f"Costs fitted to the odd steps of the runs predict the seconds of their {misfit.steps} even ones with a "
            f"median error of {misfit.median:.1%} and an error in the sum of {misfit.total:+.1%}; the costs used here "
            "are fitted to all steps."
        )
    return Table(ARM_COLUMNS, pd.DataFrame(rows), closing=closing).markdown()
