"""Beliefs about the straggler risk of each group size: independent Beta arms, and one curve through all sizes.

The published controller uses `BetaArms` [Khan et al. 2026, arXiv 2606.02218]. `RiskCurve` is ours: it assumes that
risk does not fall as groups grow, so every size has an estimate before it is first played. Both forget: evidence decays
by the factor rho per step, because the policy changes and the lengths with it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from sagc.lengths import check_number

MAX_NEWTON_STEPS = 200
MAX_HALVINGS = 60
TOLERANCE = 1e-10  # of the fitted intercept and slope


class BetaArms:
    """One Beta posterior per group size, forgetting towards the prior [Khan et al. 2026; ours: towards the prior].

    Parameters
    ----------
    sizes : sequence of int
        Group sizes, in increasing order.
    prior : (float, float)
        alpha_0 and beta_0 of every size: straggler and calm groups assumed before any is seen.
    rho : float
        Share of the evidence kept per step, in (0, 1].

    Raises
    ------
    ValueError
        If the prior is not two positive numbers, or rho is outside (0, 1].

    Examples
    --------
    >>> from sagc.posterior import BetaArms
    >>> arms = BetaArms((4, 8), prior=(1.0, 1.0), rho=0.5)
    >>> arms.observe(8, events=6, groups=8)
    >>> arms.means
    {4: 0.5, 8: 0.7}
    >>> arms.forget()
    >>> arms
    Beta(4: 1, 1; 8: 4, 2)
    """

    def __init__(self, sizes: Sequence[int], prior: tuple[float, float] = (1.0, 1.0), rho: float = 0.95):
        self.sizes = tuple(sizes)
        self.prior = check_pair("prior", prior, "positive numbers", lambda value: value > 0)
        self.rho = check_rho(rho)
        self.alpha = dict.fromkeys(self.sizes, self.prior[0])
        self.beta = dict.fromkeys(self.sizes, self.prior[1])

    def forget(self) -> None:
        """Shrink the evidence of every size towards the prior by the factor rho."""
        alpha_0, beta_0 = self.prior
        for size in self.sizes:
            self.alpha[size] = alpha_0 + self.rho * (self.alpha[size] - alpha_0)
            self.beta[size] = beta_0 + self.rho * (self.beta[size] - beta_0)

    def observe(self, size: int, events: int, groups: int) -> None:
        """Count `events` straggler groups among `groups` of `size` responses."""
        self.alpha[size] += events
        self.beta[size] += groups - events

    @property
    def means(self) -> dict[int, float]:
        """Posterior mean of the straggler risk per size."""
        return {size: self.alpha[size] / (self.alpha[size] + self.beta[size]) for size in self.sizes}

    def sample(self, size: int, generator: np.random.Generator) -> float:
        """One draw from the posterior of `size` (Thompson sampling)."""
        return float(generator.beta(self.alpha[size], self.beta[size]))

    def state_dict(self) -> dict:
        """Alpha and beta as JSON-able lists, in the order of the sizes."""
        return {"alpha": list(self.alpha.values()), "beta": list(self.beta.values())}

    def load_state_dict(self, state: Mapping) -> None:
        """Restore a `state_dict`.

        Raises
        ------
        ValueError
            If it is not one for the same number of sizes.
        """
        alpha, beta = (
            check_state_list(state, name, self.sizes, "a positive number", lambda value: value > 0)
            for name in ("alpha", "beta")
        )
        self.alpha = dict(zip(self.sizes, alpha, strict=True))
        self.beta = dict(zip(self.sizes, beta, strict=True))

    def __repr__(self) -> str:
        return f"Beta({'; '.join(f'{size}: {self.alpha[size]:.4g}, {self.beta[size]:.4g}' for size in self.sizes)})"


class RiskCurve:
    """Straggler risk as a curve over all group sizes, p(G) = sigmoid(a + b log2 G) with b >= 0 [ours].

    The evidence per size is a discounted count of trials and of events among them; neither need be whole. (a, b) is
    the posterior mode under a Gaussian prior, with b >= 0. It is refitted from the evidence every time, which is
    therefore the whole state.

    Parameters
    ----------
    sizes : sequence of int
        Group sizes, in increasing order.
    prior_mean, prior_precision : (float, float)
        Of the intercept a and the slope b; the slope's mean is at least 0, both precisions are positive.
    rho : float
        Share of the evidence kept per step, in (0, 1].

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Examples
    --------
    >>> from sagc.posterior import RiskCurve
    >>> curve = RiskCurve((4, 8, 16))
    >>> curve.observe(4, events=20.0, trials=100.0)
    >>> curve.observe(8, events=45.0, trials=100.0)
    >>> {size: round(risk, 2) for size, risk in curve.risks.items()}
    {4: 0.21, 8: 0.45, 16: 0.71}
    """

    def __init__(
        self,
        sizes: Sequence[int],
        prior_mean: tuple[float, float] = (-2.0, 1.0),
        prior_precision: tuple[float, float] = (0.1, 0.5),
        rho: float = 0.95,
    ):
        self.sizes = tuple(sizes)
        self.prior_mean = check_pair("prior_mean", prior_mean, "finite numbers")
        check_number("prior_mean's slope", self.prior_mean[1], "at least 0 (risk grows with size)", lambda b: b >= 0)
        self.prior_precision = check_pair("prior_precision", prior_precision, "positive numbers", lambda v: v > 0)
        self.rho = check_rho(rho)
        self.events = dict.fromkeys(self.sizes, 0.0)
        self.trials = dict.fromkeys(self.sizes, 0.0)
        self._risks: dict[int, float] | None = None  # fitted on demand

    def forget(self) -> None:
        """Shrink all evidence by the factor rho."""
        self._replace(*({size: self.rho * n for size, n in counts.items()} for counts in (self.events, self.trials)))

    def observe(self, size: int, events: float, trials: float) -> None:
        """Add `events` straggler events in `trials` groups of `size` responses."""
        self._replace(
            {**self.events, size: self.events[size] + events},
            {**self.trials, size: self.trials[size] + trials},
        )

    @property
    def risks(self) -> dict[int, float]:
        """Straggler risk per size, never falling as the size grows."""
        if self._risks is None:
            x = [math.log2(size) for size in self.sizes]
            events, trials = list(self.events.values()), list(self.trials.values())
            a, b = fit_curve(x, events, trials, self.prior_mean, self.prior_precision)
            self._risks = {size: _sigmoid(a + b * place) for size, place in zip(self.sizes, x, strict=True)}
        return dict(self._risks)

    def state_dict(self) -> dict:
        """Discounted events and trials as JSON-able lists, in the order of the sizes."""
        return {"events": list(self.events.values()), "trials": list(self.trials.values())}

    def load_state_dict(self, state: Mapping) -> None:
        """Restore a `state_dict`.

        Raises
        ------
        ValueError
            If it is not one for the same number of sizes.
        """
        events, trials = (
            check_state_list(state, name, self.sizes, "a number of at least 0", lambda value: value >= 0)
            for name in ("events", "trials")
        )
        for size, some, all_ in zip(self.sizes, events, trials, strict=True):
            if some > all_:
                raise ValueError(f"state's events must be at most its trials, got {some} of {all_} for size {size}")
        self._replace(dict(zip(self.sizes, events, strict=True)), dict(zip(self.sizes, trials, strict=True)))

    def _replace(self, events: dict[int, float], trials: dict[int, float]) -> None:
        self.events, self.trials, self._risks = events, trials, None

    def __repr__(self) -> str:
        return f"RiskCurve({'; '.join(f'{size}: {risk:.3f}' for size, risk in self.risks.items())})"


def fit_curve(
    x: Sequence[float],
    events: Sequence[float],
    trials: Sequence[float],
    prior_mean: tuple[float, float],
    prior_precision: tuple[float, float],
) -> tuple[float, float]:
    """Mode (a, b), b >= 0, of sigmoid(a + b x) given events in trials at each x and a Gaussian prior [ours].

    The log posterior is strictly concave. Newton steps find its maximum; each is halved until it does not go down, so
    the ascent never diverges. If the maximum has b < 0, the best point with b >= 0 has b = 0.

    Parameters
    ----------
    x, events, trials : sequences of float
        One entry per point; 0 <= events <= trials.
    prior_mean, prior_precision : (float, float)
        Of a and b, independent.

    Returns
    -------
    (float, float)
        Intercept and slope.

    Examples
    --------
    >>> from sagc.posterior import fit_curve
    >>> a, b = fit_curve([2.0, 3.0], [10.0, 90.0], [100.0, 100.0], (-2.0, 1.0), (0.1, 0.5))
    >>> round(a, 2), round(b, 2)
    (-9.38, 3.76)
    """
    problem = list(zip(x, events, trials, strict=True)), prior_mean, prior_precision
    a, b = _climb(problem, prior_mean, slope_is_free=True)
    if b < 0:
        a, b = _climb(problem, (prior_mean[0], 0.0), slope_is_free=False)
    return a, b


def check_rho(rho) -> float:
    """`rho` as a float in (0, 1]."""
    return check_number("rho", rho, "a number above 0 and at most 1", lambda value: 0 < value <= 1)


def check_pair(name: str, pair, allowed: str, fits=lambda _: True) -> tuple[float, float]:
    """`pair` as two floats that fit.

    Raises
    ------
    ValueError
        If it is not a pair, or one of its values does not fit.
    """
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise ValueError(f"{name} must be two {allowed}, got {pair!r}")
    first, second = (check_number(f"{name}[{i}]", value, f"one of two {allowed}", fits) for i, value in enumerate(pair))
    return first, second


def check_state_list(state: Mapping, name: str, sizes: Sequence[int], allowed: str, fits) -> list[float]:
    """The list `name` of a saved state, one float per size.

    Raises
    ------
    ValueError
        If it is not a list of that length, or one of its values does not fit.
    """
    values = state[name]
    if not isinstance(values, (tuple, list)) or len(values) != len(sizes):
        raise ValueError(f"state's {name} must be a list of {len(sizes)} numbers, one per size, got {values!r}")
    return [check_number(f"state's {name}[{i}]", value, allowed, fits) for i, value in enumerate(values)]


# A ladder has a handful of sizes: plain floats are faster than arrays here, and identical on every machine.


def _climb(problem, start: tuple[float, float], slope_is_free: bool) -> tuple[float, float]:
    """Newton ascent from `start`, monotone: a step that would lower the log posterior is halved."""
    a, b = start
    height = _log_posterior(problem, a, b)
    for _ in range(MAX_NEWTON_STEPS):
        step_a, step_b = _newton_step(problem, a, b, slope_is_free)
        for _ in range(MAX_HALVINGS):
            candidate = _log_posterior(problem, a + step_a, b + step_b)
            if candidate >= height:
                break
            step_a, step_b = step_a / 2, step_b / 2
        else:  # no step goes up any more: this is the maximum, to rounding
            return a, b
        a, b, height = a + step_a, b + step_b, candidate
        if abs(step_a) + abs(step_b) < TOLERANCE:
            break
    return a, b


def _log_posterior(problem, a: float, b: float) -> float:
    points, (mean_a, mean_b), (precision_a, precision_b) = problem
    total = -0.5 * (precision_a * (a - mean_a) * (a - mean_a) + precision_b * (b - mean_b) * (b - mean_b))
    for x, events, trials in points:
        z = a + b * x
        total += events * z - trials * (max(z, 0.0) + math.log1p(math.exp(-abs(z))))  # log sigmoid, without overflow
    return total


def _newton_step(problem, a: float, b: float, slope_is_free: bool) -> tuple[float, float]:
    """Solve the 2 x 2 system around the weighted mean of x, which avoids cancellation however large the evidence."""
    points, (mean_a, mean_b), (precision_a, precision_b) = problem
    # (x, residual, weight) of the points; the prior acts as one more observation of a, and one of b.
    rows = []
    for x, events, trials in points:
        p = _sigmoid(a + b * x)
        rows.append((x, events - trials * p, trials * p * (1.0 - p)))
    residual_a, residual_b = precision_a * (mean_a - a), precision_b * (mean_b - b)
    gradient_a = residual_a + math.fsum(residual for _, residual, _ in rows)
    curvature_a = precision_a + math.fsum(weight for _, _, weight in rows)
    if not slope_is_free:
        return gradient_a / curvature_a, 0.0
    center = math.fsum(weight * x for x, _, weight in rows) / curvature_a
    gradient = residual_b - center * residual_a + math.fsum(r * (x - center) for x, r, _ in rows)
    curvature = precision_b + precision_a * center**2 + math.fsum(w * (x - center) ** 2 for x, _, w in rows)
    step_b = gradient / curvature
    return gradient_a / curvature_a - center * step_b, step_b


def _sigmoid(z: float) -> float:
    """1 / (1 + exp(-z)); one formula for both signs, so rounding never makes it fall as z grows."""
    return 1.0 / (1.0 + math.exp(-max(z, -700.0)))
