"""analysis.statistics: against numbers by hand, a plain loop, and SciPy's bootstrap."""

import numpy as np
import pytest
import scipy.stats

from analysis import statistics
from analysis.statistics import difference_interval, mean_and_error, ratio_interval


def test_mean_and_error_by_hand():
    mean, error = mean_and_error(np.array([1.0, 2.0, 6.0]))
    assert mean == 3.0
    assert error == pytest.approx((7 / 3) ** 0.5)  # squares 4 + 1 + 9 over 2 are 7, over 3 values
    mean, error = mean_and_error(np.array([5.0]))
    assert mean == 5.0 and np.isnan(error)


def lengths_of(problems, seed=0):
    """Two arms as they come: skewed lengths that go along with each other."""
    generator = np.random.default_rng(seed)
    static = generator.lognormal(3.5, 0.5, problems)
    return static * generator.normal(0.95, 0.3, problems) - static, static


def test_the_interval_is_that_of_a_plain_loop():
    difference, static = lengths_of(37)
    generator, ratios = np.random.default_rng(statistics.BOOTSTRAP_SEED), []
    for _ in range(10_000):
        drawn = generator.integers(37, size=37)
        ratios.append(sum(difference[i] for i in drawn) / sum(static[i] for i in drawn))
    ratios.sort()
    place_low, place_high = 0.025 * 9_999, 0.975 * 9_999  # between two of the sorted values
    expected = [np.interp(place, range(10_000), ratios) for place in (place_low, place_high)]
    assert ratio_interval(difference, static) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("problems", [5, 60, 500])
def test_the_interval_is_scipys(problems):
    difference, static = lengths_of(problems)
    reference = scipy.stats.bootstrap(
        (difference, static),
        lambda d, s, axis: d.sum(axis=axis) / s.sum(axis=axis),
        paired=True,
        n_resamples=10_000,
        batch=1000,
        method="percentile",
        rng=np.random.default_rng(1),
    ).confidence_interval
    low, high = ratio_interval(difference, static)
    width = high - low
    assert low == pytest.approx(reference.low, abs=0.05 * width)
    assert high == pytest.approx(reference.high, abs=0.05 * width)


def test_the_interval_of_many_problems_is_the_normal_one():
    difference, static = lengths_of(2000)
    ratio = difference.mean() / static.mean()
    error = np.std(difference - ratio * static) / static.mean() / 2000**0.5  # of a ratio, by the delta method
    low, high = ratio_interval(difference, static)
    assert low == pytest.approx(ratio - 1.96 * error, abs=0.1 * error)
    assert high == pytest.approx(ratio + 1.96 * error, abs=0.1 * error)


def test_pairing_is_kept():
    """Where every problem is a tenth shorter, nothing is uncertain, however much the problems differ."""
    static = np.array([10.0, 20.0, 400.0, 35.0])
    assert ratio_interval(-0.1 * static, static) == pytest.approx((-0.1, -0.1))


@pytest.mark.parametrize("at_once", [1, 1000, 10**7])
def test_how_many_are_drawn_at_once_changes_nothing(monkeypatch, at_once):
    difference, static = lengths_of(50)
    expected = ratio_interval(difference, static)
    monkeypatch.setattr(statistics, "DRAWN_AT_ONCE", at_once)
    assert ratio_interval(difference, static) == pytest.approx(expected, rel=1e-12)


def test_a_difference_of_two_pairs_by_hand():
    """A quarter of the resamples draws the first pair twice, a quarter the second."""
    assert difference_interval(np.array([3.0, 5.0]), np.array([1.0, 6.0])) == (-1.0, 2.0)


def test_the_interval_of_a_difference_is_scipys():
    generator = np.random.default_rng(0)
    own, reference = generator.normal(1, 1, 12), generator.normal(0, 1, 12)
    expected = scipy.stats.bootstrap(
        (own - reference,), np.mean, n_resamples=10_000, method="percentile", rng=np.random.default_rng(1)
    ).confidence_interval
    low, high = difference_interval(own, reference)
    assert low == pytest.approx(expected.low, abs=0.05 * (high - low))
    assert high == pytest.approx(expected.high, abs=0.05 * (high - low))


def test_a_single_pair_has_no_interval():
    assert np.isnan(difference_interval(np.array([1.0]), np.array([2.0]))).all()
    assert np.isnan(ratio_interval(np.array([1.0]), np.array([2.0]))).all()
