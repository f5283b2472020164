"""The one form that every log is read into: steps of equal groups of response lengths, with rewards where they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sagc.errors import UserError
from sagc.lengths import MAX_LENGTH
from sagc.trace import StepRecord


@dataclass(frozen=True)
class LoggedStep:
    """The rollout of one step.

    Attributes
    ----------
    number : int
        The step's own number in its log.
    lengths : numpy.ndarray
        (groups, n) tokens, in the order of generation as far as the log has one.
    rewards : numpy.ndarray or None
        (groups, n), NaN for a response without one: the rewards, or values that are equal where the rewards of a group
        are. None where the log has none.
    rounds : tuple of int
        Groups generated together, per round; they add up to the groups.
    kept_groups : int
        Groups trained on.
    record : StepRecord or None
        With the step's timings, where the log is a trace.
    """

    number: int
    lengths: np.ndarray
    rewards: np.ndarray | None
    rounds: tuple[int, ...]
    kept_groups: int
    record: StepRecord | None = None

    @property
    def size(self) -> int:
        """Responses per group."""
        return self.lengths.shape[1]


@dataclass(frozen=True)
class Log:
    """The steps of one job, and what else its log says.

    Attributes
    ----------
    path : str
        As the user named it.
    steps : list of LoggedStep
        In order; at least one.
    notes : list of str
        What the format cannot give and what was assumed, a sentence each.
    limit : int or None
        Most tokens that a response may have.
    max_rounds : int or None
        Of dynamic sampling; None where there is none.
    hold : {"prompts", "samples"}
        What stays fixed when the group size changes.
    run : dict
        The run's resolved config (`run` in config.json), or nothing.
    """

    path: str
    steps: list[LoggedStep]
    notes: list[str] = field(default_factory=list)
    limit: int | None = None
    max_rounds: int | None = None
    hold: str = "prompts"
    run: dict[str, Any] = field(default_factory=dict)

    @property
    def sizes(self) -> list[int]:
        """Group sizes that were played, in increasing order."""
        return sorted({step.size for step in self.steps})

    @property
    def has_rewards(self) -> bool:
        return all(step.rewards is not None for step in self.steps)

    @property
    def records(self) -> list[StepRecord]:
        """With their timings; empty unless all steps have one."""
        records = [step.record for step in self.steps if step.record is not None]
        return records if len(records) == len(self.steps) else []


def group_matrix(where: str, groups: Sequence[Sequence[float]], limit: int | None) -> np.ndarray:
    """The lengths of one step as a (groups, n) array of int64.

    Parameters
    ----------
    where : str
        What the step is called in messages.
    groups : sequence of sequences
        Tokens per response.
    limit : int or None
        Most tokens that a response may have.

    Raises
    ------
    UserError
        For no groups, groups of unequal sizes or of one response, and lengths that are no whole numbers of tokens from
        1 to the limit.
    """
    sizes = sorted({len(group) for group in groups})
    if not sizes:
        raise UserError(f"{where} holds no groups")
    if len(sizes) > 1:
        counts = f"{', '.join(map(str, sizes[:-1]))} and {sizes[-1]}"
        raise UserError(f"{where} has groups of {counts} responses, but the groups of one step are of one size")
    if sizes[0] < 2:
        raise UserError(f"{where} has one response per group, and a group needs at least two")
    try:
        lengths = np.array(groups, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise UserError(f"{where} has a length that is not a number of tokens") from None
    wrong = ~((lengths >= 1) & (lengths <= MAX_LENGTH) & (lengths == np.floor(lengths)))
    if wrong.any():
        raise UserError(f"{where} has a length of {lengths[wrong][0]:g}, which is not a whole number of tokens above 0")
    if limit is not None and lengths.max() > limit:
        raise UserError(f"{where} has a response of {lengths.max():g} tokens, beyond the limit of {limit}")
    return lengths.astype(np.int64)
