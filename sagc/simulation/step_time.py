"""Where the seconds of a synchronous step go, as a linear model of its work, fitted to a trace's own timings [ours].

A rollout decodes position by position until its longest response has ended (the barrier), in rounds where dynamic
sampling asks for more. What a position costs depends on the rows that are in it. With continuous batching (vLLM) a row
leaves when its response has ended, so that rows cost what tokens cost; transformers' `generate` keeps every row until
all have ended, so that they cost what decode slots cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sagc.lengths import decode_slots, lengths_of_rounds
from sagc.trace import StepRecord

BATCHING = {"vanilla": "padded", "openrlhf": "continuous"}  # of the stacks' generators


@dataclass(frozen=True)
class Work:
    """What one step asks of the machine.

    Attributes
    ----------
    rounds : float
        Generations one after the other, each with a barrier at its end.
    positions : float
        Decode iterations: the longest response of each round, in tokens, summed.
    slots : float
        Rows times positions, summed over the rounds.
    tokens : float
        Generated.
    trained_tokens : float
        Of the responses that were trained on.
    """

    rounds: float
    positions: float
    slots: float
    tokens: float
    trained_tokens: float

    @classmethod
    def of(cls, record: StepRecord) -> Work:
        """The work that a step of a trace did."""
        positions = sum(map(max, lengths_of_rounds(record.lengths, record.rounds)))
        slots = decode_slots(record.lengths, record.rounds)
        # A trace does not say which groups were kept; those with equal rewards are the ones that are dropped.
        kept = record.kept_groups / len(record.lengths)
        return cls(len(record.rounds), positions, slots, record.tokens, record.tokens * kept)

    def rows(self, batching: str) -> float:
        """What rows cost: each as long as its round with padded batching, as its own response with continuous."""
        return self.slots if batching == "padded" else self.tokens


@dataclass(frozen=True)
class StepTime:
    """Seconds of a step: of its rollout, its updates, and of handing the weights to the generator.

    Attributes
    ----------
    batching : {"continuous", "padded"}
        Whether a row costs something until its own response has ended, or until the round's last has.
    per_round, per_position, per_row : float
        Of the rollout; `per_row` is per token with continuous batching and per slot with padded rows.
    per_step, per_trained_token : float
        Of the updates.
    sync : float
        Of the weight sync.
    """

    batching: str
    per_round: float
    per_position: float
    per_row: float
    per_step: float
    per_trained_token: float
    sync: float

    def rollout_s(self, work: Work) -> float:
        """Of the rollout, in seconds."""
        rows = work.rows(self.batching)
        return self.per_round * work.rounds + self.per_position * work.positions + self.per_row * rows

    def train_s(self, work: Work) -> float:
        """Of the updates, in seconds."""
        return self.per_step + self.per_trained_token * work.trained_tokens

    def step_s(self, work: Work) -> float:
        """The whole step, in seconds."""
        return self.rollout_s(work) + self.train_s(work) + self.sync


def design(records: Sequence[StepRecord], batching: str) -> tuple[np.ndarray, np.ndarray]:
    """What the seconds of steps are linear in: (steps, 3) of the rollouts, (steps, 2) of the updates.

    The columns are rounds, positions and rows (see `StepTime`), and 1 and trained tokens.
    """
    work = [Work.of(record) for record in records]
    rollout = [[each.rounds, each.positions, each.rows(batching)] for each in work]
    return np.array(rollout, dtype=float), np.array([[1.0, each.trained_tokens] for each in work])


def fit_step_time(records: Sequence[StepRecord], batching: str) -> StepTime:
    """The costs, none of them negative, that fit the timings of a trace's steps best, by least squares.

    Steps of several traces of one machine may be given together: within one trace of a static size, positions and
    slots rise and fall together, and nothing tells their costs apart.

    Parameters
    ----------
    records : sequence of StepRecord
        At least one step.
    batching : {"continuous", "padded"}
        Of the generator.

    Raises
    ------
    ValueError
        For no steps, and another `batching`.
    """
    if batching not in BATCHING.values():
        raise ValueError(f"batching must be 'continuous' or 'padded', got {batching!r}")
    if not records:
        raise ValueError("no steps to fit the times of")
    rollout, train = design(records, batching)
    return StepTime(
        batching,
        *_costs(rollout, [record.rollout_s for record in records]),
        *_costs(train, [record.train_s for record in records]),
        sync=float(np.mean([record.sync_s for record in records])),
    )


def _costs(work: np.ndarray, seconds: Sequence[float]) -> list[float]:
    """Of (steps, kinds of work): seconds per unit of each kind."""
    from scipy.optimize import nnls

    scale = np.maximum(work.max(axis=0), 1e-12)  # else the kinds differ by six orders of magnitude
    found, _ = nnls(work / scale, np.asarray(seconds, dtype=float))
    return [float(cost) for cost in found / scale]
