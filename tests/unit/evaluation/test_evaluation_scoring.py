"""How responses are scored: as in training, as mathematics, and by letter."""

import random

import pytest

from sagc.evaluation.scoring import last_letter, score_choice, score_math, score_tiny
from sagc.rewards.registry import reward_function
from sagc.tiny.task import Problem, expert_trace


def test_the_embedded_task_is_scored_as_in_training():
    problem = Problem(coefficient=3, offset=12, solution=9)
    solved = expert_trace(problem, random.Random(0), false_claim=0, missed_hit=0)
    wrong = "4 12 24<!"
    responses = [solved, solved[:-1], "", wrong]
    scored = score_tiny({"problem": problem.prompt, "answer": problem.answer}, [responses])
    assert scored == {
        "accuracy": [1.0, 0.0, 0.0, 0.0],
        "extracted": ["9", None, None, "4"],
        "unchecked": [False] * 4,
    }
    assert scored["accuracy"] == reward_function("tiny")([problem.prompt] * 4, responses, answer=[problem.answer] * 4)


def test_mathematics_is_compared_whatever_is_around_it(monkeypatch):
    monkeypatch.setattr(
        "sagc.rewards.math_answers.TIMEOUT_S", 60.0
    )  # the last takes 1.4 s, many times that on a busy machine
    responses = [
        r"so it is $\boxed{070}$",
        "The answer is 71.",
        "",
        "no idea",
        "x" * 100_000,
        "70 " * 40_000 + "and therefore 70",
    ]
    scored = score_math({"problem": "?", "answer": "70"}, [responses])
    assert scored["accuracy"] == [1.0, 0.0, 0.0, 0.0, 0.0, 1.0]
    assert scored["extracted"] == ["70", "71", None, None, None, "70"]
    assert scored["unchecked"] == [False] * 6


def test_mathematics_that_hangs_the_parser_is_counted(monkeypatch):
    monkeypatch.setattr("sagc.rewards.math_answers.TIMEOUT_S", 3.0)
    responses = ["71", r"$\boxed{9^{9^{9^{9}}}}$", "70"]
    scored = score_math({"problem": "?", "answer": "70"}, [responses])
    assert scored == {"accuracy": [0.0, 0.0, 1.0], "extracted": ["71", None, "70"], "unchecked": [False, True, False]}


def test_a_reference_answer_that_is_no_mathematics_is_counted():
    scored = score_math({"problem": "?", "answer": "?!"}, [["3", ""]])
    assert scored == {"accuracy": [0.0, 0.0], "extracted": ["3", None], "unchecked": [True, True]}


@pytest.mark.parametrize(
    ("response", "letter"),
    [
        ("Answer: C", "C"),
        ("**Answer:** B", "B"),
        ("so the answer is (D).", "D"),
        (r"\boxed{A}", "A"),
        (r"\boxed{\text{A}}", "A"),
        (r"Answer: $\boxed{\text{B}}$", "B"),
        ("Answer: $D", "D"),
        ("Answer: A. No, wait.\nAnswer: D", "D"),
        ("ANSWER: B", "B"),
        ("Answer: E", None),  # there are four choices
        ("the answer is Apple", None),
        ("A, B, C or D", None),
        ("", None),
    ],
)
def test_the_letter_that_is_given_last_counts(response, letter):
    assert last_letter(response, 4) == letter


def test_choices_are_scored_by_letter():
    problem = {"problem": "?", "answer": "B", "choices": ["no", "yes", "perhaps"]}
    scored = score_choice(problem, [["Answer: B", "Answer: A", "Answer: D", ""]])
    assert scored == {
        "accuracy": [1.0, 0.0, 0.0, 0.0],
        "extracted": ["B", "A", None, None],
        "unchecked": [False] * 4,
    }
