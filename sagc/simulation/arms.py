"""The arms of a simulation: every step of each, and what their seconds rest on."""

from __future__ import annotations

import sys

import pandas as pd
from tqdm import tqdm

from sagc.errors import UserError
from sagc.simulation.calibration import Misfit
from sagc.simulation.config import SimulationConfig
from sagc.simulation.step_time import StepTime
from sagc.simulation.steps import simulate


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
