"""What the rollouts of a log would have been at a smaller group size: in expectation, and one drawn at random [ours].

A smaller group is a random sub-group of one that was generated. Without dynamic sampling the expectation is exact. With
it, a smaller group has equal rewards more often and is replaced more often than the log shows, so the rounds after the
first are modelled: the first round has the groups of the log's first; each is kept with its exact probability to be
informative; what is missing is generated again, at most `max_rounds` times, by groups that are like a random one of the
step's. At the size that was played the log itself is the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sagc.lengths import straggler_report, subgroup_straggler_probability
from sagc.logs import Log, LoggedStep
from sagc.replay.subgroups import Longest, informative_probability

FIELDS = (
    *("steps", "group_size", "groups", "events", "informative", "kept"),
    *("rounds", "positions", "slots", "tokens", "trained_tokens"),
)
Amounts = dict[str, float]  # of one step, by FIELDS; what they are is in `Rollouts`


@dataclass(frozen=True)
class Draw:
    """One rollout of random sub-groups.

    Attributes
    ----------
    lengths : numpy.ndarray
        (groups, size) tokens, in the order of generation.
    amounts : dict
        See `Rollouts`.
    """

    lengths: np.ndarray
    amounts: Amounts


class Rollouts:
    """The rollouts of a log at other group sizes.

    What a step amounts to is a dictionary by `FIELDS`: steps (1), group_size, groups generated, straggler events,
    informative groups (NaN without rewards), groups kept, rounds, positions (the longest response of each round, in
    tokens, summed), slots (see `sagc.lengths.decode_slots`), tokens, and trained_tokens, those of the groups kept.

    Parameters
    ----------
    log : Log
        The log.
    tau : float
        A straggler event is max length / median length > tau.
    """

    def __init__(self, log: Log, tau: float):
        self.log, self.tau = log, tau
        self._expected: dict[int, list[Amounts | None]] = {}

    def expected(self, size: int) -> list[Amounts | None]:
        """Per step, what it amounts to on average at a group size; None for a step with smaller groups."""
        if size not in self._expected:
            events, informative = self._probabilities(size)
            self._expected[size] = [
                None if step.size < size else self._expect(step, size, events[i], informative[i])
                for i, step in enumerate(self.log.steps)
            ]
        return self._expected[size]

    def draw(self, index: int, size: int, generator: np.random.Generator) -> Draw:
        """A rollout of random sub-groups of the step with this index."""
        step, sampling = self.log.steps[index], self.log.max_rounds
        if size == step.size:
            return Draw(step.lengths, self._as_logged(step))
        if sampling is None:
            ends = np.cumsum(step.rounds)
            origins = [np.arange(end - groups, end) for groups, end in zip(step.rounds, ends, strict=True)]
            rounds = [_choose(step, self._places(step, size, origin, generator), size, generator) for origin in origins]
            kept = sum(len(lengths) for lengths, _ in rounds)
        else:
            places = self._places(step, size, np.arange(step.rounds[0]), generator)
            rounds, kept = _sample_dynamically(step, places, size, sampling, generator)
        lengths = np.concatenate([lengths for lengths, _ in rounds])
        rewards = None if step.rewards is None else np.concatenate([rewards for _, rewards in rounds])
        return Draw(lengths, self._count(lengths, rewards, [len(lengths) for lengths, _ in rounds], kept))

    def _places(self, step: LoggedStep, size: int, origin: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """The groups that a round takes its sub-groups from: its own, and with `hold: samples` each several times."""
        if self.log.hold == "prompts":
            return origin
        wanted = len(origin) * step.size // size
        more = [generator.permutation(origin) for _ in range(wanted // len(origin))]
        return np.concatenate([origin, *more])[:wanted]

    def _as_logged(self, step: LoggedStep) -> Amounts:
        return self._count(step.lengths, step.rewards, step.rounds, step.kept_groups)

    def _count(self, lengths: np.ndarray, rewards: np.ndarray | None, rounds: Sequence[int], kept: int) -> Amounts:
        """What a rollout that is given amounts to."""
        size = lengths.shape[1]
        ends = np.cumsum(rounds)
        longest = [int(lengths[end - groups : end].max()) for groups, end in zip(rounds, ends, strict=True)]
        informative = np.nan if rewards is None else float(informative_probability(rewards, size).sum())
        return {
            "steps": 1.0,
            "group_size": float(size),
            "groups": float(len(lengths)),
            "events": float(straggler_report(lengths, self.tau).events),
            "informative": informative,
            "kept": float(kept),
            "rounds": float(len(rounds)),
            "positions": float(sum(longest)),
            "slots": float(sum(size * groups * most for groups, most in zip(rounds, longest, strict=True))),
            "tokens": float(lengths.sum()),
            "trained_tokens": float(lengths.sum()) * kept / len(lengths),
        }

    def _probabilities(self, size: int) -> tuple[list[np.ndarray], list[np.ndarray | None]]:
        """Per step and group, of a straggler event and of unequal rewards; all groups of one size are done at once."""
        steps = self.log.steps
        events: list = [None] * len(steps)
        informative: list = [None] * len(steps)
        for n in self.log.sizes:
            if n < size:
                continue
            own = [i for i, step in enumerate(steps) if step.size == n]
            ends = np.cumsum([len(steps[i].lengths) for i in own])[:-1]
            every = np.concatenate([steps[i].lengths for i in own])
            for i, part in zip(own, np.split(subgroup_straggler_probability(every, size, self.tau), ends), strict=True):
                events[i] = part
            if self.log.has_rewards:
                rewards = np.concatenate([steps[i].rewards for i in own])
                for i, part in zip(own, np.split(informative_probability(rewards, size), ends), strict=True):
                    informative[i] = part
        return events, informative

    def _expect(self, step: LoggedStep, size: int, events: np.ndarray, informative: np.ndarray | None) -> Amounts:
        if size == step.size:
            return self._as_logged(step)
        copies = step.size / size if self.log.hold == "samples" else 1.0  # of each group
        if self.log.max_rounds is None:
            rounds = _rounds_as_logged(step, size, copies)
        else:
            rounds = _modelled_rounds(step, size, copies, informative, self.log.max_rounds)
        total = {name: sum(each[name] for each in rounds) for name in rounds[0]}
        groups = total["groups"]
        return total | {
            "steps": 1.0,
            "group_size": float(size),
            "events": groups * float(events.mean()),
            "informative": np.nan if informative is None else groups * float(informative.mean()),
            "trained_tokens": total["tokens"] * total["kept"] / groups,
        }


Groups = tuple[np.ndarray, np.ndarray | None]  # lengths and, where there are any, rewards


def _choose(step: LoggedStep, places: np.ndarray, size: int, generator: np.random.Generator) -> Groups:
    """A random sub-group of each of these groups of a step."""
    chosen = generator.random((len(places), step.size)).argsort(axis=1)[:, :size]
    lengths, rewards = (
        None if of is None else np.take_along_axis(of[places], chosen, axis=1) for of in (step.lengths, step.rewards)
    )
    return lengths, rewards


def _sample_dynamically(
    step: LoggedStep, places: np.ndarray, size: int, max_rounds: int, generator: np.random.Generator
) -> tuple[list[Groups], int]:
    """Rounds, and groups kept: those with equal rewards are replaced by sub-groups of random groups of the step."""
    rounds, kept, wanted = [], 0, len(places)
    while len(places) and len(rounds) < max_rounds:
        rounds.append(_choose(step, places, size, generator))
        kept += int(informative_probability(rounds[-1][1], size).round().sum())
        places = generator.integers(len(step.lengths), size=wanted - kept)
    return rounds, kept


def _rounds_as_logged(step: LoggedStep, size: int, copies: float) -> list[Amounts]:
    """Exact: the rounds of the log with sub-groups in the place of its groups."""
    found, first = [], 0
    for groups in step.rounds:
        lengths = step.lengths[first : first + groups]
        longest = Longest(lengths, size)
        positions = longest.expect(longest.of_all() ** copies)
        generated = groups * copies
        found.append(
            {
                "groups": generated,
                "kept": generated,
                "rounds": 1.0,
                "positions": positions,
                "slots": generated * size * positions,
                "tokens": float(lengths.mean() * size * generated),
            }
        )
        first += groups
    return found


def _modelled_rounds(
    step: LoggedStep, size: int, copies: float, informative: np.ndarray, max_rounds: int
) -> list[Amounts]:
    """The first round as logged; then a group per one that is missing, which is a random one of the step's.

    In round r a place of the first round is empty with probability u = (1 - q) (1 - mean q)^(r - 2), q being the
    probability of its group to be informative. The places are apart from each other, so that the number of groups, and
    with it their longest response, has the generating function prod (1 - u + u F) of the probability F that one group
    is no longer than a value.
    """
    wanted = step.rounds[0]
    first = LoggedStep(step.number, step.lengths[:wanted], None, (wanted,), wanted)
    (found,) = _rounds_as_logged(first, size, copies)
    longest = Longest(step.lengths, size)
    of_one, mean, kept_share = longest.of_one(), float(step.lengths.mean()), float(informative.mean())
    empty, count = np.unique(1 - informative[:wanted], return_counts=True)
    empty, count = empty[empty > 0][:, None], count[empty > 0][:, None] * copies
    rounds = [found | {"kept": copies * float(informative[:wanted].sum())}]
    for _ in range(1, max_rounds):
        missing = float((count * empty).sum())
        if missing == 0:
            break
        factors = 1 - empty + empty * of_one
        none, all_ = float(np.prod((1 - empty) ** count)), np.prod(factors**count, axis=0)
        groups_and_all = all_ * (count * empty * of_one / np.maximum(factors, 1e-300)).sum(axis=0)
        rounds.append(
            {
                "groups": missing,
                "kept": missing * kept_share,
                "rounds": 1 - none,
                "positions": longest.expect(all_, nothing=none),
                "slots": size * longest.expect(groups_and_all),
                "tokens": missing * size * mean,
            }
        )
        empty = empty * (1 - kept_share)
    return rounds
