"""95 % intervals of what is replayed: where the same quantity of another run with such lengths would lie [ours].

Two things are left to chance: the responses in the log, from which an expectation is computed, and the responses of the
run that it is compared with. Both are seen in how steps differ from their neighbours. Each resample draws steps with
replacement, within blocks of consecutive ones, so that a slow drift of the lengths is no noise; once among the
expectations, and once, apart from that, among rollouts drawn at random, whose groups are random sub-groups. The
interval is the expectation plus the 2.5 % and 97.5 % quantiles of the difference of the two.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

RESAMPLES = 1000
SEED = 0
BLOCK = 8  # consecutive steps, about
DRAWN_AT_ONCE = 2**20

Totals = dict[str, np.ndarray]  # per field of `sagc.replay.resizing.FIELDS`, (resamples,) or a single value
Interval = tuple[float, float]


class Resamples:
    """Totals over the steps of a run, resampled.

    Parameters
    ----------
    fields : sequence of str
        Names of the last axis.
    expected : numpy.ndarray
        (steps, fields) expectations.
    drawn : numpy.ndarray
        (repetitions, steps, fields) rollouts drawn at random.
    paths : bool
        A repetition is a path that a controller took, whose steps depend on each other: a resample has its steps from
        one of them. This counts some of the chance twice, so that the interval is rather too wide.
    """

    def __init__(self, fields: tuple[str, ...], expected: np.ndarray, drawn: np.ndarray, paths: bool):
        self._fields, steps = fields, len(expected)
        self.value = self._named(expected.sum(axis=0))
        self.enough = steps >= BLOCK // 2
        generator = np.random.default_rng(SEED)
        blocks = np.array_split(np.arange(steps), max(1, steps // BLOCK))
        # A block's mean spreads less around itself than around what it is drawn from.
        self._widen = (1 - len(blocks) / steps) ** -0.5 if steps > len(blocks) else np.nan
        own, other = [], []
        rows = max(1, DRAWN_AT_ONCE // steps)
        for start in range(0, RESAMPLES if self.enough else 0, rows):
            count = min(rows, RESAMPLES - start)
            own.append(expected[_within(blocks, count, generator)].sum(axis=1))
            repetition = generator.integers(len(drawn), size=(count, 1 if paths else steps))
            other.append(drawn[repetition, _within(blocks, count, generator)].sum(axis=1))
        self._own, self._other = ([self._named(np.concatenate(part).T)] if part else [] for part in (own, other))

    def interval(self, statistic: Callable[[Totals], np.ndarray]) -> Interval:
        """Of a statistic of the totals; NaN, NaN for fewer than half a block of steps."""
        if not self.enough:
            return np.nan, np.nan
        difference = statistic(self._other[0]) - statistic(self._own[0])
        low, high = np.quantile(difference - difference.mean(), [0.025, 0.975]) * self._widen
        value = statistic(self.value)
        return float(value + low), float(value + high)

    def _named(self, totals: np.ndarray) -> Totals:
        return dict(zip(self._fields, totals, strict=True))


def _within(blocks: list[np.ndarray], count: int, generator: np.random.Generator) -> np.ndarray:
    """(count, steps) indices, each block's drawn from its own."""
    return np.concatenate([generator.choice(block, size=(count, len(block))) for block in blocks], axis=1)
