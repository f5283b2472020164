"""Seconds to simulate 2 000 steps on 1 024 engines: `python -m tests.bench simulate`; the target is under two minutes.

Four prompts per engine, so that a step has 4 096 groups, for every controller; and engines where a limit binds in every
step, which are gone through event by event.
"""

import logging
import time

from sagc.controllers.registry import build_controller
from sagc.simulation.lengths import LognormalLengths, Shape
from sagc.simulation.step_time import StepTime
from sagc.simulation.steps import Cluster, simulate

ENGINES, PROMPTS, STEPS = 1024, 4096, 2000
COSTS = StepTime("continuous", 0.0, 0.01, 4e-5, 1.0, 2e-5, 2.0)
LENGTHS = LognormalLengths(((0, Shape(500.0)), (STEPS, Shape(800.0, response_spread=0.65))), 16, 8192)
LIMITS = {"none": {}, "32 running": {"max_running": 32}, "KV 25 000": {"kv_tokens": 25_000}}
CASES = [
    *(("static", "none"), ("sagc", "none"), ("sagc-robust", "none")),
    *(("static", "32 running"), ("static", "KV 25 000"), ("sagc-robust", "KV 25 000")),
]
PARAMETERS = {"static": {"group_size": 16}}


def rows(steps: int = STEPS) -> list[dict]:
    """One row per controller and limit."""
    logging.getLogger("sagc").setLevel(logging.ERROR)
    table = []
    for kind, limit in CASES:
        cluster = Cluster(COSTS, ENGINES, prompt_tokens=200, per_prefilled_token=2e-5, **LIMITS[limit])
        controller = build_controller(kind, **PARAMETERS.get(kind, {}))
        start = time.perf_counter()
        found = simulate(controller, LENGTHS, cluster, steps=steps, prompts=PROMPTS)
        seconds = round(time.perf_counter() - start, 1)
        thrown_out = float(round(found["preemptions"].sum() / found["samples"].sum(), 3))
        case = {"engines": ENGINES, "steps": steps, "prompts": PROMPTS, "controller": kind, "limit": limit}
        mean = float(round(found["group_size"].mean(), 1))
        table.append(case | {"seconds": seconds, "mean_G": mean, "preemptions_per_sample": thrown_out})
    return table
