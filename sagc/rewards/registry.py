"""Rewards by name. A reward reads text only, so that it gives the same number through every engine.

The signature is TRL's: `reward(prompts, completions, **columns) -> list[float]`, one number per completion, where
completions are plain strings and columns hold the data set's other fields (here `answer`), one value per completion.
"""

from __future__ import annotations

from collections.abc import Callable

from sagc.tiny.task import outcome_reward

RewardFunction = Callable[..., list[float]]


def tiny(prompts: list[str], completions: list[str], *, answer: list[str], **columns: object) -> list[float]:
    """1.0 where the response ended by claiming the solution of its equation, else 0.0 (see sagc/tiny/task.py)."""
    return [outcome_reward(completion, solution) for completion, solution in zip(completions, answer, strict=True)]


def math(prompts: list, completions: list, *, answer: list[str], **columns: object) -> list[float]:
    """1.0 where math-verify finds the response's last answer equal to `answer`, else 0.0; also where it takes too long.

    Responses are text, or lists of messages, of which the last counts. See sagc/rewards/math_answers.py for what is an
    answer.
    """
    from sagc.rewards.math_answers import check_all

    responses = [text if isinstance(text, str) else text[-1]["content"] for text in completions]
    return [float(check.correct) for check in check_all(responses, [str(solution) for solution in answer])]


REWARDS: dict[str, RewardFunction] = {"tiny": tiny, "math": math}


def reward_function(name: str) -> RewardFunction:
    """The reward of that name.

    Raises:
        ValueError: there is no such reward; the message names those there are.
    """
    if name not in REWARDS:
        raise ValueError(f"reward is {name!r}; allowed: {', '.join(REWARDS)}")
    return REWARDS[name]
