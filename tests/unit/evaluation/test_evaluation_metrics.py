"""Metrics of a benchmark against tables computed by hand and against brute force."""

import itertools
import math
from statistics import mean

import pytest

from sagc.evaluation.metrics import benchmark_metrics, majority, pass_at_k
from sagc.evaluation.scoring import average, share_present


def sample(rewards, tokens, cut_off, extracted=None, unchecked=None):
    extracted = extracted or [str(reward) for reward in rewards]
    unchecked = unchecked or [False] * len(rewards)
    names = ("rewards", "output_tokens", "cut_off", "extracted", "unchecked")
    return dict(zip(names, (rewards, tokens, cut_off, extracted, unchecked), strict=True))


def test_metrics_by_hand():
    samples = [
        sample([1.0, 0.0], [10, 20], [False, False], ["7", "8"]),
        sample([1.0, 1.0], [30, 90], [False, False], ["7", "7"]),
        sample([0.0, 0.0], [50, 60], [True, False], [None, "9"], [True, False]),
    ]
    metrics = benchmark_metrics(samples)
    # Means per problem 0.5, 1 and 0: their standard deviation is 0.5.
    assert metrics.pop("accuracy_se") == pytest.approx(0.5 / math.sqrt(3))
    assert metrics.pop("cut_off_rate") == pytest.approx(1 / 6)
    assert metrics.pop("no_answer_rate") == pytest.approx(1 / 6)
    assert metrics.pop("pass_at") == {"1": 0.5, "2": pytest.approx(2 / 3)}
    assert metrics.pop("output_tokens") == pytest.approx(260 / 6)
    assert metrics == {
        "accuracy": 0.5,
        "majority": 0.5,  # a tie, which is half right; right; wrong
        "problems": 3,
        "samples": 6,
        "output_tokens_median": 40,
        "unchecked": 1,
    }
    assert average([problem["rewards"] for problem in samples]) == 0.5
    assert share_present([problem["extracted"] for problem in samples]) == pytest.approx(5 / 6)


def test_standard_error_is_over_problems_not_responses():
    twice = benchmark_metrics([sample([1.0] * 2, [5] * 2, [False] * 2), sample([0.0] * 2, [5] * 2, [False] * 2)])
    often = benchmark_metrics([sample([1.0] * 50, [5] * 50, [False] * 50), sample([0.0] * 50, [5] * 50, [False] * 50)])
    assert twice["accuracy_se"] == often["accuracy_se"] == pytest.approx(0.5)


def test_one_problem_has_no_standard_error():
    assert benchmark_metrics([sample([1.0, 0.0], [3, 4], [False, False])])["accuracy_se"] is None


@pytest.mark.parametrize("n", range(1, 8))
def test_pass_at_k_is_the_share_of_all_ways_to_draw_k(n):
    for correct, k in itertools.product(range(n + 1), range(1, n + 1)):
        rewards = [1.0] * correct + [0.0] * (n - correct)
        brute_force = mean(float(max(drawn)) for drawn in itertools.combinations(rewards, k))
        assert pass_at_k(rewards, k) == pytest.approx(brute_force)


def test_pass_at_k_by_hand():
    """2 of 4 correct: 1 - C(2, 2) / C(4, 2) = 1 - 1 / 6."""
    assert pass_at_k([1.0, 0.0, 1.0, 0.0], 2) == pytest.approx(5 / 6)


@pytest.mark.parametrize("k", [0, 3, -1])
def test_more_responses_than_there_are_cannot_be_drawn(k):
    with pytest.raises(ValueError, match=f"k is {k}, and there are 2 responses to the problem"):
        pass_at_k([1.0, 0.0], k)


def test_pass_at_goes_by_powers_of_two_up_to_all_responses_that_every_problem_has():
    samples = [sample([1.0] * n, [1] * n, [False] * n) for n in (6, 7)]
    assert list(benchmark_metrics(samples)["pass_at"]) == ["1", "2", "4", "6"]


@pytest.mark.parametrize(
    ("extracted", "rewards", "expected"),
    [
        (["7", "7", "8"], [1.0, 1.0, 0.0], 1.0),
        (["8", "7", "8"], [0.0, 1.0, 0.0], 0.0),
        (["1/2", "0.5", "3", "3", "4"], [1.0, 1.0, 0.0, 0.0, 0.0], 0.5),  # one answer in two notations ties with 3
        (["7", "8", "9"], [1.0, 0.0, 0.0], 1 / 3),
        ([None, None, "7"], [0.0, 0.0, 1.0], 1.0),  # no answer is no vote
        ([None, None], [0.0, 0.0], 0.0),
    ],
)
def test_majority_by_hand(extracted, rewards, expected):
    assert majority(extracted, rewards) == pytest.approx(expected)
