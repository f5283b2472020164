"""Straggler-aware group control that settles [ours]."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from sagc.controllers.checks import check_delta, check_ladder, check_not_negative
from sagc.controllers.protocol import ControllerStatus, GroupSizeController, logger
from sagc.lengths import GroupLengths, StragglerReport, check_number, expected_events
from sagc.posterior import RiskCurve


class RobustSAGC(GroupSizeController):
    """Straggler-aware group control that settles where the published controller mixes or winds up [ours].

    Same inputs, utility and constraint as `SAGC`, but deterministic. After each step:

    1. evidence for every size up to the one played: the exact probability that a random sub-group would have been a
       straggler event (`sagc.lengths.subgroup_straggler_probability`); each group's evidence is split evenly over the
       sizes it informs and decays by the factor rho per step;
    2. one risk curve p(G) = sigmoid(a + b log2 G), b >= 0, is fitted to it (`sagc.posterior.RiskCurve`), which also
       estimates sizes larger than the one played;
    3. budget: b_t <- clip(b_t + k_i (delta - realised rate), delta - r, delta + r) within [0, 1], a slow integral
       correction of the curve's errors;
    4. target: the largest size with a risk of at most b_t, or the smallest size if there is none. Move one rung
       towards it: up only if the next rung's risk is at most b_t - h, down only if the current risk exceeds b_t + h.

    While even the smallest size's risk exceeds both delta and the budget, with the same hysteresis,
    `status().infeasible` is set, with one warning. A budget that the correction has pushed below delta does not make
    the constraint infeasible.

    Parameters
    ----------
    ladder : sequence of int
        Sizes to choose from, strictly increasing, each at least 2, and at least 3 where tau >= 2.
    start : int
        First size, one of the ladder.
    tau : float
        Above 1: a straggler event is max length / median length > tau.
    delta : float
        The straggler rate to hold, in (0, 1).
    rho : float
        Share of the evidence kept per step, in (0, 1].
    integral_gain : float
        k_i, at least 0.
    hysteresis : float
        h, at least 0: a risk closer to the budget than this causes no move.
    budget_range : float
        r, at least 0: how far the budget may stray from delta.
    event : {"group"}
        Sub-groups only tell about events per group, so "step" is refused.
    prior_mean, prior_precision : (float, float)
        Gaussian prior of a and b; the slope's mean is at least 0, both precisions are positive.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Examples
    --------
    >>> from sagc import RobustSAGC
    >>> controller = RobustSAGC(ladder=(4, 8, 16), start=4, delta=0.4)
    >>> responses = [18, 22, 14, 31, 16, 12, 25, 20, 30, 11, 20, 13, 64, 17, 15, 19]
    >>> for _ in range(10):
    ...     report = controller.step([responses[: controller.group_size]] * 8)
    >>> controller
    RobustSAGC(group_size=8, steps=10, budget=0.550)
       size   risk   score
          4  0.037   0.513
     >    8  0.173   0.377
         16  0.529   0.021
    """

    type = "sagc-robust"

    def __init__(
        self,
        *,
        ladder: Sequence[int] = (4, 6, 8, 12, 16),
        start: int = 8,
        tau: float = 2.0,
        delta: float = 0.5,
        rho: float = 0.95,
        integral_gain: float = 0.1,
        hysteresis: float = 0.03,
        budget_range: float = 0.15,
        event: str = "group",
        prior_mean: tuple[float, float] = (-2.0, 1.0),
        prior_precision: tuple[float, float] = (0.1, 0.5),
    ):
        super().__init__(*check_ladder(ladder, start, tau), tau, event)
        if self.event != "group":
            raise ValueError(
                f"event must be 'group' for sagc-robust, got {event!r}: "
                "sub-groups of one prompt's responses cannot show what a whole step of smaller groups would have done"
            )
        self.delta = check_delta(delta)
        self.integral_gain = check_not_negative("integral_gain", integral_gain)
        self.hysteresis = check_not_negative("hysteresis", hysteresis)
        self.budget_range = check_not_negative("budget_range", budget_range)
        self._curve = RiskCurve(self._ladder, prior_mean, prior_precision, rho)
        self._budget = self.delta
        self._infeasible = False

    @property
    def parameters(self) -> dict:
        return {
            **super().parameters,
            "delta": self.delta,
            "rho": self._curve.rho,
            "integral_gain": self.integral_gain,
            "hysteresis": self.hysteresis,
            "budget_range": self.budget_range,
            "prior_mean": list(self._curve.prior_mean),
            "prior_precision": list(self._curve.prior_precision),
        }

    def status(self) -> ControllerStatus:
        risks = self._curve.risks
        scores = {size: self._budget - risk for size, risk in risks.items()}
        return ControllerStatus(budget=self._budget, risks=risks, scores=scores, infeasible=self._infeasible)

    def state_dict(self) -> dict:
        return {
            **super().state_dict(),
            "budget": self._budget,
            "infeasible": self._infeasible,
            **self._curve.state_dict(),
        }

    def _next_size(self, rollout: GroupLengths, report: StragglerReport) -> int:
        informed = [size for size in self._ladder if size <= self._group_size]
        self._curve.forget()
        for size in informed:
            events = expected_events(rollout, size, self.tau)
            self._curve.observe(size, events / len(informed), report.groups / len(informed))
        low, high = self._budget_bounds
        budget = self._budget + self.integral_gain * (self.delta - report.straggler_rate)
        self._budget = min(max(budget, low), high)
        risks = self._curve.risks
        self._flag_infeasible(risks)
        return self._move(risks)

    def _move(self, risks: dict[int, float]) -> int:
        """One rung towards the largest size that fits, if the risk is far enough from the budget."""
        fitting = [size for size in self._ladder if risks[size] <= self._budget]
        target = max(fitting, default=self._ladder[0])
        rung = self._ladder.index(self._group_size)
        if target > self._group_size:
            above = self._ladder[rung + 1]
            return above if risks[above] <= self._budget - self.hysteresis else self._group_size
        if target < self._group_size and risks[self._group_size] > self._budget + self.hysteresis:
            return self._ladder[rung - 1]
        return self._group_size

    def _flag_infeasible(self, risks: dict[int, float]) -> None:
        smallest = self._ladder[0]
        # The same hysteresis as for moves: without it, a risk close to the budget would toggle this every few steps.
        margin = -self.hysteresis if self._infeasible else self.hysteresis
        infeasible = risks[smallest] > max(self.delta, self._budget) + margin
        if infeasible and not self._infeasible:
            logger.warning(
                "constraint infeasible: even groups of %d have a straggler risk of %.2f, above delta %.2f and the "
                "budget of %.2f; using the smallest size until one fits",
                *(smallest, risks[smallest], self.delta, self._budget),
            )
        self._infeasible = infeasible

    @property
    def _budget_bounds(self) -> tuple[float, float]:
        return max(0.0, self.delta - self.budget_range), min(1.0, self.delta + self.budget_range)

    def _load(self, state: Mapping) -> None:
        super()._load(state)
        low, high = self._budget_bounds  # this controller's: its delta may differ from the saved one's
        budget = check_number("state's budget", state["budget"], "a finite number", math.isfinite)
        self._budget = min(max(budget, low), high)
        if not isinstance(state["infeasible"], bool):
            raise ValueError(f"state's infeasible must be true or false, got {state['infeasible']!r}")
        self._infeasible = state["infeasible"]
        self._curve.load_state_dict(state)
