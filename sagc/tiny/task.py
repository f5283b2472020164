"""The task "guess and compare": find x with a*x + b = T by trial.

    prompt    3x +12 = 39:
    response  4 12 24<;7 21 33<;9 27 39=!<eos>

A trial is `x a*x a*x+b` and a sign that compares the value with the target T. Trials are joined by `;`, and `!` claims
the last guess as the answer. The reward looks only at the outcome: the claimed guess must solve the equation. More
trials find the solution more often, so long responses are useful and reinforcement learning keeps the long tail of
response lengths that makes stragglers.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

COEFFICIENTS = range(1, 10)
OFFSETS = range(0, 32)
SOLUTIONS = range(0, 10)
LARGEST_VALUE = COEFFICIENTS[-1] * SOLUTIONS[-1] + OFFSETS[-1]

# In the corner of both a large coefficient and a large offset lies the harder split: each is seen in training with
# small partners only, so the models must compose what they learnt apart.
LARGE_COEFFICIENT = 6
LARGE_OFFSET = 23

# The last trial of a response that ended by itself.
CLAIM = re.compile(r"(?P<guess>[0-9]) [0-9]+ [0-9]+[<>=]!(<eos>)?")

SPLITS = ("train", "heldout", "harder")
WARM_START_STEPS = 1600  # optimizer steps of the supervised start, where a config does not say


@dataclass(frozen=True)
class Problem:
    """One equation coefficient * x + offset = target, with its only solution."""

    coefficient: int
    offset: int
    solution: int

    @property
    def target(self) -> int:
        """The right-hand side T."""
        return self.coefficient * self.solution + self.offset

    @property
    def id(self) -> str:
        """A name that is unique over all splits."""
        return f"{self.coefficient}x+{self.offset}={self.target}"

    @property
    def prompt(self) -> str:
        """The prompt as text."""
        return f"{self.coefficient}x +{self.offset} = {self.target}:"

    @property
    def answer(self) -> str:
        """The solution as text."""
        return str(self.solution)

    @property
    def split(self) -> str:
        """The split, by a fixed rule on the numbers alone: no seed moves a problem from one split to another."""
        if self.coefficient >= LARGE_COEFFICIENT and self.offset >= LARGE_OFFSET:
            return "harder"
        if (3 * self.coefficient + 7 * self.offset + self.target) % 5 == 0:
            return "heldout"
        return "train"


def all_problems() -> Iterator[Problem]:
    """Every problem of the task, in a fixed order."""
    for coefficient in COEFFICIENTS:
        for offset in OFFSETS:
            for solution in SOLUTIONS:
                yield Problem(coefficient, offset, solution)


def expert_trace(problem: Problem, rng: random.Random, false_claim: float, missed_hit: float) -> str:
    """A response of the imperfect expert that the warm start imitates, without the end token.

    The expert guesses uniformly at random and writes every trial correctly. After a wrong guess it still claims it
    with probability `false_claim`, after a right one it goes on guessing with probability `missed_hit`: both are faults
    that only the reward can correct.
    """
    trials = []
    while True:
        guess = rng.choice(SOLUTIONS)
        product = problem.coefficient * guess
        value = product + problem.offset
        sign = "<" if value < problem.target else ">" if value > problem.target else "="
        trials.append(f"{guess} {product} {value}{sign}")
        hit = value == problem.target
        if rng.random() < (1 - missed_hit if hit else false_claim):
            return ";".join(trials) + "!"


def outcome_reward(completion: str, answer: str) -> float:
    """1.0 if the response ended by a claim of the right guess, else 0.0.

    Works on text, so it is the same through every engine, whether or not the engine keeps `<eos>` when it decodes.
    A response that was cut off has no `!` at its end and earns nothing. The last trial must have the form of one, but
    its arithmetic is not checked: the reward is on the outcome alone.
    """
    return float(claimed_guess(completion) == answer)


def claimed_guess(completion: str) -> str | None:
    """The guess that the response ended by claiming, as text."""
    claim = CLAIM.fullmatch(completion.rpartition(";")[2].strip())
    return claim and claim["guess"]
