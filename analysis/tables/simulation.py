"""What simulated steps add up to, per arm: rates, sizes, and hours per step and per sample."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
from tqdm import tqdm

from analysis.tables.table import Column, decimals, legend, markdown_table, percent
from sagc.errors import UserError
from sagc.lengths import idle_fraction
from sagc.simulation.calibration import Misfit
from sagc.simulation.config import SimulationConfig
from sagc.simulation.step_time import StepTime
from sagc.simulation.steps import simulate


def summarize_steps(steps: pd.DataFrame) -> dict[str, float]:
    """The sums and means of an arm's steps.

    Parameters
    ----------
    steps : DataFrame
        As of `sagc.simulation.steps.simulate`; not empty.

    Returns
    -------
    dict
        straggler_rate, mean_group_size, mean_log2 (of G), mean_inverse (of G) : means over the steps.
        idle_fraction : of all steps together (see `sagc.lengths.idle_fraction`), each of one round.
        moves : changes of the size per 100 steps.
        samples, preemptions : sums.
        hours : of all steps.
        hours_per_sample : hours per 100 000 samples trained on.
        barrier_share, rows_share : of the hours, what the slowest engine's iterations took by themselves, and its rows.
    """
    sizes = steps["group_size"].to_numpy(dtype=float)
    seconds, samples = steps["step_s"].sum(), int(steps["samples"].sum())
    return {
        "straggler_rate": steps["straggler_rate"].mean(),
        "idle_fraction": float(idle_fraction(steps["tokens"].sum(), (steps["samples"] * steps["max_length"]).sum())),
        "mean_group_size": sizes.mean(),
        "mean_log2": np.log2(sizes).mean(),
        "mean_inverse": (1 / sizes).mean(),
        "moves": moves_per_100(sizes),
        "samples": samples,
        "preemptions": int(steps["preemptions"].sum()),
        "hours": seconds / 3600,
        "hours_per_sample": seconds / 3600 / samples * 1e5,
        "barrier_share": steps["barrier_s"].sum() / seconds,
        "rows_share": steps["rows_s"].sum() / seconds,
    }


def moves_per_100(sizes: np.ndarray) -> float:
    """How often per 100 steps the next size is another one; 0 for a single step."""
    return 100 * float(np.count_nonzero(np.diff(sizes))) / max(1, len(sizes) - 1)


READ = [
    Column("arm", "static group size G, or the controller that chooses it", lambda row: row["arm"]),
    Column("straggler rate", "mean over the steps", decimals("straggler_rate", 3)),
    Column("mean G", "over the steps", decimals("mean_group_size", 1)),
    Column("moves", "changes of G per 100 steps", decimals("moves", 1)),
    Column("samples", "trained on, thousands", decimals("samples", 0, 1e-3)),
    Column("hours", "of all steps", decimals("hours", 2)),
    Column("per 100k samples", "hours per 100 000 samples", decimals("hours_per_sample", 2)),
    Column("iterations, %", "of the hours: the slowest engine's decode iterations", percent("barrier_share")),
    Column("rows, %", "of the hours: what the rows add to them", percent("rows_share")),
    Column("preemptions", "sequences thrown out of a full KV cache", decimals("preemptions", 0)),
]


def simulate_arms(simulation: SimulationConfig) -> tuple[pd.DataFrame, StepTime, Misfit | None]:
    """Every step of every arm, with the column arm before those of `simulate`; the costs, and their misfit."""
    lengths, (cluster, misfit) = simulation.build_lengths(), simulation.cluster.build()
    tables = []
    for arm in tqdm(simulation.arms, desc="simulating", unit="arm", disable=not sys.stderr.isatty()):
        controller = simulation.controller(arm, simulation.seed)
        count = {"steps": simulation.steps, "prompts": simulation.prompts, "seed": simulation.seed}
        try:
            steps = simulate(controller, lengths, cluster, **count)
        except ValueError as error:  # a response of a trace that does not fit the KV cache
            raise UserError(f"arm {arm}: {error}") from None
        steps.insert(0, "arm", str(arm))
        tables.append(steps)
    return pd.concat(tables, ignore_index=True), cluster.costs, misfit


def report(steps: pd.DataFrame, costs: StepTime, misfit: Misfit | None) -> str:
    """A line per arm, what the columns mean, and how far the seconds are from real ones where they were fitted."""
    rows = [{"arm": arm} | summarize_steps(own) for arm, own in steps.groupby("arm", sort=False)]
    parts = [markdown_table(pd.DataFrame(rows), READ), legend(READ)]
    if misfit is not None:
        seconds = ", ".join(f"{name} {cost:.2g}" for name, cost in vars(costs).items() if name != "batching")
        parts.append(f"Seconds, with {costs.batching} batching: {seconds}.")
        parts.append(
            f"Costs fitted to the odd steps of the runs foretell the seconds of their {misfit.steps} even ones with a "
            f"median error of {misfit.median:.1%} and an error in the sum of {misfit.total:+.1%}; those used here are "
            "fitted to all.\n"
        )
    return "\n".join(parts)
