"""Time of one controller step for 128 groups of 16 responses: `python -m tests.bench controller`.

Prints a markdown table. The controllers take turns, so that whatever else the machine does falls on all of them, and
every step starts from the same state. Targets: a median under 1 ms for sagc and under 5 ms for sagc-robust.
"""

import statistics
import time

import numpy as np

from sagc.controllers.registry import build_controller

GROUPS, GROUP_SIZE = 128, 16
REPEATS = 200
PARAMETERS = {"static": {"group_size": GROUP_SIZE}, "sagc": {"start": GROUP_SIZE}, "sagc-robust": {"start": GROUP_SIZE}}


def rows(repeats: int = REPEATS) -> list[dict]:
    """One row per kind of input and controller: median milliseconds per step, and its ratio to static's."""
    lengths = np.exp(np.random.default_rng(0).normal(5.5, 0.5, (GROUPS, GROUP_SIZE))).astype(np.int64) + 1
    table = []
    for name, rollout in (("arrays", lengths), ("lists", lengths.tolist())):
        milliseconds = _median_times(rollout, repeats)
        table += [
            {
                "input": name,
                "controller": kind,
                "median_ms": round(median, 3),
                "ratio_to_static": round(median / milliseconds["static"], 1),
            }
            for kind, median in milliseconds.items()
        ]
    return table


def _median_times(rollout, repeats: int) -> dict[str, float]:
    controllers = {kind: build_controller(kind, **parameters) for kind, parameters in PARAMETERS.items()}
    states = {kind: controller.state_dict() for kind, controller in controllers.items()}
    times = {kind: [] for kind in controllers}
    for repeat in range(repeats + 5):
        for kind, controller in controllers.items():
            controller.load_state_dict(states[kind])
            start = time.perf_counter()
            controller.step(rollout)
            elapsed = time.perf_counter() - start
            if repeat >= 5:  # the first steps fill the index tables
                times[kind].append(1000 * elapsed)
    return {kind: statistics.median(values) for kind, values in times.items()}
