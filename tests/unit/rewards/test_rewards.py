"""Rewards by name, with TRL's signature."""

import pytest

from sagc.rewards.registry import reward_function


def test_tiny_scores_each_completion_against_its_answer():
    reward = reward_function("tiny")
    scores = reward(
        ["3x +12 = 39:", "3x +12 = 39:", "2x +0 = 8:"],
        ["4 12 24<;9 27 39=!", "4 12 24<!", "4 8 8=!"],
        completion_ids=[[1, 2], [3], [4]],
        answer=["9", "9", "4"],
        id=["a", "a", "b"],
        trainer_state=None,
    )
    assert scores == [1.0, 0.0, 1.0]
    assert all(isinstance(score, float) for score in scores)


def test_a_missing_answer_is_an_error_and_not_a_zero():
    with pytest.raises(ValueError):
        reward_function("tiny")(["p", "p"], ["9 27 39=!", "9 27 39=!"], answer=["9"])


def test_unknown_reward_names_what_is_allowed():
    with pytest.raises(ValueError, match="reward is 'Tiny'; allowed: tiny"):
        reward_function("Tiny")
