"""How long other group sizes would have taken, as far as the log's own timings can tell [ours].

The cost model is `sagc.simulation.step_time`. Within a log of one static size its costs are not told apart: without
dynamic sampling every rollout has as many rows, so that what a position costs and what its rows cost rise and fall
together, and a smaller group saves anything from nothing to its share. So hours are a range: the least and the most
among all costs, none negative, that fit the timings about as well as the best do (profile likelihood, 95 %). Logs of
several sizes from one machine narrow it down. How busy another run's machine is, they cannot know.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sagc.logs import Log
from sagc.replay.intervals import Totals
from sagc.simulation.step_time import BATCHING, design
from sagc.trace import StepRecord

LIKELY = 3.84  # 95 % quantile of chi-squared with one degree of freedom
BISECTIONS = 30
FEWEST = 8  # steps to fit five costs to
NO_CONFIG = "Without config.json it is not known how rows were batched, so there are no hours."
Range = tuple[float, float]


class Hours:
    """Ranges of hours from the timings of traces.

    Parameters
    ----------
    records : sequence of StepRecord
        Steps with their timings, of one or more traces of one machine.
    stack : str
        What generated them: a key of `sagc.simulation.step_time.BATCHING`.
    """

    def __init__(self, records: Sequence[StepRecord], stack: str):
        self._rows = "slots" if BATCHING[stack] == "padded" else "tokens"
        rollout, train = design(records, BATCHING[stack])
        self._rollout = Costs(rollout, np.array([record.rollout_s for record in records]))
        self._train = Costs(train, np.array([record.train_s for record in records]))
        self._sync = float(np.mean([record.sync_s for record in records]))

    def range(self, totals: Totals) -> Range:
        """Of a run with these totals over its steps (see `sagc.replay.resizing.Rollouts`), in hours."""
        rollout = self._rollout.range([totals["rounds"], totals["positions"], totals[self._rows]])
        train = self._train.range([totals["steps"], totals["trained_tokens"]])
        sync = self._sync * totals["steps"]
        low, high = (float(part + other + sync) / 3600 for part, other in zip(rollout, train, strict=True))
        return low, high


def fit_hours(logs: Sequence[Log]) -> list[tuple[Hours | None, list[str]]]:
    """Per log its hours, fitted to all logs of the same model and stack together, and what has to be said about them.

    None for a log without timings, for a trace without config.json, which does not say how rows were batched, and for
    fewer than `FEWEST` steps.
    """
    machines = [_machine(log) for log in logs]
    fitted: dict[tuple[str, str], tuple[Hours | None, list[str]]] = {}
    for machine in set(machines) - {None}:
        together = [log for log, own in zip(logs, machines, strict=True) if own == machine]
        records = [record for log in together for record in log.records]
        if len(records) < FEWEST:
            fitted[machine] = None, [f"From fewer than {FEWEST} steps no hours are estimated."]
        else:
            fitted[machine] = Hours(records, machine[1]), [_reading(together)]
    return [
        fitted[machine] if machine else (None, [NO_CONFIG] if log.records else [])
        for log, machine in zip(logs, machines, strict=True)
    ]


def _machine(log: Log) -> tuple[str, str] | None:
    """Model and stack, which timings have to have in common."""
    cell = log.run.get("cell")
    return (cell["model"], cell["stack"]) if cell and log.records else None


def _reading(logs: Sequence[Log]) -> str:
    sizes = sorted({size for log in logs for size in log.sizes})
    if len(sizes) == 1:
        return (
            f"Hours are a range, from the timings of this log: with groups of {sizes[0]} alone it cannot tell what a "
            "position costs from what its rows cost, so a smaller group saves anything in between; logs of several "
            "sizes given together narrow it down. Another run may meet a busier machine."
        )
    return (
        f"Hours are the range that the timings of groups of {', '.join(map(str, sizes))} leave open; another run may "
        "meet a busier machine."
    )


class Costs:
    """Non-negative costs of kinds of work, and what they leave open about other work.

    Parameters
    ----------
    work : numpy.ndarray
        (steps, kinds) amounts.
    seconds : numpy.ndarray
        (steps,) measured.
    """

    def __init__(self, work: np.ndarray, seconds: np.ndarray):
        self._scale = np.maximum(work.max(axis=0), 1e-12)  # else the kinds differ by six orders of magnitude
        table = np.column_stack([work / self._scale, seconds])
        self._triangle = np.linalg.qr(table, mode="r")  # the same least squares, with a row per kind and one more
        best, least = self._fit(self._triangle)
        self._best = best
        residuals = seconds - (work / self._scale) @ best
        rounding = 1e-9 * float(seconds @ seconds)
        self._most = least + rounding + LIKELY * _noise(residuals, kinds=work.shape[1])

    def range(self, work: Sequence[float]) -> Range:
        """The least and the most seconds for other work."""
        amounts = np.asarray(work, dtype=float) / self._scale
        best = float(amounts @ self._best)
        return self._end(amounts, best, 0.0), self._end(amounts, best, None)

    def _end(self, amounts: np.ndarray, inside: float, outside: float | None) -> float:
        """The last total, going from one that fits to one that does not, that some costs fit well enough."""
        if outside is None:
            outside = max(2 * inside, 1e-9)
            while self._loss(amounts, outside) <= self._most:
                inside, outside = outside, 2 * outside
        elif self._loss(amounts, outside) <= self._most:
            return outside
        for _ in range(BISECTIONS):
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if self._loss(amounts, middle) <= self._most else (inside, middle)
        return inside

    def _loss(self, amounts: np.ndarray, total: float) -> float:
        """The least sum of squares among costs that make this total: convex in the total."""
        weight = 1e4 * np.abs(self._triangle).max() / amounts.max()
        return self._fit(np.vstack([self._triangle, weight * np.append(amounts, total)]))[1]

    @staticmethod
    def _fit(table: np.ndarray) -> tuple[np.ndarray, float]:
        from scipy.optimize import nnls

        costs, norm = nnls(table[:, :-1], table[:, -1])
        return costs, float(norm) ** 2


def _noise(residuals: np.ndarray, kinds: int) -> float:
    """Variance of a step's seconds, as much larger as neighbouring steps are alike: a busy machine stays busy."""
    variance = float(residuals @ residuals) / max(1, len(residuals) - kinds)
    if len(residuals) < 3 or variance == 0:
        return variance
    alike = float(residuals[1:] @ residuals[:-1] / (residuals @ residuals))
    return variance * (1 + max(0.0, alike)) / (1 - min(max(0.0, alike), 0.9))
