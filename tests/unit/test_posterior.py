"""Beta arms and the risk curve: counts by hand, the fit against a slow reference, hostile evidence."""

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagc.posterior import BetaArms, RiskCurve, fit_curve

PRIOR = {"prior_mean": (-2.0, 1.0), "prior_precision": (0.1, 0.5)}
LADDER = (4, 6, 8, 12, 16)
X = [math.log2(size) for size in LADDER]


def log_posterior(a, b, x, events, trials):
    """Over arrays a and b of any equal shape."""
    z = np.asarray(a)[..., None] + np.asarray(b)[..., None] * np.array(x)
    likelihood = np.sum(np.array(events) * z - np.array(trials) * np.logaddexp(0, z), axis=-1)
    return likelihood - (0.1 * (a + 2) ** 2 + 0.5 * (b - 1) ** 2) / 2


def by_grid(x, events, trials):
    """The mode with b >= 0 by a grid that closes in on its best point."""
    a, b, width = 0.0, 4.0, 40.0
    while width > 1e-6:
        grid_a, grid_b = np.meshgrid(a + np.linspace(-width, width, 81), b + np.linspace(-width, width, 81))
        grid_b = np.maximum(grid_b, 0.0)
        best = np.argmax(log_posterior(grid_a, grid_b, x, events, trials))
        a, b, width = grid_a.flat[best], grid_b.flat[best], 0.7 * width
    return a, b


def test_beta_arms_by_hand():
    arms = BetaArms((4, 8), prior=(1.0, 2.0), rho=0.5)
    assert arms.means == {4: 1 / 3, 8: 1 / 3}
    arms.observe(8, events=3, groups=4)
    assert (arms.alpha, arms.beta) == ({4: 1.0, 8: 4.0}, {4: 2.0, 8: 3.0})
    arms.forget()
    assert (arms.alpha, arms.beta) == ({4: 1.0, 8: 2.5}, {4: 2.0, 8: 2.5})
    assert arms.means[8] == 0.5


def test_beta_arms_forget_down_to_the_prior():
    arms = BetaArms((4,), prior=(1.0, 2.0), rho=0.9)
    arms.observe(4, events=100, groups=300)
    for _ in range(500):
        arms.forget()
    assert (arms.alpha[4], arms.beta[4]) == pytest.approx((1.0, 2.0), abs=1e-9)


def test_beta_arms_without_forgetting_keep_everything():
    arms = BetaArms((4,), rho=1)
    for _ in range(10):
        arms.forget()
        arms.observe(4, events=1, groups=4)
    assert (arms.alpha[4], arms.beta[4]) == (11.0, 31.0)


def test_beta_samples_follow_the_posterior_and_the_seed():
    arms = BetaArms((4, 8))
    arms.observe(8, events=30, groups=40)
    draws = [arms.sample(8, np.random.default_rng(seed)) for seed in range(300)]
    assert np.mean(draws) == pytest.approx(arms.means[8], abs=0.02)
    assert draws[7] == np.random.default_rng(7).beta(31.0, 11.0)


def test_risk_curve_before_any_evidence_is_the_prior():
    assert RiskCurve((4, 16), **PRIOR).risks == {4: 0.5, 16: pytest.approx(1 / (1 + math.exp(-2)))}


def test_risk_curve_follows_strong_evidence_and_extrapolates():
    curve = RiskCurve(LADDER, **PRIOR)
    for size in (4, 6):
        risk = 1 / (1 + math.exp(5 - 1.5 * math.log2(size)))
        curve.observe(size, events=1e5 * risk, trials=1e5)
    for size in LADDER:
        assert curve.risks[size] == pytest.approx(1 / (1 + math.exp(5 - 1.5 * math.log2(size))), abs=2e-3)


def test_risk_curve_forgets():
    curve = RiskCurve((4, 8), rho=0.5)
    curve.observe(4, events=3.0, trials=8.0)
    curve.forget()
    curve.observe(8, events=1.0, trials=2.0)
    assert curve.state_dict() == {"events": [1.5, 1.0], "trials": [4.0, 2.0]}


def test_risk_curve_is_a_function_of_its_evidence_alone():
    curve, copy = RiskCurve((4, 8)), RiskCurve((4, 8))
    for count in range(1, 6):
        curve.observe(4, events=0.3 * count, trials=count)
        assert curve.risks  # fitted on the way
    copy.load_state_dict(json.loads(json.dumps(curve.state_dict())))
    assert copy.risks == curve.risks


@pytest.mark.parametrize("seed", range(12))
def test_fit_equals_the_grid(seed):
    generator = np.random.default_rng(seed)
    trials = generator.uniform(0, 60, len(X)).tolist()
    events = [n * p for n, p in zip(trials, generator.uniform(0, 1, len(X)), strict=True)]
    fitted = fit_curve(X, events, trials, **PRIOR)
    assert fitted == pytest.approx(by_grid(X, events, trials), abs=2e-4)


def test_falling_risks_give_a_flat_curve():
    events, trials = [90.0, 50.0, 40.0, 20.0, 5.0], [100.0] * 5
    a, b = fit_curve(X, events, trials, **PRIOR)
    assert b == 0.0
    assert a == pytest.approx(by_grid(X, events, trials)[0], abs=2e-4)
    assert len(set(curve_risks(events, trials).values())) == 1


def curve_risks(events, trials):
    curve = RiskCurve(LADDER, **PRIOR)
    curve.load_state_dict({"events": events, "trials": trials})
    return curve.risks


weights = st.one_of(st.just(0.0), st.floats(1e-12, 1e3), st.floats(1e3, 1e15))
shares = st.one_of(st.just(0.0), st.just(1.0), st.floats(0, 1))


@settings(deadline=None, max_examples=150)
@given(st.lists(st.tuples(weights, shares), min_size=5, max_size=5))
def test_no_evidence_makes_the_fit_diverge(evidence):
    trials = [weight for weight, _ in evidence]
    events = [weight * share for weight, share in evidence]
    a, b = fit_curve(X, events, trials, **PRIOR)
    assert math.isfinite(a)
    assert math.isfinite(b)
    assert b >= 0
    # Concave and monotone: what was found beats the start and its own surroundings, to rounding.
    height = log_posterior(a, b, X, events, trials)
    slack = 1e-9 * (1 + abs(height) + sum(trials))
    around = [(-2.0, 1.0), (a + 0.01, b), (a - 0.01, b), (a, b + 0.01), (a, max(b - 0.01, 0.0))]
    for other_a, other_b in around:
        assert height >= log_posterior(other_a, other_b, X, events, trials) - slack
    risks = list(curve_risks(events, trials).values())
    assert all(0 <= low <= high <= 1 for low, high in itertools.pairwise(risks))


@pytest.mark.parametrize("weight", [1e-300, 1.0, 1e30, 1e300])
@pytest.mark.parametrize("shares", [(1, 0, 1, 0, 1), (0, 0, 0, 0, 1), (1, 0, 0, 0, 0), (0,) * 5, (1,) * 5])
def test_absurd_weights(weight, shares):
    risks = list(curve_risks([weight * share for share in shares], [weight] * 5).values())
    assert all(0 <= low <= high <= 1 for low, high in itertools.pairwise(risks))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"prior": (1.0, 0.0)}, r"prior\[1\] must be one of two positive numbers, got 0.0"),
        ({"prior": (-1, 1)}, r"prior\[0\] must be one of two positive numbers, got -1"),
        ({"prior": (math.nan, 1)}, r"prior\[0\]"),
        ({"prior": (1, 1, 1)}, "prior must be two positive numbers"),
        ({"prior": 1.0}, "prior must be two positive numbers, got 1.0"),
        ({"rho": 0}, "rho must be a number above 0 and at most 1, got 0"),
        ({"rho": 1.01}, "rho"),
        ({"rho": True}, "rho"),
    ],
)
def test_beta_arms_refuse(parameters, message):
    with pytest.raises(ValueError, match=message):
        BetaArms((4, 8), **parameters)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"prior_mean": (math.inf, 1)}, r"prior_mean\[0\]"),
        ({"prior_mean": (0, -1)}, "prior_mean's slope must be at least 0"),
        ({"prior_precision": (0, 1)}, r"prior_precision\[0\] must be one of two positive numbers, got 0"),
        ({"prior_precision": [1]}, "prior_precision must be two positive numbers"),
        ({"rho": -0.5}, "rho"),
    ],
)
def test_risk_curve_refuses(parameters, message):
    with pytest.raises(ValueError, match=message):
        RiskCurve((4, 8), **parameters)


@pytest.mark.parametrize(
    ("beliefs", "state"),
    [
        (BetaArms((4, 8)), {"alpha": [1, 1], "beta": [1]}),
        (BetaArms((4, 8)), {"alpha": [1, 1], "beta": [1, 0]}),
        (BetaArms((4, 8)), {"alpha": [2, 2], "beta": [1, math.nan]}),
        (BetaArms((4, 8)), {"alpha": [2, 2], "beta": "11"}),
        (RiskCurve((4, 8)), {"events": [0, 3], "trials": [1, 2]}),
        (RiskCurve((4, 8)), {"events": [0, -1], "trials": [1, 2]}),
        (RiskCurve((4, 8)), {"events": [0, 0], "trials": [1, math.inf]}),
    ],
)
def test_invalid_states_are_refused_and_change_nothing(beliefs, state):
    before = beliefs.state_dict()
    with pytest.raises(ValueError, match="state's"):
        beliefs.load_state_dict(state)
    assert beliefs.state_dict() == before
