"""The functions that task files name: three ways to score the k responses to a problem, and the means over problems.

Each score is a list with a value per response: `accuracy` (the reward), `extracted` (the answer found, or None) and
`unchecked` (whether the check itself failed, in which case the response counts as wrong).
"""

from __future__ import annotations

import re
from statistics import mean
from typing import Any

from sagc.rewards.math_answers import check_all, check_soon
from sagc.rewards.registry import reward_function
from sagc.tiny.task import claimed_guess

Scores = dict[str, list]

# "Answer: C", also in bold, boxed or as "the answer is (C)"; a boxed letter alone counts too.
LETTER = re.compile(
    r"(?:(?i:answer)(?:\s|is|:|\*|\$|\(|\[|\{|\\boxed|\\text|\\mathrm)+|\\boxed\{(?:\\text\{)?\(?)([A-Z])(?![\w'])"
)


def score_tiny(problem: dict[str, Any], results: list[list[str]]) -> Scores:
    """The embedded task: scored by the training reward."""
    (responses,) = results
    columns = {"prompts": [problem["problem"]] * len(responses), "answer": [problem["answer"]] * len(responses)}
    rewards = reward_function("tiny")(completions=responses, **columns)
    return _scores(rewards, [claimed_guess(response) for response in responses], [False] * len(responses))


def score_math(problem: dict[str, Any], results: list[list[str]]) -> Scores:
    """Mathematics: correct if math-verify finds the response's last answer equal to the reference."""
    (responses,) = results
    checks = check_all(responses, [problem["answer"]] * len(responses))
    return _scores(
        [float(check.correct) for check in checks],
        [check.found for check in checks],
        [check.failure is not None for check in checks],
    )


def score_math_soon(problem: dict[str, Any], response: str) -> None:
    """Start the check that `score_math` will ask for."""
    check_soon(response, problem["answer"])


def score_choice(problem: dict[str, Any], results: list[list[str]]) -> Scores:
    """Multiple choice: the letter that the response gives last as its answer."""
    (responses,) = results
    letters = [last_letter(response, len(problem["choices"])) for response in responses]
    return _scores([float(letter == problem["answer"]) for letter in letters], letters, [False] * len(responses))


def last_letter(response: str, choices: int) -> str | None:
    """The last letter among the first `choices` ones that the response gives as its answer."""
    allowed = [letter for letter in LETTER.findall(response) if ord(letter) - ord("A") < choices]
    return allowed[-1] if allowed else None


# Scoring that takes long is started while other responses are still being generated.
AHEAD = {score_math: score_math_soon}


def _scores(rewards: list[float], extracted: list[str | None], unchecked: list[bool]) -> Scores:
    return {"accuracy": rewards, "extracted": extracted, "unchecked": unchecked}


# What task files name as `aggregation` ------------------------------------------------------------------------------


def average(values: list[list[float]]) -> float:
    """The mean over problems of the mean over responses: avg@k of rewards."""
    return mean(mean(map(float, problem)) for problem in values)


def share_present(values: list[list[str | None]]) -> float:
    """The share of responses with an answer."""
    return mean(value is not None for problem in values for value in problem)
