"""sagc.math_answers: answers are compared as mathematics, in threads too, and none can hold up training."""

import threading
import time

import pytest

from sagc.math_answers import verify_all
from sagc.rewards import reward_function

HANGS = r"so it is $\boxed{9^{9^{9^{9}}}}$"


@pytest.mark.parametrize(
    ("response", "answer", "equal"),
    [
        (r"half of it: $\boxed{\frac{1}{2}}$", "0.5", True),
        ("First 41, no: the answer is 42.", "42", True),
        (r"$\boxed{x^2 + 2x + 1}$", "(x+1)^2", True),
        (r"$\boxed{41}$", "42", False),
        ("I do not know", "42", False),
        ("", "42", False),
        ("x" * 100_000, "42", False),
        ("1 " * 50_000 + r"$\boxed{42}$", "42", True),
    ],
)
def test_answers_are_compared_as_mathematics(response, answer, equal):
    assert verify_all([response], [answer]) == [equal]


def test_an_answer_that_hangs_the_parser_is_wrong_and_the_others_are_not(caplog):
    started = time.monotonic()
    assert verify_all([HANGS, r"$\boxed{3}$", HANGS, r"$\boxed{4}$"], ["3", "3", "3", "3"], timeout=3) == [
        False,
        True,
        False,
        False,
    ]
    assert time.monotonic() - started < 30
    assert "counts as wrong: TimeoutError" in caplog.text


def test_the_reward_works_off_the_main_thread(monkeypatch):
    monkeypatch.setattr("sagc.math_answers.TIMEOUT_S", 3.0)
    found = []
    math = reward_function("math")
    columns = {"answer": ["3", "3"], "level": ["5", "5"]}
    thread = threading.Thread(target=lambda: found.extend(math(["p", "p"], [HANGS, r"$\boxed{3}$"], **columns)))
    thread.start()
    thread.join(timeout=60)
    assert found == [0.0, 1.0]


def test_messages_are_read_too():
    math = reward_function("math")
    assert math(["p"], [[{"role": "assistant", "content": r"$\boxed{3}$"}]], answer=[3]) == [1.0]


def test_a_response_without_its_answer_is_an_error():
    with pytest.raises(ValueError, match="zip"):
        verify_all(["3", "4"], ["3"])
