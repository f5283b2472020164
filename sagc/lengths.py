"""Group statistics of one rollout: straggler events, idle decode slots, and what smaller groups would have done.

A length is a number of generated tokens, end token included. A group is the responses sampled for one prompt. A group
is a straggler event when its longest response is more than `tau` times its median one [Khan et al. 2026, arXiv
2606.02218]. Counting is in integers wherever possible, so the order of groups and responses cannot change a single bit
of a result: a controller resumed from a checkpoint must decide the same again.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from numbers import Integral, Real

import numpy as np

EVENTS = ("group", "step")
MAX_LENGTH = 2**31 - 1  # tokens; any sum over a rollout then fits an int64
_CHUNK = 2**18  # elements of the largest temporary array in the sub-group count


@dataclass(frozen=True)
class StragglerReport:
    """Group statistics of one rollout.

    Attributes
    ----------
    groups : int
        Groups generated; 1 when the event is taken over the whole step.
    events : int
        Straggler events among them.
    straggler_rate : float
        events / groups [Khan et al. 2026].
    idle_fraction : float
        Share of the decode slots that waited at the barrier (see `idle_fraction`), with all responses in one round.
    responses, tokens : int
        Responses generated, and the sum of their lengths.
    max_length : int
        Longest response, in tokens.
    mean_length, median_length : float
        Over all responses, in tokens.
    """

    groups: int
    events: int
    straggler_rate: float
    idle_fraction: float
    responses: int
    tokens: int
    max_length: int
    mean_length: float
    median_length: float


@dataclass(frozen=True)
class GroupLengths:
    """The validated lengths of one rollout.

    Attributes
    ----------
    sizes : numpy.ndarray
        (groups,) responses per group, in the order given.
    flat : numpy.ndarray
        (responses,) token counts.
    blocks : dict
        Group size n -> (indices of the groups of that size, their lengths as one (groups of size n, n) array with
        sorted rows).
    """

    sizes: np.ndarray
    flat: np.ndarray
    blocks: dict[int, tuple[np.ndarray, np.ndarray]]

    @classmethod
    def parse(cls, lengths) -> GroupLengths:
        """Validate `lengths`: one sequence of token counts per group; groups may differ in size.

        Raises
        ------
        ValueError
            If there are no groups, a group has fewer than two responses, or a length is not a whole number of tokens
            from 1 to `MAX_LENGTH`; the message gives the index of the group.
        """
        if isinstance(lengths, cls):
            return lengths
        sizes, flat = _flatten(lengths)
        ends = np.cumsum(sizes)
        # Comparisons with NaN are false, so one positive test covers NaN, infinities, fractions and the range.
        valid = (flat >= 1) & (flat <= MAX_LENGTH) & (flat == np.floor(flat))
        if not valid.all():
            place = int(np.argmin(valid))
            group = int(np.searchsorted(ends, place, side="right"))
            raise ValueError(
                f"lengths: group {group} holds {flat[place]:.15g}, "
                f"but a length is a whole number of tokens from 1 to {MAX_LENGTH}"
            )
        flat = flat.astype(np.int64)
        blocks = {}
        for n in np.unique(sizes).tolist():
            members = np.flatnonzero(sizes == n)
            first = (ends - sizes)[members]
            blocks[n] = members, np.sort(flat[first[:, None] + np.arange(n)], axis=1)
        return cls(sizes, flat, blocks)


def straggler_report(lengths, tau: float, event: str = "group") -> StragglerReport:
    """Straggler events and idle fraction of one rollout, as if all its responses were generated together.

    Parameters
    ----------
    lengths : sequence of sequences of int, or GroupLengths
        Token counts, one sequence per group: every group generated, including those dropped later.
    tau : float
        A straggler event is max length / median length > tau, strictly; the median of an even number of lengths is
        the mean of the two middle ones [Khan et al. 2026, arXiv 2606.02218].
    event : {"group", "step"}
        One event per group, or one over the whole rollout [ours: "group"; "step" saturates near 1].

    Returns
    -------
    StragglerReport

    Raises
    ------
    ValueError
        If the lengths (see `GroupLengths.parse`), tau or the event are invalid.

    Examples
    --------
    >>> from sagc.lengths import straggler_report
    >>> report = straggler_report([[10, 20, 30, 90], [20, 20, 20, 40]], tau=2.0)
    >>> report.groups, report.events, report.straggler_rate
    (2, 1, 0.5)
    >>> round(report.idle_fraction, 3)
    0.653
    """
    tau, event = check_tau(tau), check_event(event)
    rollout = GroupLengths.parse(lengths)
    everything = np.sort(rollout.flat)
    longest, median = int(everything[-1]), float(_median(everything))
    tokens, responses = int(everything.sum()), len(everything)
    # Divide rather than multiply by tau: 115 / 100 > 1.15 is false, as it should be, but 115 > 1.15 * 100 is true.
    if event == "step":
        groups, events = 1, int(longest / median > tau)
    else:
        groups = len(rollout.sizes)
        events = sum(int(np.count_nonzero(x[:, -1] / _median(x) > tau)) for _, x in rollout.blocks.values())
    mean = tokens / responses
    return StragglerReport(
        groups=groups,
        events=events,
        straggler_rate=events / groups,
        idle_fraction=idle_fraction(tokens, responses * longest),
        responses=responses,
        tokens=tokens,
        max_length=longest,
        mean_length=mean,
        median_length=median,
    )


def idle_fraction(tokens, slots):
    """Share of the decode slots that waited at the barriers: 1 - tokens / slots, for a rollout or a whole run [ours].

    A rollout of one round has `responses * longest` slots, which makes this 1 - mean / max length; for several rounds
    see `decode_slots`.

    Parameters
    ----------
    tokens : int, or numpy.ndarray
        Tokens generated.
    slots : int, or numpy.ndarray
        Decode slots kept open for them, in the same shape.

    Examples
    --------
    >>> idle_fraction(tokens=22, slots=34)  # [[2, 4], [3, 3]], then [[9, 1]], as in `decode_slots`
    0.3529411764705882
    """
    return 1 - tokens / slots


def decode_slots(lengths: Sequence[Sequence[int]], rounds: Sequence[int]) -> int:
    """Token positions that a rollout kept open: in each round, every response's slot until the longest one ended.

    Parameters
    ----------
    lengths : sequence of sequences of int
        Token counts, one sequence per group, in the order of generation.
    rounds : sequence of int
        Groups generated together, per round; their sum is the number of groups.

    Examples
    --------
    >>> decode_slots([[2, 4], [3, 3], [9, 1]], rounds=[2, 1])
    34
    """
    return sum(len(together) * max(together) for together in lengths_of_rounds(lengths, rounds))


def lengths_of_rounds(lengths: Sequence[Sequence[int]], rounds: Sequence[int]) -> Iterator[list[int]]:
    """The lengths of the responses generated together, per round; parameters as for `decode_slots`."""
    first = 0
    for groups in rounds:
        yield [length for group in lengths[first : first + groups] for length in group]
        first += groups


def subgroup_straggler_probability(lengths, size: int, tau: float) -> np.ndarray:
    """Exact probability that a random sub-group of each group would have been a straggler event [ours].

    Nothing is sampled: sub-groups are counted over the order statistics of the group.

    Parameters
    ----------
    lengths : sequence of sequences of int, or GroupLengths
        Token counts, one sequence per group; groups may differ in size.
    size : int
        Responses in the sub-group, from 2 to the size of the smallest group.
    tau : float
        Threshold on max length / median length.

    Returns
    -------
    numpy.ndarray
        (groups,) probabilities, in the order of the groups.

    Raises
    ------
    ValueError
        If the lengths, tau or the size are invalid, or a group is smaller than `size`.

    Examples
    --------
    >>> from sagc.lengths import subgroup_straggler_probability
    >>> subgroup_straggler_probability([[10, 20, 30, 90], [20, 20, 20, 40]], size=3, tau=2.0)
    array([0.75, 0.  ])
    """
    rollout = GroupLengths.parse(lengths)
    probability = np.empty(len(rollout.sizes))
    for n, members, events in _subgroup_events(rollout, size, tau):
        subgroups = math.comb(n, size)
        probability[members] = [count / subgroups for count in events]
    return probability


def expected_events(lengths, size: int, tau: float) -> float:
    """Expected straggler events of a rollout if each group had only `size` of its responses [ours].

    The sum of `subgroup_straggler_probability`, rounded once per group size rather than once per group, so the order
    of the groups does not matter. Parameters and errors are the same.

    Examples
    --------
    >>> from sagc.lengths import expected_events
    >>> expected_events([[10, 20, 30, 90], [20, 20, 20, 40]], size=3, tau=2.0)
    0.75
    """
    rollout = GroupLengths.parse(lengths)
    return math.fsum(sum(events) / math.comb(n, size) for n, _, events in _subgroup_events(rollout, size, tau))


def check_number(name: str, value, allowed: str, fits: Callable[[float], bool] = lambda _: True) -> float:
    """`value` as a float.

    Raises
    ------
    ValueError
        If it is not a finite number that `fits`; the message says what is `allowed`.
    """
    real = isinstance(value, Real) and not isinstance(value, bool)
    # Bounds rather than math.isfinite, which fails on integers beyond the range of floats; NaN compares false.
    if not (real and -sys.float_info.max <= value <= sys.float_info.max and fits(float(value))):
        raise ValueError(f"{name} must be {allowed}, got {value!r}")
    return float(value)


def check_integer(name: str, value, allowed: str, fits: Callable[[int], bool] = lambda _: True) -> int:
    """`value` as an int.

    Raises
    ------
    ValueError
        If it is not an integer (2.0 and True are not) that `fits`; the message says what is `allowed`.
    """
    if not isinstance(value, Integral) or isinstance(value, bool) or not fits(int(value)):
        raise ValueError(f"{name} must be {allowed}, got {value!r}")
    return int(value)


def check_tau(tau) -> float:
    """`tau` as a float above 1."""
    return check_number("tau", tau, "a number above 1 (max / median is never below 1)", lambda value: value > 1)


def check_event(event) -> str:
    """`event`, which is one of `EVENTS`.

    Raises
    ------
    ValueError
        If it is not.
    """
    if event not in EVENTS:
        raise ValueError(f"event must be one of {', '.join(map(repr, EVENTS))}, got {event!r}")
    return event


def _flatten(lengths) -> tuple[np.ndarray, np.ndarray]:
    """Group sizes, and all lengths as floats, which represent every valid length exactly."""
    if not isinstance(lengths, Iterable):
        raise ValueError(f"lengths must be one sequence of token counts per group, got {lengths!r}")
    if isinstance(lengths, np.ndarray) and lengths.ndim == 2 and lengths.dtype.kind in "iuf":
        sizes, flat = np.full(len(lengths), lengths.shape[1]), lengths.reshape(-1).astype(np.float64)
    else:
        rows = [_as_row(group, row) for group, row in enumerate(lengths)]
        sizes, flat = np.array([len(row) for row in rows], dtype=np.int64), np.concatenate([*rows, []])
    if len(sizes) == 0:
        raise ValueError("lengths holds no groups, but a step needs at least one")
    if sizes.min() < 2:
        group = int(np.argmax(sizes < 2))
        count = "no responses" if sizes[group] == 0 else "one response"
        raise ValueError(f"lengths: group {group} has {count}, but a group needs at least two")
    return sizes, flat


def _as_row(group: int, row) -> np.ndarray:
    try:
        array = np.asarray(row)
    except ValueError:  # a ragged row; NumPy's own message would not name the group
        array = np.empty(())
    if array.ndim != 1 or (array.dtype.kind not in "iuf" and array.size):
        raise ValueError(f"lengths: group {group} must be a flat sequence of token counts, got {type(row).__name__}")
    return array.astype(np.float64)


def _median(rows: np.ndarray) -> np.ndarray:
    """Median over the last axis of sorted rows."""
    n = rows.shape[-1]
    return (rows[..., (n - 1) // 2] + rows[..., n // 2]) / 2


def _subgroup_events(rollout: GroupLengths, size: int, tau: float):
    """For each group size n: (n, indices of its groups, how many sub-groups of each are straggler events)."""
    tau = check_tau(tau)
    size = check_integer("size", size, "an integer of at least 2", lambda value: value >= 2)
    if rollout.sizes.min() < size:
        group = int(np.argmax(rollout.sizes < size))
        raise ValueError(f"size must be at most the group's, got {size} for group {group} of {rollout.sizes[group]}")
    for n, (members, x) in rollout.blocks.items():
        rows = max(1, _CHUNK // (len(_middles(n, size)[0]) * n))
        chunks = [x[start : start + rows] for start in range(0, len(x), rows)]
        yield n, members, [count for chunk in chunks for count in _count_events(chunk, size, tau)]


def _count_events(x: np.ndarray, size: int, tau: float) -> list[int]:
    """How many sub-groups of `size` of each sorted row are straggler events: all of them minus the calm ones.

    A sub-group is fixed by its middle pair at places i <= j (i = j for odd sizes), `half` responses below i and `half`
    above j. It is calm if the half above lies among the `room` places above j that tau * median reaches.
    """
    n = x.shape[1]
    i, j, below, choose = _middles(n, size)
    median = (x[:, i] + x[:, j]) / 2
    # Places at or below tau * median. Places are the first axis, in memory too: summing over that one is fastest.
    reach = (np.ascontiguousarray(x.T)[:, :, None] / median <= tau).sum(axis=0)
    if size == 2:  # the pair's upper response is the longest
        calm = (reach > j).astype(np.int64) @ below
    else:
        room = np.maximum(reach - j - 1, 0)
        calm = choose[room] @ below
    subgroups = math.comb(n, size)
    return [subgroups - count for count in calm.tolist()]


@lru_cache(maxsize=1024)
def _middles(n: int, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Places (i, j) of the middle pair, ways to choose the half below i, and ways to choose a half from k places."""
    half = (size - 1) // 2
    if size % 2:
        i = j = np.arange(half, n - half)
    else:
        i, j = (places + half for places in np.triu_indices(n - 2 * half, k=1))
    # No entry or sum of products exceeds C(n, size); beyond int64, Python's own integers stay exact.
    dtype = np.int64 if math.comb(n, size) < 2**63 else object
    below = np.array([math.comb(place, half) for place in i.tolist()], dtype=dtype)
    choose = np.array([math.comb(places, half) for places in range(n - half)], dtype=dtype)
    return i, j, below, choose
