"""Means with their errors, and comparisons of pairs with Student's t intervals: arms by seed, lengths by problem.

A few seeds are too few for a bootstrap: the percentile interval of two pairs contains the truth half of the time, and
that of five pairs four times out of five. Student's t is exact for normal differences, however few there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import pandas as pd

LEVEL = 0.95  # of every interval


class Comparison(NamedTuple):
    """A value over pairs, its 95 % interval (NaN, NaN for fewer than two pairs), and the number of pairs."""

    value: float
    low: float
    high: float
    n: int

    def columns(self, name: str) -> dict[str, float]:
        """As the columns NAME, NAME_low, NAME_high and NAME_n of a row."""
        return {name: self.value, f"{name}_low": self.low, f"{name}_high": self.high, f"{name}_n": self.n}


INTERVAL = ("", "_low", "_high", "_n")  # what `Comparison.columns` adds to a name


def mean_and_error(values: np.ndarray) -> tuple[float, float]:
    """The mean, and its standard error: standard deviation (n - 1) over the root of n; NaN for a single value."""
    error = np.std(values, ddof=1) / len(values) ** 0.5 if len(values) > 1 else np.nan
    return float(np.mean(values)), float(error)


def paired_difference(own: np.ndarray, reference: np.ndarray) -> Comparison:
    """The mean of own - reference, arrays of shape (pairs,), with its paired t interval; NaN without pairs."""
    return _mean_with_interval(np.asarray(own, dtype=float) - np.asarray(reference, dtype=float))


def paired_ratio(own: np.ndarray, reference: np.ndarray) -> Comparison:
    """The geometric mean of the pairs' ratios own / reference, with its interval; arrays of shape (pairs,).

    Both come from a paired t interval of the logarithms, so the interval contains the value, and half and double count
    as equally far from 1. NaN without pairs, or if a number is not positive.
    """
    own, reference = np.asarray(own, dtype=float), np.asarray(reference, dtype=float)
    if not (own > 0).all() or not (reference > 0).all():
        return Comparison(np.nan, np.nan, np.nan, len(own))
    value, low, high, n = _mean_with_interval(np.log(own / reference))
    return Comparison(float(np.exp(value)), float(np.exp(low)), float(np.exp(high)), n)


def ratio_of_means(own: np.ndarray, reference: np.ndarray) -> Comparison:
    """mean(own) / mean(reference) over pairs, with its interval; arrays of shape (pairs,), for many pairs.

    The interval is the t interval of the mean of (own - ratio x reference) / mean(reference), the error of the ratio to
    first order [W. G. Cochran, Sampling Techniques, 3rd ed., 1977, section 6.4]; values may have either sign.
    """
    own, reference = np.asarray(own, dtype=float), np.asarray(reference, dtype=float)
    ratio = own.mean() / reference.mean()
    off = _mean_with_interval((own - ratio * reference) / reference.mean())
    return Comparison(float(ratio), float(ratio + off.low), float(ratio + off.high), off.n)


def against(
    own: pd.DataFrame,
    reference: pd.DataFrame | None,
    label: str,
    ratios: Iterable[str] = (),
    differences: Iterable[str] = (),
) -> dict[str, float]:
    """Compare columns of an arm with those of a reference over common seeds, as columns X_vs_LABEL of a row.

    Parameters
    ----------
    own, reference : DataFrame
        One row per seed (the index); None if there is no reference.
    ratios, differences : iterable of str
        The columns to compare by `paired_ratio` and by `paired_difference`.
    """
    row = {}
    for names, compare in ((ratios, paired_ratio), (differences, paired_difference)):
        for name in names:
            other = None if reference is None else reference[name]
            row |= over_common(compare, own[name], other).columns(f"{name}_vs_{label}")
    return row


def over_common(
    compare: Callable[[np.ndarray, np.ndarray], Comparison], own: pd.Series, reference: pd.Series | None
) -> Comparison:
    """One of the comparisons above, over the seeds (the index) for which both have a number; without pairs if None."""
    other = own.iloc[:0] if reference is None else reference
    pairs = pd.concat([own, other], axis=1, join="inner").astype(float).dropna()
    return compare(*pairs.to_numpy().T)


def _mean_with_interval(values: np.ndarray) -> Comparison:
    from scipy.special import stdtrit

    n = len(values)
    if n == 0:
        return Comparison(np.nan, np.nan, np.nan, 0)
    mean, error = mean_and_error(values)
    reach = error * float(stdtrit(n - 1, (1 + LEVEL) / 2)) if n > 1 else np.nan
    return Comparison(mean, mean - reach, mean + reach, n)
