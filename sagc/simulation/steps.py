"""A controller over simulated steps: the lengths that it sees, and the seconds that engines and updates take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from sagc.controllers.protocol import GroupSizeController
from sagc.lengths import StragglerReport
from sagc.simulation.engines import EngineWork, continuous_work, padded_work
from sagc.simulation.lengths import Lengths
from sagc.simulation.step_time import StepTime

BUFFER = 2**22  # lengths that wait for the engines; those of several steps take little longer than those of one


@dataclass(frozen=True)
class Cluster:
    """The machines of a synchronous step.

    Attributes
    ----------
    costs : StepTime
        Seconds of an engine's rollout by its own work, of the update by all tokens, and of the weight sync.
    engines : int
        Inference engines; group j of a step goes to engine j modulo engines, and the step waits for the slowest.
    prompt_tokens : int
        Tokens of every prompt.
    max_running, kv_tokens : int, optional
        Limits of an engine, see `sagc.simulation.engines.continuous_work`.
    per_prefilled_token : float
        Seconds; `costs`, fitted to traces that do not hold the prompts' lengths, has none.
    """

    costs: StepTime
    engines: int = 1
    prompt_tokens: int = 0
    max_running: int | None = None
    kv_tokens: int | None = None
    per_prefilled_token: float = 0.0

    def work(self, lengths: np.ndarray) -> EngineWork:
        """Work of (..., prompts, group size) lengths: entries of shape (..., engines)."""
        *steps, prompts, size = lengths.shape
        rounds = -(-prompts // self.engines)
        dealt = np.zeros((*steps, rounds * self.engines, size), dtype=lengths.dtype)
        dealt[..., :prompts, :] = lengths
        dealt = dealt.reshape(*steps, rounds, self.engines, size).swapaxes(-3, -2)
        dealt = dealt.reshape(*steps, self.engines, rounds * size)
        if self.costs.batching == "padded":
            return padded_work(dealt, self.prompt_tokens)
        return continuous_work(dealt, self.prompt_tokens, self.max_running, self.kv_tokens)

    def seconds(self, lengths: np.ndarray) -> dict[str, np.ndarray]:
        """Seconds of steps of (steps, prompts, group size) lengths, and what they were for.

        Returns
        -------
        dict
            (steps,) arrays. Of the slowest engine: `iterations`; `barrier_s`, these times per_position; `rows_s` and
            `prefill_s`, what its rows and its prefill took. Of the step: `preemptions` over all engines, `rollout_s`,
            `train_s`, `sync_s` and `step_s`.
        """
        work, costs = self.work(lengths), self.costs
        barrier, rows = costs.per_position * work.iterations, costs.per_row * work.rows
        prefill = self.per_prefilled_token * work.prefilled
        slowest = np.argmax(barrier + rows + prefill, axis=-1)[:, None]
        parts = {"iterations": work.iterations, "barrier_s": barrier, "rows_s": rows, "prefill_s": prefill}
        found = {name: np.take_along_axis(part, slowest, axis=-1)[:, 0] for name, part in parts.items()}
        found["preemptions"] = work.preemptions.sum(axis=-1)
        found["rollout_s"] = costs.per_round + found["barrier_s"] + found["rows_s"] + found["prefill_s"]
        found["train_s"] = costs.per_step + costs.per_trained_token * lengths.sum(axis=(-2, -1), dtype=np.int64)
        found["sync_s"] = np.full(len(lengths), costs.sync)
        return found | {"step_s": found["rollout_s"] + found["train_s"] + found["sync_s"]}


def simulate(
    controller: GroupSizeController, lengths: Lengths, cluster: Cluster, *, steps: int, prompts: int, seed: int = 0
) -> pd.DataFrame:
    """Let a controller choose the group size of simulated steps.

    Parameters
    ----------
    controller : GroupSizeController
        As it would be given to a trainer; it is stepped.
    lengths : Lengths
        What the responses are like.
    cluster : Cluster
        What generates and trains on them.
    steps, prompts : int
        How many, and groups per step.
    seed : int
        Of the lengths.

    Returns
    -------
    DataFrame
        A row per step, named as in `sagc.trace.StepRecord`: step (1 is the first), group_size, samples, tokens,
        straggler_rate, idle_fraction, max_length, dual_variable, budget, infeasible; and those of `Cluster.seconds`.
    """

    def play() -> Iterator[tuple[np.ndarray, dict]]:
        for step in range(steps):
            size = controller.group_size
            sampled = lengths.sample(seed, step, prompts, size)
            report = controller.step(sampled)
            yield sampled, _row(step, size, report, controller)

    rows, times = [], []
    for together in _buffered(play()):
        rows += [row for _, row in together]
        times.append(_times(cluster, [sampled for sampled, _ in together]))
    return pd.concat([pd.DataFrame(rows), pd.concat(times, ignore_index=True)], axis=1)


def _row(step: int, size: int, report: StragglerReport, controller: GroupSizeController) -> dict:
    status = controller.status()
    return {
        "step": step + 1,
        "group_size": size,
        "samples": report.responses,
        "tokens": report.tokens,
        "straggler_rate": report.straggler_rate,
        "idle_fraction": report.idle_fraction,
        "max_length": report.max_length,
        "dual_variable": status.dual_variable,
        "budget": status.budget,
        "infeasible": status.infeasible,
    }


def _buffered(steps: Iterable[tuple[np.ndarray, dict]]) -> Iterator[list[tuple[np.ndarray, dict]]]:
    """Lists of steps with about BUFFER lengths each."""
    together, held = [], 0
    for sampled, row in steps:
        together.append((sampled, row))
        held += sampled.size
        if held >= BUFFER:
            yield together
            together, held = [], 0
    if together:
        yield together


def _times(cluster: Cluster, sampled: list[np.ndarray]) -> pd.DataFrame:
    """`Cluster.seconds` of steps whose groups may differ in size, in their order."""
    sizes = np.array([lengths.shape[1] for lengths in sampled])
    parts = []
    for size in np.unique(sizes):
        places = np.flatnonzero(sizes == size)
        parts.append(pd.DataFrame(cluster.seconds(np.stack([sampled[i] for i in places])), index=places))
    return pd.concat(parts).sort_index()
