"""Response lengths to simulate with: a distribution that drifts over training, or the lengths of a run's traces [ours].

Both draw the same lengths for the same seed and step whatever was drawn before, and the first responses of a group do
not depend on its size: arms that are compared see the same prompts and, as far as they sample them, the same responses.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sagc.trace import StepRecord

WINDOW = 5  # steps of a trace around the one wanted that groups are drawn from


class Lengths(Protocol):
    """What the simulation asks of a source of lengths."""

    def sample(self, seed: int, step: int, prompts: int, group_size: int) -> np.ndarray:
        """(prompts, group_size) token counts of a step, the first of which is step 0."""


@dataclass(frozen=True)
class Shape:
    """A distribution of response lengths: lognormal around a prompt's own median, and a power law beyond it [ours].

    log length = log median + prompt_spread z_prompt + response_spread z_response, with standard normal z; a share
    `tail_weight` of the responses is longer than that by a Pareto factor of index `tail_index`.

    Attributes
    ----------
    median : float
        Of the body, in tokens.
    prompt_spread, response_spread : float
        Standard deviations of the log length between prompts and between the responses to one prompt.
    tail_weight : float
        Share of the responses that get the factor, 0 to 1.
    tail_index : float
        P(factor > f) = f ** -tail_index for f >= 1; the mean is infinite at 1 and below.
    """

    median: float = 27.0
    prompt_spread: float = 0.4
    response_spread: float = 0.5
    tail_weight: float = 0.0
    tail_index: float = 1.5


@dataclass(frozen=True)
class LognormalLengths:
    """Lengths of a `Shape` that changes over training.

    Attributes
    ----------
    points : tuple of (int, Shape)
        Step -> the shape at that step, the steps increasing from 0. In between every value changes linearly (the
        median in its logarithm); after the last it stays. Two points a step apart are an abrupt change.
    shortest, longest : int
        Limits in tokens; a longer response is cut off there, as training does it.
    """

    points: tuple[tuple[int, Shape], ...] = ((0, Shape()),)
    shortest: int = 4
    longest: int = 600

    def shape(self, step: int) -> Shape:
        """The shape at a step."""
        steps = [at for at, _ in self.points]
        values = {
            field.name: np.array([getattr(shape, field.name) for _, shape in self.points])
            for field in dataclasses.fields(Shape)
        }
        values["median"] = np.log(values["median"])
        now = {name: float(np.interp(step, steps, line)) for name, line in values.items()}
        return Shape(**now | {"median": float(np.exp(now["median"]))})

    def sample(self, seed: int, step: int, prompts: int, group_size: int) -> np.ndarray:
        """(prompts, group_size) token counts."""
        shape = self.shape(step)
        between, within, tail = (np.random.default_rng([seed, step, stream]) for stream in range(3))
        kind = np.float32
        # Responses come first in memory, so that a larger group only adds to what a smaller one has.
        log = within.standard_normal((group_size, prompts), kind)
        log *= kind(shape.response_spread)
        log += kind(np.log(shape.median)) + kind(shape.prompt_spread) * between.standard_normal(prompts, kind)
        if shape.tail_weight > 0:
            # One uniform number decides both: whether there is a factor, and how large it is.
            u = tail.random((group_size, prompts), kind) / kind(shape.tail_weight)
            log -= np.log(np.clip(u, kind(1e-12), kind(1))) / kind(shape.tail_index)
        lengths = np.rint(np.exp(np.minimum(log, kind(np.log(self.longest) + 1))))
        return np.clip(lengths, self.shortest, self.longest).astype(np.int32).T


class TraceLengths:
    """Lengths of real runs: a step draws groups from the traces' steps at the same part of training.

    A group of the simulation is a random part of a real group, without repeats, so that what makes the responses to one
    prompt alike is kept. Groups smaller than the size asked for cannot serve, so give traces of the largest size.

    Parameters
    ----------
    traces : sequence of sequences of StepRecord
        One per run, in order of the steps.
    steps : int
        Of the simulation: its first and last are the first and last of every trace.

    Raises
    ------
    ValueError
        For no steps.
    """

    def __init__(self, traces: Sequence[Sequence[StepRecord]], steps: int):
        if not traces or not all(traces):
            raise ValueError("no steps to draw lengths from")
        self.traces, self.steps = traces, steps

    @property
    def largest(self) -> int:
        """The largest group size that every step has."""
        return min(max(len(group) for group in record.lengths) for records in self.traces for record in records)

    def sample(self, seed: int, step: int, prompts: int, group_size: int) -> np.ndarray:
        """(prompts, group_size) token counts; a ValueError where no group near the step is that large."""
        groups = [group for group in self._near(step) if len(group) >= group_size]
        if not groups:
            raise ValueError(f"the traces have no group of {group_size} responses or more near step {step}")
        chosen = np.random.default_rng([seed, step, 0]).integers(len(groups), size=prompts)
        order = np.random.default_rng([seed, step, 1])
        return np.array([order.permutation(groups[i])[:group_size] for i in chosen], dtype=np.int32)

    def _near(self, step: int) -> list[list[int]]:
        groups = []
        for records in self.traces:
            center = round(step / max(1, self.steps - 1) * (len(records) - 1))
            first = max(0, min(center - WINDOW // 2, len(records) - WINDOW))
            groups += [group for record in records[first : first + WINDOW] for group in record.lengths]
        return groups
