"""Controllers of the group size: static, SAGC as published, and the project's own robust SAGC.

A controller says how many responses to sample per prompt in the next rollout, and learns from the lengths of each
rollout: no rewards, gradients or model internals. It knows no trainer; any trainer uses it in three lines:

    lengths = rollout(prompts, controller.group_size)  # token counts, one sequence per group
    controller.step(lengths)
    checkpoint["controller"] = controller.state_dict()

SAGC follows Khan et al., "Faster Synchronous On-Policy RL via Straggler-Aware Group Sizing", arXiv 2606.02218, 2026.
What is marked [ours] is our choice where no published number could be found. RobustSAGC is ours as a whole.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import itertools
import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from sagc.lengths import (
    GroupLengths,
    StragglerReport,
    check_event,
    check_integer,
    check_number,
    check_tau,
    expected_events,
    straggler_report,
)
from sagc.posterior import BetaArms, RiskCurve

logger = logging.getLogger("sagc")


@contextlib.contextmanager
def without_warnings() -> Iterator[None]:
    """Silence what controllers warn of, for runs that do not take place: simulations and replays. A decorator, too."""
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


@dataclass(frozen=True)
class ControllerStatus:
    """What a controller believes after its last step.

    Attributes
    ----------
    dual_variable : float or None
        lambda of SAGC.
    budget : float or None
        b_t of RobustSAGC: the risk that it allows.
    risks : dict
        Size -> estimated straggler risk; empty for a static size, which estimates none.
    scores : dict
        Size -> what the size is chosen by: log2 G - lambda risk for SAGC, at the posterior mean; budget - risk for
        RobustSAGC, where the largest size with a score of at least 0 is the target.
    infeasible : bool
        RobustSAGC: not even the smallest size fits delta or the budget. Always False for the others, which do not look.
    """

    dual_variable: float | None = None
    budget: float | None = None
    risks: dict[int, float] = field(default_factory=dict)
    scores: dict[int, float] = field(default_factory=dict)
    infeasible: bool = False


class GroupSizeController(ABC):
    """The protocol of all controllers: ask `group_size`, roll out, give the lengths to `step`.

    Attributes
    ----------
    tau : float
        A group is a straggler event when max length / median length > tau.
    event : {"group", "step"}
        One event per group, or one over the whole rollout.
    steps : int
        Rollouts seen.
    """

    type: ClassVar[str]  # the name in configs and saved states

    def __init__(self, ladder: tuple[int, ...], start: int, tau: float, event: str):
        self._ladder = ladder
        self._start = self._group_size = start
        self.tau = check_tau(tau)
        self.event = check_event(event)
        self.steps = 0

    @property
    def group_size(self) -> int:
        """Responses per prompt of the next rollout."""
        return self._group_size

    @property
    def ladder(self) -> tuple[int, ...]:
        """Every size that may ever be played, in increasing order."""
        return self._ladder

    @property
    def parameters(self) -> dict:
        """Keyword arguments that build this controller anew, all of them, as JSON-able values."""
        return {"ladder": list(self._ladder), "start": self._start, "tau": self.tau, "event": self.event}

    def step(self, lengths) -> StragglerReport:
        """Learn from one rollout and choose the size of the next.

        Parameters
        ----------
        lengths : sequence of sequences of int
            Token counts (end token included, from the raw generation), one sequence per group, for every group
            generated: those that dynamic sampling drops cost time too. Lists, arrays, CPU tensors.

        Returns
        -------
        StragglerReport
            Group statistics of this rollout.

        Raises
        ------
        ValueError
            For invalid lengths, and for a group of another size than `group_size`: statistics of one size would be
            booked on another. The controller is then unchanged.
        """
        rollout = GroupLengths.parse(lengths)
        wrong = np.flatnonzero(rollout.sizes != self._group_size)
        if len(wrong):
            raise ValueError(
                f"lengths: group {wrong[0]} has {rollout.sizes[wrong[0]]} responses, "
                f"but the controller asked for groups of {self._group_size}"
            )
        report = straggler_report(rollout, self.tau, self.event)
        self._group_size = self._next_size(rollout, report)
        self.steps += 1
        return report

    def state_dict(self) -> dict:
        """Everything that changes, and what it was measured with, as JSON-able values that JSON keeps exactly."""
        return {
            "type": self.type,
            "ladder": list(self._ladder),
            "tau": self.tau,
            "event": self.event,
            "step": self.steps,
            "group_size": self._group_size,
        }

    def load_state_dict(self, state: Mapping) -> None:
        """Continue where the controller that wrote `state` stood: the same decisions from the same lengths.

        Parameters that steer (delta, eta, rho, ...) stay those of this controller; those that give the saved numbers
        their meaning (type, ladder, tau, event) have to agree.

        Raises
        ------
        ValueError
            If they disagree, or the state is not a whole and valid one; the controller is then unchanged.
        """
        if not isinstance(state, Mapping):
            raise ValueError(f"state must be a dictionary written by state_dict, got {type(state).__name__}")
        own = self.state_dict()
        for key in own:
            if key not in state:
                raise ValueError(f"state lacks {key!r}, so it is not one of a {self.type!r} controller")
            if key in ("type", "ladder", "tau", "event") and _plain(state[key]) != own[key]:
                raise ValueError(f"state has the {key} {state[key]!r}, but this controller has {own[key]!r}")
        loaded = copy.deepcopy(self)  # so that a state that turns out to be invalid half-way changes nothing
        loaded._load(state)
        vars(self).update(vars(loaded))

    @abstractmethod
    def status(self) -> ControllerStatus:
        """What the controller believes now."""

    @abstractmethod
    def _next_size(self, rollout: GroupLengths, report: StragglerReport) -> int:
        """Learn from a valid rollout of `group_size`; return the next size."""

    def _load(self, state: Mapping) -> None:
        """Read `state`, whose keys are complete; may raise ValueError half-way."""
        self.steps = check_integer("state's step", state["step"], "an integer of at least 0", lambda n: n >= 0)
        sizes = f"one of the ladder {list(self._ladder)}"
        self._group_size = check_integer("state's group_size", state["group_size"], sizes, self._ladder.__contains__)

    def __repr__(self) -> str:
        status = self.status()
        facts = [f"group_size={self._group_size}", f"steps={self.steps}"]
        if status.dual_variable is not None:
            facts.append(f"dual_variable={status.dual_variable:.3f}")
        if status.budget is not None:
            facts.append(f"budget={status.budget:.3f}")
        if status.infeasible:
            facts.append("infeasible")
        lines = [f"{type(self).__name__}({', '.join(facts)})"]
        if status.risks:
            lines.append("   size   risk   score")
        for size, risk in status.risks.items():
            mark = ">" if size == self._group_size else " "
            lines.append(f" {mark} {size:>4}  {risk:.3f}  {status.scores[size]:>6.3f}")
        return "\n".join(lines)


class StaticGroupSize(GroupSizeController):
    """A group size that never changes: the baseline, with the statistics of the others.

    Parameters
    ----------
    group_size : int
        At least 2, as a group's baseline needs two responses.
    tau, event
        As for `SAGC`.

    Raises
    ------
    ValueError
        For a parameter outside its range.

    Examples
    --------
    >>> from sagc import StaticGroupSize
    >>> controller = StaticGroupSize(4)
    >>> controller.step([[10, 20, 30, 90], [20, 20, 20, 40]]).straggler_rate
    0.5
    >>> controller
    StaticGroupSize(group_size=4, steps=1)
    """

    type = "static"

    def __init__(self, group_size: int, *, tau: float = 2.0, event: str = "group"):
        allowed = "an integer of at least 2 (a group's baseline needs two responses)"
        group_size = check_integer("group_size", group_size, allowed, lambda size: size >= 2)
        super().__init__((group_size,), group_size, tau, event)

    @property
    def parameters(self) -> dict:
        return {"group_size": self._start, "tau": self.tau, "event": self.event}

    def status(self) -> ControllerStatus:
        return ControllerStatus()

    def _next_size(self, rollout: GroupLengths, report: StragglerReport) -> int:
        return self._group_size


class SAGC(GroupSizeController):
    """Straggler-aware group control as published [Khan et al. 2026, arXiv 2606.02218].

    It maximises the utility log2 G under the constraint E[straggler | G] <= delta. After each step, with k straggler
    groups of n:

    1. forget: alpha_G <- alpha_0 + rho (alpha_G - alpha_0), and beta likewise, for every size [ours: every size, and
       towards the prior];
    2. observe: alpha_G += k, beta_G += n - k for the size G that was played;
    3. dual ascent: lambda <- max(0, lambda + eta (k/n - delta));
    4. select: draw p_G ~ Beta(alpha_G, beta_G) for the neighbours of the current size on the ladder and take the
       largest log2 G - lambda p_G; the smaller size wins a tie.

    Parameters
    ----------
    ladder : sequence of int
        Sizes to choose from, strictly increasing, each at least 2, and at least 3 where tau >= 2 [ours: 4, 8, 16].
    start : int
        First size, one of the ladder [ours].
    tau : float
        Above 1: a straggler event is max length / median length > tau [ours: 2].
    delta : float
        The straggler rate allowed, in (0, 1) [ours: 0.5].
    eta : float
        Step size of the dual ascent, positive [ours: 0.5].
    rho : float
        Share of the evidence kept per step, in (0, 1] [ours: 0.95].
    initial_dual : float
        First lambda, at least 0 [ours: 0].
    prior : (float, float)
        Beta prior of every size, positive [ours: 1, 1].
    radius : int
        Rungs that the size may move per step, at least 1 [paper: 1].
    event : {"group", "step"}
        One straggler event per group, or one over the whole rollout [ours: "group"; "step" saturates near 1].
    seed : int
        Of the controller's own random generator, at least 0.

    Raises
    ------
    ValueError
        For a parameter outside its range.

    Examples
    --------
    >>> from sagc import SAGC
    >>> controller = SAGC(ladder=(4, 8), start=4, seed=1)
    >>> controller.step([[10, 20, 30, 90], [20, 20, 20, 40], [9, 12, 15, 70]]).straggler_rate
    0.6666666666666666
    >>> controller.group_size
    8
    >>> controller
    SAGC(group_size=8, steps=1, dual_variable=0.083)
       size   risk   score
          4  0.600   1.950
     >    8  0.500   2.958
    """

    type = "sagc"

    def __init__(
        self,
        *,
        ladder: Sequence[int] = (4, 8, 16),
        start: int = 16,
        tau: float = 2.0,
        delta: float = 0.5,
        eta: float = 0.5,
        rho: float = 0.95,
        initial_dual: float = 0.0,
        prior: tuple[float, float] = (1.0, 1.0),
        radius: int = 1,
        event: str = "group",
        seed: int = 0,
    ):
        super().__init__(*_check_ladder(ladder, start, tau), tau, event)
        self.delta = _check_delta(delta)
        self.eta = check_number("eta", eta, "a number above 0", lambda value: value > 0)
        self.radius = check_integer("radius", radius, "an integer of at least 1", lambda value: value >= 1)
        self._arms = BetaArms(self._ladder, prior, rho)
        self._initial_dual = self._dual = _check_not_negative("initial_dual", initial_dual)
        self._seed = check_integer("seed", seed, "an integer of at least 0", lambda value: value >= 0)
        self._generator = np.random.Generator(np.random.PCG64(self._seed))

    @property
    def parameters(self) -> dict:
        return {
            **super().parameters,
            "delta": self.delta,
            "eta": self.eta,
            "rho": self._arms.rho,
            "initial_dual": self._initial_dual,
            "prior": list(self._arms.prior),
            "radius": self.radius,
            "seed": self._seed,
        }

    def status(self) -> ControllerStatus:
        risks = self._arms.means
        scores = {size: math.log2(size) - self._dual * risk for size, risk in risks.items()}
        return ControllerStatus(dual_variable=self._dual, risks=risks, scores=scores)

    def state_dict(self) -> dict:
        generator = copy.deepcopy(self._generator.bit_generator.state)
        return {**super().state_dict(), "dual_variable": self._dual, **self._arms.state_dict(), "generator": generator}

    def _next_size(self, rollout: GroupLengths, report: StragglerReport) -> int:
        self._arms.forget()
        self._arms.observe(self._group_size, report.events, report.groups)
        self._dual = max(0.0, self._dual + self.eta * (report.straggler_rate - self.delta))
        rung = self._ladder.index(self._group_size)
        neighbours = self._ladder[max(0, rung - self.radius) : rung + self.radius + 1]
        scores = [math.log2(size) - self._dual * self._arms.sample(size, self._generator) for size in neighbours]
        return neighbours[scores.index(max(scores))]

    def _load(self, state: Mapping) -> None:
        super()._load(state)
        self._dual = _check_not_negative("state's dual_variable", state["dual_variable"])
        self._arms.load_state_dict(state)
        _restore(self._generator, state["generator"])


class RobustSAGC(GroupSizeController):
    """Straggler-aware group control that settles where the published controller mixes or winds up [ours].

    Same inputs, utility and constraint as `SAGC`, but deterministic. After each step:

    1. evidence for every size up to the one played: the exact probability that a random sub-group would have been a
       straggler event (`sagc.lengths.subgroup_straggler_probability`); each group's evidence is split evenly over the
       sizes it informs and loses the factor rho per step;
    2. one risk curve p(G) = sigmoid(a + b log2 G), b >= 0, through it (`sagc.posterior.RiskCurve`), which also
       estimates sizes that are larger than the one played;
    3. budget: b_t <- clip(b_t + k_i (delta - realised rate), delta - r, delta + r) within [0, 1], a slow integral
       correction of what the curve gets wrong;
    4. target: the largest size whose risk is at most b_t, or the smallest size when none is. Move one rung towards
       it: up only if the next rung's risk is at most b_t - h, down only if the current risk exceeds b_t + h.

    While even the smallest size's risk is above delta, and above the budget where that is higher, with the same
    hysteresis, `status().infeasible` is set; a warning says so once. A budget that the correction has brought below
    delta makes no constraint infeasible.

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
        h, at least 0: a risk nearer to the budget than this moves nothing.
    budget_range : float
        r, at least 0: how far the budget may leave delta.
    event : {"group"}
        Sub-groups inform about events per group only, so "step" is refused.
    prior_mean, prior_precision : (float, float)
        Gaussian prior of a and b; the slope's mean is at least 0, precisions are positive.

    Raises
    ------
    ValueError
        For a parameter outside its range.

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
        super().__init__(*_check_ladder(ladder, start, tau), tau, event)
        if self.event != "group":
            raise ValueError(
                f"event must be 'group' for sagc-robust, got {event!r}: "
                "sub-groups of one prompt's responses do not show what a whole step of smaller groups would have done"
            )
        self.delta = _check_delta(delta)
        self.integral_gain = _check_not_negative("integral_gain", integral_gain)
        self.hysteresis = _check_not_negative("hysteresis", hysteresis)
        self.budget_range = _check_not_negative("budget_range", budget_range)
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
        """One rung towards the largest size that fits, if the risk is clear enough of the budget."""
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
        # The hysteresis of the moves, or a risk close to the budget would end and start a stretch every few steps.
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
        low, high = self._budget_bounds  # of this controller, which may steer by another delta than the saved one
        budget = check_number("state's budget", state["budget"], "a finite number", math.isfinite)
        self._budget = min(max(budget, low), high)
        if not isinstance(state["infeasible"], bool):
            raise ValueError(f"state's infeasible must be true or false, got {state['infeasible']!r}")
        self._infeasible = state["infeasible"]
        self._curve.load_state_dict(state)


CONTROLLERS: dict[str, type[GroupSizeController]] = {
    controller.type: controller for controller in (StaticGroupSize, SAGC, RobustSAGC)
}


def build_controller(kind: str, **parameters) -> GroupSizeController:
    """A controller by its name in configs.

    Parameters
    ----------
    kind : {"static", "sagc", "sagc-robust"}
        The type.
    **parameters
        Of the constructor of `StaticGroupSize`, `SAGC` or `RobustSAGC`.

    Raises
    ------
    ValueError
        For an unknown kind or parameter, naming what is allowed, and for a parameter outside its range.

    Examples
    --------
    >>> from sagc.controller import build_controller
    >>> build_controller("static", group_size=8)
    StaticGroupSize(group_size=8, steps=0)
    """
    if not isinstance(kind, str) or kind not in CONTROLLERS:
        raise ValueError(f"kind must be one of {', '.join(map(repr, CONTROLLERS))}, got {kind!r}")
    allowed = inspect.signature(CONTROLLERS[kind]).parameters
    for name in parameters:
        if name not in allowed:
            raise ValueError(f"unknown parameter {name!r} of controller {kind!r}; allowed are {', '.join(allowed)}")
    for name, parameter in allowed.items():
        if parameter.default is parameter.empty and name not in parameters:
            raise ValueError(f"controller {kind!r} needs the parameter {name!r}")
    return CONTROLLERS[kind](**parameters)


def _check_ladder(ladder: Sequence[int], start: int, tau: float) -> tuple[tuple[int, ...], int]:
    if not isinstance(ladder, Sequence) or isinstance(ladder, str) or len(ladder) == 0:
        raise ValueError(f"ladder must be a list of at least one group size, got {ladder!r}")
    smallest, why = 2, "a group's baseline needs two responses"
    if check_tau(tau) >= 2:
        smallest, why = 3, "max / median of two responses stays below 2, so with this tau they are never an event"
    allowed = f"an integer of at least {smallest} ({why})"
    sizes = tuple(
        check_integer(f"ladder[{i}]", size, allowed, lambda size: size >= smallest) for i, size in enumerate(ladder)
    )
    if any(a >= b for a, b in itertools.pairwise(sizes)):
        raise ValueError(f"ladder must be strictly increasing, got {list(sizes)}")
    return sizes, check_integer("start", start, f"one of the ladder {list(sizes)}", sizes.__contains__)


def _check_delta(delta) -> float:
    return check_number("delta", delta, "a straggler rate between 0 and 1, both excluded", lambda value: 0 < value < 1)


def _check_not_negative(name: str, value) -> float:
    return check_number(name, value, "a number of at least 0", lambda value: value >= 0)


def _restore(generator: np.random.Generator, state) -> None:
    """Set the state of a PCG64 generator; a ValueError unless it then has exactly that state.

    Its 128-bit integers come back as floats from JSON writers other than Python's, with their lower bits lost.
    """
    try:
        generator.bit_generator.state = state
        exact = generator.bit_generator.state == state and all(type(word) is int for word in state["state"].values())
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):  # whatever NumPy makes of it
        exact = False
    if not exact:
        raise ValueError("state's generator must be the state of a PCG64 generator, with integers kept exactly")


def _plain(value):
    """Tuples as lists, as JSON has them."""
    return list(value) if isinstance(value, tuple) else value
