"""analysis.statistics: against numbers by hand, SciPy's paired t test, and how often intervals hold the truth."""

import math

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from analysis.statistics import mean_and_error, over_common, paired_difference, paired_ratio, ratio_of_means

T1, T2 = 12.706205, 4.302653  # 97.5 % quantiles of Student's t with one and two degrees of freedom, from a table


def test_mean_and_error_by_hand():
    mean, error = mean_and_error(np.array([1.0, 2.0, 6.0]))
    assert mean == 3.0
    assert error == pytest.approx((7 / 3) ** 0.5)  # squares 4 + 1 + 9 over 2 are 7, over 3 values
    mean, error = mean_and_error(np.array([5.0]))
    assert mean == 5.0 and np.isnan(error)


def test_a_difference_of_two_pairs_by_hand():
    found = paired_difference(np.array([3.0, 5.0]), np.array([1.0, 6.0]))  # 2 and -1: 0.5, with an error of 1.5
    assert found == pytest.approx((0.5, 0.5 - T1 * 1.5, 0.5 + T1 * 1.5, 2))


def test_a_ratio_of_three_pairs_by_hand():
    """Ratios 1/2, 1 and 2: logarithms -1, 0 and 1 in units of ln 2, of mean 0 and error 1 / root 3."""
    found = paired_ratio(np.array([5.0, 7.0, 8.0]), np.array([10.0, 7.0, 4.0]))
    reach = 2 ** (T2 / 3**0.5)
    assert found == pytest.approx((1.0, 1 / reach, reach, 3))


def test_a_ratio_is_the_inverse_of_the_ratio_the_other_way():
    own, reference = np.array([5.0, 7.0, 8.5]), np.array([10.0, 7.5, 4.0])
    there, back = paired_ratio(own, reference), paired_ratio(reference, own)
    assert (there.value, there.low, there.high) == pytest.approx((1 / back.value, 1 / back.high, 1 / back.low))


@pytest.mark.parametrize("pairs", [2, 3, 5, 12])
def test_the_intervals_are_those_of_scipys_paired_t_test(pairs):
    generator = np.random.default_rng(pairs)
    own, reference = generator.lognormal(1, 1, pairs), generator.lognormal(0, 1, pairs)
    expected = scipy.stats.ttest_rel(own, reference).confidence_interval(0.95)
    assert paired_difference(own, reference)[1:] == pytest.approx((expected.low, expected.high, pairs))
    expected = scipy.stats.ttest_rel(np.log(own), np.log(reference)).confidence_interval(0.95)
    assert paired_ratio(own, reference)[1:] == pytest.approx((np.exp(expected.low), np.exp(expected.high), pairs))


@pytest.mark.parametrize("pairs", [2, 3, 4, 5])
def test_95_percent_intervals_of_few_seeds_hold_the_truth_95_times_of_100(pairs):
    """A percentile bootstrap holds it 50, 75, 80 and 84 times. 4000 draws have a standard error of 0.0034."""
    generator, draws, held = np.random.default_rng(pairs), 4000, np.zeros(2)
    for _ in range(draws):
        seeds = generator.normal(0, 3, pairs)  # what a seed does to both arms
        own, reference = 0.2 + seeds + generator.normal(0, 1, pairs), seeds + generator.normal(0, 2, pairs)
        difference, ratio = paired_difference(own, reference), paired_ratio(np.exp(own), np.exp(reference))
        held += difference.low <= 0.2 <= difference.high, ratio.low <= math.exp(0.2) <= ratio.high
    assert held / draws == pytest.approx(0.95, abs=0.012)


def test_pairing_is_kept():
    """Where every problem is a tenth shorter, nothing is uncertain, however much the problems differ."""
    static = np.array([10.0, 20.0, 400.0, 35.0])
    assert ratio_of_means(-0.1 * static, static)[:3] == pytest.approx((-0.1, -0.1, -0.1))
    assert paired_ratio(0.9 * static, static)[:3] == pytest.approx((0.9, 0.9, 0.9))
    assert paired_difference(static - 1, static)[:3] == pytest.approx((-1, -1, -1))


def lengths_of(problems, generator):
    """Two arms as they come: skewed lengths that go along with each other, a twentieth shorter on average."""
    static = generator.lognormal(3.5, 0.5, problems)
    return static * generator.normal(0.95, 0.3, problems) - static, static


def test_a_ratio_of_means_by_hand():
    """Means 2 and 8: 1/4. What is left of the pairs, -2 and 2, over 8 has an error of 1/4."""
    found = ratio_of_means(np.array([-1.0, 5.0]), np.array([4.0, 12.0]))
    assert found == pytest.approx((0.25, 0.25 - T1 / 4, 0.25 + T1 / 4, 2))


@pytest.mark.parametrize(("problems", "least"), [(2, 0.92), (5, 0.91), (30, 0.93)])
def test_intervals_of_lengths_hold_the_truth(problems, least):
    """To first order: with few skewed lengths it is held a little less often than 95 times of 100."""
    generator, held = np.random.default_rng(0), 0
    for _ in range(2000):
        found = ratio_of_means(*lengths_of(problems, generator))
        held += found.low <= -0.05 <= found.high
    assert least < held / 2000 < 0.97


@pytest.mark.parametrize("problems", [60, 500])
def test_the_interval_of_many_problems_is_that_of_a_bootstrap(problems):
    difference, static = lengths_of(problems, np.random.default_rng(0))
    reference = scipy.stats.bootstrap(
        (difference, static),
        lambda d, s, axis: d.sum(axis=axis) / s.sum(axis=axis),
        paired=True,
        n_resamples=10_000,
        batch=1000,
        method="percentile",
        rng=np.random.default_rng(1),
    ).confidence_interval
    found = ratio_of_means(difference, static)
    width = found.high - found.low
    assert (found.low, found.high) == pytest.approx((reference.low, reference.high), abs=0.08 * width)


@pytest.mark.parametrize("compare", [paired_difference, paired_ratio, ratio_of_means])
def test_a_single_pair_has_no_interval(compare):
    found = compare(np.array([1.0]), np.array([2.0]))
    assert not np.isnan(found.value) and np.isnan(found[1:3]).all() and found.n == 1


def test_what_has_no_logarithm_has_no_ratio():
    for own, reference in (([0.0, 1.0], [1.0, 1.0]), ([1.0, 1.0], [1.0, 0.0])):
        found = paired_ratio(np.array(own), np.array(reference))
        assert np.isnan(found[:3]).all() and found.n == 2


def test_arms_are_compared_over_the_seeds_that_both_have():
    own = pd.Series({0: 3.0, 1: 5.0, 2: None, 7: 1.0})
    reference = pd.Series({7: 2.0, 2: 4.0, 1: 1.0, 9: 8.0})
    found = over_common(paired_difference, own, reference)
    assert (found.value, found.n) == (1.5, 2)  # 5 - 1 of seed 1, 1 - 2 of seed 7
    for other in (None, reference.loc[[9]]):
        nothing = over_common(paired_ratio, own, other)
        assert np.isnan(nothing[:3]).all() and nothing.n == 0
