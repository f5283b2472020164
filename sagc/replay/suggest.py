"""Values of tau, delta and eta for a run, from the log of its first steps or of a run like it [ours]."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import yaml

from sagc.controllers.registry import CONTROLLED, known_to
from sagc.errors import UserError
from sagc.logs import Log
from sagc.replay.estimate import Estimate, estimate_static, replay

LADDER = (4, 8, 16)
TAUS = (1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0)
USUAL_TAU = 2.0
MARGIN = 0.03  # the hysteresis of sagc-robust: risks nearer to the budget than this do not move it


@dataclass(frozen=True)
class Suggestion:
    """Values, and why: a plain sentence or two each."""

    tau: float
    delta: float
    eta: float
    reasons: list[str]

    @property
    def config(self) -> str:
        """The sections straggler and controllers of a config file."""
        tau = int(self.tau) if self.tau == int(self.tau) else self.tau
        return yaml.safe_dump(
            {"straggler": {"tau": tau}, "controllers": _for_all(self.delta, self.eta)}, sort_keys=False
        )


def _for_all(delta: float, eta: float) -> dict[str, dict[str, float]]:
    """The parameters of every controller."""
    return {kind: known_to(kind, delta=delta, eta=eta) for kind in CONTROLLED}


def suggest(log: Log, steps: int | None = None) -> Suggestion:
    """Values for a run of `steps` steps whose lengths are like those of the log.

    tau is the one with the largest smallest difference between the straggler rates of neighbouring sizes of the ladder
    4, 8, 16 (as far as the log answers it): the controllers see a size's risk and nothing else. Where 2 is nearly as
    good it stays 2. delta is halfway between the rates of the smallest size and of the next, and above what the
    smallest size's rate may be in another run: below that no size fits, and lambda grows without bound. eta is the step
    size of online gradient descent for a known horizon (Zinkevich 2003): distance over gradient over the root of steps.
    The distance is the price lambda at which the ends of the ladder are worth the same, the gradient how far the rate
    of the largest size, which is played first, is above delta.

    Parameters
    ----------
    log : Log
        At least four steps.
    steps : int, optional
        Of the run. None: as the run's config says, or as many as the log has.

    Raises
    ------
    UserError
        For a log that answers one size of the ladder only, has too few steps, or has sizes that no tau sets apart.
    """
    ladder = [size for size in LADDER if size <= log.sizes[0]]
    if len(ladder) < 2:
        raise UserError(f"{log.path} has groups of {log.sizes[0]}; a suggestion needs groups of at least {LADDER[1]}")
    steps, horizon = _horizon(log, steps)
    rates = {tau: [estimate_static(log, tau, size) for size in ladder] for tau in TAUS}
    tau = max(TAUS, key=lambda tau: (round(_least_gap(rates[tau]), 2), -abs(tau - USUAL_TAU)))
    if _least_gap(rates[USUAL_TAU]) >= 0.9 * _least_gap(rates[tau]):
        tau = USUAL_TAU
    chosen = rates[tau]
    delta, why_delta = _delta(log, ladder, chosen)
    eta, why_eta = _eta(ladder, chosen, delta, steps, horizon)
    reasons = [_why_tau(ladder, rates, tau), why_delta, why_eta]
    return Suggestion(tau, delta, eta, [*reasons, _tried(log, tau, delta, eta)])


def _horizon(log: Log, steps: int | None) -> tuple[int, str]:
    if steps is not None:
        return steps, "as given"
    if configured := log.run.get("training", {}).get("steps"):
        return configured, "as config.json says"
    return len(log.steps), "as many as the log has; --steps gives another number"


def _rate(estimate: Estimate) -> float:
    return estimate.values["straggler_rate"]


def _least_gap(estimates: list[Estimate]) -> float:
    return min(_rate(larger) - _rate(smaller) for smaller, larger in itertools.pairwise(estimates))


def _percent(estimates: list[Estimate]) -> str:
    *first, last = (f"{100 * _rate(estimate):.0f} %" for estimate in estimates)
    return f"{', '.join(first)} and {last}"


def _why_tau(ladder: list[int], rates: dict[float, list[Estimate]], tau: float) -> str:
    sizes = f"{', '.join(map(str, ladder[:-1]))} and {ladder[-1]}"
    why = f"tau {tau:g}: groups of {sizes} are straggler events in {_percent(rates[tau])} of cases; "
    if tau == USUAL_TAU:
        return why + "no other tau sets them apart much better, and a controller knows sizes by nothing else."
    why += f"of {', '.join(f'{each:g}' for each in TAUS)} it sets them apart most evenly (tau 2: "
    return why + f"{_percent(rates[USUAL_TAU])}). Rates of runs with another tau cannot be compared with it."


def _delta(log: Log, ladder: list[int], rates: list[Estimate]) -> tuple[float, str]:
    smallest, second = rates[0], rates[1]
    upper = smallest.intervals["straggler_rate"][1]
    if math.isnan(upper):
        raise UserError(f"{log.path} has {len(log.steps)} steps, too few to know how far its rates vary")
    halfway = (_rate(smallest) + _rate(second)) / 2
    delta = math.ceil(round(100 * max(halfway, upper + MARGIN), 6)) / 100
    if delta >= _rate(rates[-1]):
        raise UserError(f"{log.path} has sizes that are not far enough apart for a budget, with any tau")
    why = (
        f"delta {delta:g}: groups of {ladder[0]} have a rate of {_rate(smallest):.2f}, up to {upper:.2f} in another "
        "run with such lengths, and with a budget below that no size fits. "
    )
    if halfway > upper + MARGIN:
        why += f"It is halfway to the {_rate(second):.2f} of groups of {ladder[1]}: room for the lengths to drift."
    else:
        why += f"It is that and {MARGIN:g} more, the hysteresis of sagc-robust."
    return delta, why


def _eta(ladder: list[int], rates: list[Estimate], delta: float, steps: int, horizon: str) -> tuple[float, str]:
    excess = _rate(rates[-1]) - delta
    spread = _rate(rates[-1]) - _rate(rates[0])
    price = math.log2(ladder[-1] / ladder[0]) / spread
    eta = float(f"{price / excess / math.sqrt(steps):.2g}")
    why = (
        f"eta {eta:g}: groups of {ladder[0]} and of {ladder[-1]} are worth the same at the price lambda = "
        f"log2({ladder[-1]}/{ladder[0]}) / {spread:.2f} = {price:.1f}; groups of {ladder[-1]} raise it by eta x "
        f"{excess:.2f} per step, so that it is reached after {price / excess / eta:.0f} steps, about the root of "
        f"{steps} ({horizon})."
    )
    return eta, why


def _tried(log: Log, tau: float, delta: float, eta: float) -> str:
    found = replay(log, tau, _for_all(delta, eta)).estimates
    said = [
        f"{each.arm} has a straggler rate of {_rate(each):.2f} at a mean group size of {each.mean_group_size:.1f}"
        for each in found
        if not each.arm.isdecimal()
    ]
    return f"Replayed over this log with these values, {' and '.join(said)}."
