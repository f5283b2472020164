"""Straggler-aware group control as published.

Khan et al., "Faster Synchronous On-Policy RL via Straggler-Aware Group Sizing", arXiv 2606.02218, 2026. [ours]
marks our choice where we found no published number.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence

import numpy as np

from sagc.controllers.checks import check_delta, check_ladder, check_not_negative
from sagc.controllers.protocol import ControllerStatus, GroupSizeController
from sagc.lengths import GroupLengths, StragglerReport, check_integer, check_number
from sagc.posterior import BetaArms


class SAGC(GroupSizeController):
    """Straggler-aware group control as published [Khan et al. 2026, arXiv 2606.02218].

    It maximises the utility log2 G subject to E[straggler | G] <= delta. After each step, with k straggler groups out
    of n:

    1. forget: alpha_G <- alpha_0 + rho (alpha_G - alpha_0), and beta likewise, for every size [ours: every size, and
       towards the prior];
    2. observe: alpha_G += k, beta_G += n - k for the size G that was played;
    3. dual ascent: lambda <- max(0, lambda + eta (k/n - delta));
    4. select: draw p_G ~ Beta(alpha_G, beta_G) for the current size and its neighbours on the ladder, and take the
       size with the largest log2 G - lambda p_G; the smaller size wins a tie.

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
        Rungs the size may move per step, at least 1 [paper: 1].
    event : {"group", "step"}
        One straggler event per group, or one over the whole rollout [ours: "group"; "step" saturates near 1].
    seed : int
        Seed of the controller's own random generator, at least 0.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

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
        super().__init__(*check_ladder(ladder, start, tau), tau, event)
        self.delta = check_delta(delta)
        self.eta = check_number("eta", eta, "a number above 0", lambda value: value > 0)
        self.radius = check_integer("radius", radius, "an integer of at least 1", lambda value: value >= 1)
        self._arms = BetaArms(self._ladder, prior, rho)
        self._initial_dual = self._dual = check_not_negative("initial_dual", initial_dual)
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
        self._dual = check_not_negative("state's dual_variable", state["dual_variable"])
        self._arms.load_state_dict(state)
        _restore(self._generator, state["generator"])


def _restore(generator: np.random.Generator, state) -> None:
    """Set the state of a PCG64 generator; raises ValueError unless it then has exactly that state.

    JSON writers other than Python's turn its 128-bit integers into floats and lose their low bits.
    """
    try:
        generator.bit_generator.state = state
        exact = generator.bit_generator.state == state and all(type(word) is int for word in state["state"].values())
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):  # whatever NumPy raises
        exact = False
    if not exact:
        raise ValueError("state's generator must be the state of a PCG64 generator, with integers kept exactly")
