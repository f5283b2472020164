"""What all group-size controllers have in common.

A controller says how many responses to sample per prompt in the next rollout, and learns from the lengths of each
rollout: no rewards, gradients or model internals. It knows no trainer; any trainer uses it in three lines:

    lengths = rollout(prompts, controller.group_size)  # token counts, one sequence per group
    controller.step(lengths)
    checkpoint["controller"] = controller.state_dict()
"""

from __future__ import annotations

import contextlib
import copy
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from sagc.lengths import GroupLengths, StragglerReport, check_event, check_integer, check_tau, straggler_report

logger = logging.getLogger("sagc")


@contextlib.contextmanager
def without_warnings() -> Iterator[None]:
    """Silence controller warnings in simulations and replays, where no real run is at stake. Also a decorator."""
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
        b_t of RobustSAGC: the risk it allows.
    risks : dict
        Size -> estimated straggler risk; empty for a static size, which estimates none.
    scores : dict
        Size -> the score it is chosen by: log2 G - lambda risk for SAGC, at the posterior mean; budget - risk for
        RobustSAGC, whose target is the largest size with a score of at least 0.
    infeasible : bool
        RobustSAGC: not even the smallest size fits delta or the budget. Always False for the others, which don't check.
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
        """Every size the controller may choose, in increasing order."""
        return self._ladder

    @property
    def parameters(self) -> dict:
        """All keyword arguments that rebuild this controller, as JSON-able values."""
        return {"ladder": list(self._ladder), "start": self._start, "tau": self.tau, "event": self.event}

    def step(self, lengths) -> StragglerReport:
        """Learn from one rollout and choose the next size.

        Parameters
        ----------
        lengths : sequence of sequences of int
            Token counts (end token included, from the raw generation), one sequence per group, for every group
            generated: groups that dynamic sampling drops cost time too. Lists, arrays or CPU tensors.

        Returns
        -------
        StragglerReport
            Statistics of this rollout's groups.

        Raises
        ------
        ValueError
            If the lengths are invalid or a group is not of `group_size`, since its statistics would be credited to
            the wrong size. The controller is then unchanged.
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
        """Everything that changes, and the settings it was measured with, as values that survive JSON exactly."""
        return {
            "type": self.type,
            "ladder": list(self._ladder),
            "tau": self.tau,
            "event": self.event,
            "step": self.steps,
            "group_size": self._group_size,
        }

    def load_state_dict(self, state: Mapping) -> None:
        """Continue from where the controller that wrote `state` left off: same lengths, same decisions.

        This controller keeps its own steering parameters (delta, eta, rho, ...); the parameters that give the saved
        numbers their meaning (type, ladder, tau, event) must match.

        Raises
        ------
        ValueError
            If they do not match, or the state is incomplete or invalid; the controller is then unchanged.
        """
        if not isinstance(state, Mapping):
            raise ValueError(f"state must be a dictionary written by state_dict, got {type(state).__name__}")
        own = self.state_dict()
        for key in own:
            if key not in state:
                raise ValueError(f"state lacks {key!r}, so it is not from a {self.type!r} controller")
            if key in ("type", "ladder", "tau", "event") and _plain(state[key]) != own[key]:
                raise ValueError(f"state has {key} {state[key]!r}, but this controller has {own[key]!r}")
        loaded = copy.deepcopy(self)  # a copy: a state that proves invalid half-way changes nothing
        loaded._load(state)
        vars(self).update(vars(loaded))

    @abstractmethod
    def status(self) -> ControllerStatus:
        """What the controller believes now."""

    @abstractmethod
    def _next_size(self, rollout: GroupLengths, report: StragglerReport) -> int:
        """Learn from a valid rollout of `group_size` responses per prompt; return the next size."""

    def _load(self, state: Mapping) -> None:
        """Read `state`, which has all keys; may raise ValueError half-way."""
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


def _plain(value):
    """Tuples become lists, as in JSON."""
    return list(value) if isinstance(value, tuple) else value
