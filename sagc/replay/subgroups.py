"""What random sub-groups of a rollout's groups would have been, exactly: nothing is sampled [ours].

From each group of n responses g are chosen, every choice as likely as any other and the groups apart from each other.
The probability of a straggler event is in sagc/lengths.py; here are the barrier and the share of informative groups.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

CHUNK = 2**22  # comparisons of rewards at once


class Longest:
    """How long sub-groups of `size` of every group are at most.

    Parameters
    ----------
    lengths : numpy.ndarray
        (groups, n) tokens.
    size : int
        g, from 1 to n.

    Attributes
    ----------
    values : numpy.ndarray
        (groups x n,) the lengths, sorted.

    Examples
    --------
    >>> longest = Longest(np.array([[10, 20, 30, 90], [20, 20, 20, 40]]), size=2)
    >>> longest.expect(longest.of_all())
    67.5
    """

    def __init__(self, lengths: np.ndarray, size: int):
        groups, n = lengths.shape
        flat = np.sort(lengths, axis=1).reshape(-1)
        order = np.argsort(flat, kind="stable")  # by length, and within a group by rank
        self.values = flat[order]
        self._rank, self._size, self._groups = order % n + 1, size, groups
        self._share = subgroup_share(n, size)

    def of_all(self) -> np.ndarray:
        """(groups x n,) the probability that all sub-groups are no longer than the value: the product over groups.

        C(k, g) / C(n, g) of a group's sub-groups are no longer than its k-th length. Going down from the largest
        value, each response takes the factor C(k - 1, g) / C(k, g) = (k - g) / k from the product, so that one
        cumulative sum of logarithms over all responses gives it at every value.
        """
        ratio = np.maximum(self._rank - self._size, 0) / self._rank
        with np.errstate(divide="ignore"):
            factors = np.log(ratio)
        below = np.append(factors[1:], 0.0)
        return np.exp(np.cumsum(below[::-1])[::-1])

    def of_one(self) -> np.ndarray:
        """(groups x n,) the probability that a sub-group of a random one of the groups is no longer than the value."""
        return np.cumsum((self._share[self._rank] - self._share[self._rank - 1]) / self._groups)

    def expect(self, weight: np.ndarray, nothing: float = 0.0) -> float:
        """The mean of the longest, in tokens.

        Parameters
        ----------
        weight : numpy.ndarray
            (groups x n,) the probability of a maximum of at most `values`, or an expectation where it is.
        nothing : float
            What of it is where nothing is generated, which counts as 0 tokens.
        """
        return float(self.values @ np.diff(weight, prepend=nothing))


def informative_probability(rewards: np.ndarray, size: int) -> np.ndarray:
    """The probability that a random sub-group's rewards are not all equal.

    Parameters
    ----------
    rewards : numpy.ndarray
        (groups, n); NaN for a response without a reward, which does not make a group informative.
    size : int
        g, from 1 to n.

    Returns
    -------
    numpy.ndarray
        (groups,)

    Examples
    --------
    >>> informative_probability(np.array([[0.0, 0.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]]), size=2).round(3)
    array([0.667, 0.   ])
    """
    groups, n = rewards.shape
    share, found = subgroup_share(n, size), []
    rows = max(1, CHUNK // (n * n))
    for start in range(0, groups, rows):
        part = rewards[start : start + rows]
        unknown = np.isnan(part).sum(axis=1)
        same = (part[:, :, None] == part[:, None, :]).sum(axis=2)  # of each response, itself included; 0 for NaN
        # All sub-groups of one value and of unknown ones; each value is met once per response that has it.
        of_value = share[np.minimum(same + unknown[:, None], n)] - share[unknown][:, None]
        equal = np.divide(of_value, same, out=np.zeros_like(of_value), where=same > 0).sum(axis=1) + share[unknown]
        found.append(1 - equal)
    return np.clip(np.concatenate(found), 0.0, 1.0)


@lru_cache(maxsize=256)
def subgroup_share(n: int, size: int) -> np.ndarray:
    """(n + 1,) for k = 0..n, the share C(k, size) / C(n, size) of sub-groups that lie within k of n responses."""
    return np.array([math.comb(k, size) / math.comb(n, size) for k in range(n + 1)])
