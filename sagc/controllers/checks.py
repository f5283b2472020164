"""Checks of controller parameters."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from sagc.lengths import check_integer, check_number, check_tau


def check_ladder(ladder: Sequence[int], start: int, tau: float) -> tuple[tuple[int, ...], int]:
    """The ladder as a tuple, and the start.

    Raises
    ------
    ValueError
        If the ladder is not a strictly increasing list of sizes that can have a straggler event at this tau, or the
        start is not on it.
    """
    if not isinstance(ladder, Sequence) or isinstance(ladder, str) or len(ladder) == 0:
        raise ValueError(f"ladder must be a list of at least one group size, got {ladder!r}")
    smallest, why = 2, "a group's baseline needs two responses"
    if check_tau(tau) >= 2:
        smallest, why = 3, "max / median of two responses stays below 2, so with this tau they are never an event"
    allowed = f"an integer of at least {smallest} ({why})"
    sizes = tuple(
        check_integer(f"ladder[{i}]", size, allowed, lambda size: size >= smallest) for i, size in enumerate(ladder)
    )
    if any(a >= b for a, b in itertools.pairwise(sizes)):
        raise ValueError(f"ladder must be strictly increasing, got {list(sizes)}")
    return sizes, check_integer("start", start, f"one of the ladder {list(sizes)}", sizes.__contains__)


def check_delta(delta) -> float:
    """`delta` as a float in (0, 1)."""
    return check_number("delta", delta, "a straggler rate between 0 and 1, both excluded", lambda value: 0 < value < 1)


def check_not_negative(name: str, value) -> float:
    """`value` as a float of at least 0."""
    return check_number(name, value, "a number of at least 0", lambda value: value >= 0)
