"""What would have been trained with: a static group size, or a controller that is run over the log's own lengths."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sagc.controllers.protocol import GroupSizeController, without_warnings
from sagc.controllers.registry import build_controller, known_to
from sagc.replay.resizing import FIELDS, Amounts, Rollouts

SEED = 0
DRAWS = 8  # rollouts per step of a static size
PATHS = 8  # of a controller
FEWER_BEYOND = 2**22  # responses; larger logs need, and get, fewer of both


@dataclass(frozen=True)
class Arm:
    """One arm over the log.

    Attributes
    ----------
    expected : numpy.ndarray
        (steps, FIELDS) amounts on average.
    drawn : numpy.ndarray
        (repetitions, steps, FIELDS) amounts of rollouts drawn at random.
    is_controller : bool
        Its repetitions are paths, whose steps depend on each other.
    moves, infeasible : float
        Of a controller: changes of size, and steps at which no size fitted its budget, per step.
    """

    expected: np.ndarray
    drawn: np.ndarray
    is_controller: bool = False
    moves: float = 0.0
    infeasible: float = 0.0


def static_arm(rollouts: Rollouts, size: int) -> Arm:
    """A static size, over the steps whose groups are large enough."""
    generator = np.random.default_rng((SEED, size))
    found = [(i, amounts) for i, amounts in enumerate(rollouts.expected(size)) if amounts is not None]
    repetitions = 1 if rollouts.log.sizes == [size] else _repetitions(rollouts, DRAWS)
    drawn = [[_row(rollouts.draw(i, size, generator).amounts) for i, _ in found] for _ in range(repetitions)]
    return Arm(np.array([_row(amounts) for _, amounts in found]), np.array(drawn))


def played_arm(rollouts: Rollouts) -> Arm:
    """What the log itself has."""
    sizes = [step.size for step in rollouts.log.steps]
    logged = [_row(rollouts.expected(size)[i]) for i, size in enumerate(sizes)]
    moves = sum(a != b for a, b in itertools.pairwise(sizes)) / len(sizes)
    return Arm(np.array(logged), np.array([logged]), moves=moves)


def controller_arm(rollouts: Rollouts, kind: str, parameters: Mapping[str, Any]) -> Arm:
    """A controller that sees, at every step, random sub-groups of the size that it asked for.

    Raises ValueError for a parameter that the controller refuses. Its ladder must lie within the log's sizes.
    """
    expected, drawn, moves, infeasible = [], [], 0, 0
    for repetition in range(_repetitions(rollouts, PATHS)):
        generator = np.random.default_rng((SEED, repetition))
        chance = known_to(kind, seed=repetition)
        controller = build_controller(kind, tau=rollouts.tau, **chance, **parameters)
        path, lengths = [], []
        with without_warnings():
            for size, amounts in _play(controller, rollouts, generator):
                path.append(_row(rollouts.expected(size)[len(path)]))
                lengths.append(_row(amounts))
                moves += controller.group_size != size
                infeasible += controller.status().infeasible
        expected.append(path)
        drawn.append(lengths)
    steps = len(rollouts.log.steps) * len(drawn)
    return Arm(np.mean(expected, axis=0), np.array(drawn), True, moves / steps, infeasible / steps)


def _play(
    controller: GroupSizeController, rollouts: Rollouts, generator: np.random.Generator
) -> Iterator[tuple[int, Amounts]]:
    for index in range(len(rollouts.log.steps)):
        size = controller.group_size
        draw = rollouts.draw(index, size, generator)
        controller.step(draw.lengths)
        yield size, draw.amounts


def _repetitions(rollouts: Rollouts, most: int) -> int:
    responses = sum(step.lengths.size for step in rollouts.log.steps)
    return int(min(most, max(2, FEWER_BEYOND // responses)))


def _row(amounts: Amounts) -> list[float]:
    return [amounts[name] for name in FIELDS]
