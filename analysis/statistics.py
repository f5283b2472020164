"""Means with their errors, and differences between arms with bootstrap intervals."""

from collections.abc import Callable

import numpy as np

RESAMPLES = 10_000
BOOTSTRAP_SEED = 0  # for every interval anew, so that none depends on what else is computed
DRAWN_AT_ONCE = 2**17  # of the resampled values; about 3 MB with what is computed of them

Interval = tuple[float, float]


def mean_and_error(values: np.ndarray) -> tuple[float, float]:
    """The mean, and its standard error: standard deviation (n - 1) over the root of n; NaN for a single value."""
    error = np.std(values, ddof=1) / len(values) ** 0.5 if len(values) > 1 else np.nan
    return float(np.mean(values)), float(error)


def bootstrap(statistic: Callable[[np.ndarray], np.ndarray], count: int) -> Interval:
    """The 95 % interval of a statistic of `count` things: percentile bootstrap over them.

    The same things in the same order have the same interval. A single one has none: NaN, NaN.

    Parameters
    ----------
    statistic : callable
        Takes indices of shape (resamples, count), gives the statistic of each resample, of shape (resamples,).
    count : int
        How many things there are, such as problems or seeds.
    """
    if count == 1:
        return np.nan, np.nan
    generator, found = np.random.default_rng(BOOTSTRAP_SEED), []
    rows = max(1, DRAWN_AT_ONCE // count)
    for start in range(0, RESAMPLES, rows):
        found.append(statistic(generator.integers(count, size=(min(rows, RESAMPLES - start), count))))
    low, high = np.quantile(np.concatenate(found), [0.025, 0.975])
    return float(low), float(high)


def ratio_interval(own: np.ndarray, reference: np.ndarray) -> Interval:
    """The 95 % interval of mean(own) / mean(reference), pairs drawn together; arrays of shape (pairs,)."""
    return bootstrap(lambda drawn: own[drawn].sum(axis=1) / reference[drawn].sum(axis=1), len(own))


def difference_interval(own: np.ndarray, reference: np.ndarray) -> Interval:
    """The 95 % interval of mean(own - reference), pairs drawn together; arrays of shape (pairs,)."""
    difference = own - reference
    return bootstrap(lambda drawn: difference[drawn].mean(axis=1), len(own))
