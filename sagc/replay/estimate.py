"""Estimates, from the log of one job, of what other group sizes and the controllers would have cost [ours]."""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sagc.config.run import controller_type
from sagc.controllers.registry import CONTROLLED, CONTROLLERS, known_to
from sagc.errors import UserError
from sagc.lengths import idle_fraction
from sagc.logs import Log
from sagc.replay.arms import Arm, controller_arm, played_arm, static_arm
from sagc.replay.hours import Hours, fit_hours
from sagc.replay.intervals import Interval, Resamples, Totals
from sagc.replay.resizing import FIELDS, Rollouts

STATIC_SIZES = (4, 6, 8, 12, 16)
MEASURES: dict[str, Callable[[Totals], Any]] = {
    "straggler_rate": lambda total: total["events"] / total["groups"],
    "positions": lambda total: total["positions"] / total["steps"],
    "tokens": lambda total: total["tokens"] / total["steps"],
    "idle_fraction": lambda total: idle_fraction(total["tokens"], total["slots"]),
    "informative_share": lambda total: total["informative"] / total["groups"],
    "groups": lambda total: total["groups"] / total["steps"],
}
SHARES = ("straggler_rate", "idle_fraction", "informative_share")


@dataclass(frozen=True)
class Estimate:
    """What one arm would have been.

    Attributes
    ----------
    arm : str
        A static size, or a controller's name.
    played : bool
        The log's own size: measured, not estimated.
    steps : int
        Steps of the log that it rests on.
    mean_group_size, moves, infeasible : float
        Over these steps; moves and infeasible steps are per step.
    values : dict
        Per measure of `MEASURES`: straggler_rate, events over groups generated; positions, the longest response of
        each round, summed, and tokens, both per step; idle_fraction (see `sagc.lengths.idle_fraction`), as in
        summary.json; informative_share, of groups with unequal rewards among those generated; groups per step.
    intervals : dict
        Of the same, see `sagc.replay.intervals`; NaN where there are too few steps. What was played has none.
    hours : (float, float) or None
        The least and the most, see `sagc.replay.hours`, measured where played; None without timings.
    """

    arm: str
    played: bool
    steps: int
    mean_group_size: float
    moves: float
    infeasible: float
    values: dict[str, float]
    intervals: dict[str, Interval]
    hours: tuple[float, float] | None


@dataclass(frozen=True)
class Replay:
    """The estimates of one log, and what has to be said about them, a sentence each."""

    log: Log
    tau: float
    estimates: list[Estimate]
    notes: list[str]


def replay_all(
    logs: Sequence[Log], tau: float | None = None, delta: float | None = None, eta: float | None = None
) -> list[Replay]:
    """Every log with hours from all of them; the values for both controllers, where given. Raises as `replay`."""
    given = {name: value for name, value in (("delta", delta), ("eta", eta)) if value is not None}
    found = []
    for log, (hours, notes) in zip(logs, fit_hours(logs), strict=True):
        controllers = {kind: _parameters(log, kind) | known_to(kind, **given) for kind in CONTROLLED}
        one = replay(log, tau, controllers, hours)
        found.append(dataclasses.replace(one, notes=[*one.notes, *notes]))
    return found


def _parameters(log: Log, kind: str) -> dict[str, Any]:
    """What the log's own run had, if that controller ran it."""
    own, parameters = controller_type(log.run.get("cell", {}).get("group"), log.run.get("controller", {}))
    return {name: value for name, value in parameters.items() if name not in ("tau", "event")} if own == kind else {}


def replay(
    log: Log,
    tau: float | None = None,
    controllers: Mapping[str, Mapping[str, Any]] | None = None,
    hours: Hours | None = None,
) -> Replay:
    """Estimate every smaller static size and every controller from one log.

    Parameters
    ----------
    log : Log
        See `sagc.logs.read_log`.
    tau : float, optional
        A straggler event is max length / median length > tau. None: the run's own, or 2 [ours].
    controllers : mapping, optional
        Parameters by the controller's name; those that are not there have the library's defaults.
    hours : Hours, optional
        The costs that hours are computed with; None: no hours.

    Raises
    ------
    UserError
        For a parameter that a controller refuses, and where no size can be answered.
    """
    tau = tau or log.run.get("straggler", {}).get("tau", 2.0)
    rollouts, notes = Rollouts(log, tau), []
    sizes = answerable_sizes(log, tau)
    estimates = [_static(rollouts, size, hours) for size in sizes]
    if len(log.sizes) > 1:
        estimates.append(_measured(str(log.run.get("cell", {}).get("group", "sizes")), played_arm(rollouts), log))
    for kind in CONTROLLED:
        estimate, said = _controlled(rollouts, kind, dict((controllers or {}).get(kind, {})), hours)
        estimates += [estimate] if estimate else []
        notes += said
    return Replay(log, tau, estimates, notes)


def estimate_static(log: Log, tau: float, size: int) -> Estimate:
    """The estimate of one static size, without hours."""
    return _static(Rollouts(log, tau), size, None)


def answerable_sizes(log: Log, tau: float) -> list[int]:
    """The static sizes to estimate: the usual ones up to the largest that was played, larger ones in like steps.

    Without size 2 where it can never be an event, and with `hold: samples` only those that divide the batch.

    Raises
    ------
    UserError
        Where there is none.
    """
    largest = log.sizes[-1]
    usual = {size * 2**k for size in STATIC_SIZES for k in range(largest.bit_length())}
    sizes = [size for size in sorted(usual | set(log.sizes)) if size <= largest and _can_be_played(size, log, tau)]
    if not sizes:
        raise UserError(f"{log.path} has groups of {largest}, which can never be straggler events with tau {tau:g}")
    return sizes


def _can_be_played(size: int, log: Log, tau: float) -> bool:
    fits = log.hold == "prompts" or all(step.rounds[0] * step.size % size == 0 for step in log.steps)
    return fits and (size > 2 or tau < 2)


def _static(rollouts: Rollouts, size: int, hours: Hours | None) -> Estimate:
    log, arm = rollouts.log, static_arm(rollouts, size)
    if log.sizes == [size]:
        return _measured(str(size), arm, log)
    return _estimate(str(size), arm, hours, played=False, whole=len(log.steps) / len(arm.expected))


def _measured(name: str, arm: Arm, log: Log) -> Estimate:
    """What was played."""
    seconds = sum(record.step_s for record in log.records)
    hours = (seconds / 3600, seconds / 3600) if log.records else None
    return dataclasses.replace(_estimate(name, arm, None, played=True), hours=hours)


def _estimate(name: str, arm: Arm, hours: Hours | None, played: bool, whole: float = 1.0) -> Estimate:
    """`whole`: steps of the log over those that the arm rests on, for its hours."""
    resamples = Resamples(FIELDS, arm.expected, arm.drawn, arm.is_controller)
    total = resamples.value
    values = {measure: float(of(total)) for measure, of in MEASURES.items()}
    intervals = {}
    for measure, of in MEASURES.items():
        low, high = (math.nan, math.nan) if played else resamples.interval(of)
        if measure in SHARES:
            low, high = np.clip([low, high], 0.0, 1.0).tolist()
        intervals[measure] = low, high
    return Estimate(
        arm=name,
        played=played,
        steps=len(arm.expected),
        mean_group_size=float(total["group_size"] / total["steps"]),
        moves=arm.moves,
        infeasible=arm.infeasible,
        values=values,
        intervals=intervals,
        hours=hours and hours.range({name: amount * whole for name, amount in total.items()}),
    )


def _controlled(
    rollouts: Rollouts, kind: str, parameters: dict[str, Any], hours: Hours | None
) -> tuple[Estimate | None, list[str]]:
    """The estimate of a controller, if the log answers two sizes of its ladder, and what has to be said."""
    log = rollouts.log
    ladder = tuple(parameters.pop("ladder", _default(kind, "ladder")))
    start = parameters.pop("start", _default(kind, "start"))
    cut = tuple(size for size in ladder if size <= log.sizes[0] and _can_be_played(size, log, rollouts.tau))
    if len(cut) < 2:
        return None, [f"{kind} cannot be replayed: of its ladder {_listed(ladder)} the log answers {_listed(cut)}."]
    start = max(size for size in cut if size <= max(start, cut[0]))
    try:
        arm = controller_arm(rollouts, kind, {**parameters, "ladder": cut, "start": start})
    except ValueError as error:
        raise UserError(f"{kind}: {error}") from None
    notes = [_controller_note(kind, parameters, arm, cut[0])]
    if cut != ladder:
        notes.append(f"{kind} has the ladder {_listed(cut)}, the sizes of {_listed(ladder)} that the log answers.")
    return _estimate(kind, arm, hours, played=False), notes


def _controller_note(kind: str, parameters: Mapping[str, Any], arm: Arm, smallest: int) -> str:
    chosen = {"delta": _default(kind, "delta"), **parameters}
    values = ", ".join(f"{name} {value}" for name, value in chosen.items())
    note = f"{kind} (class {CONTROLLERS[kind].__name__}) with {values} moves {arm.moves:.2f} times per step."
    if arm.infeasible >= 0.005:
        note += f" At {100 * arm.infeasible:.0f} % of the steps even groups of {smallest} were above its delta."
    return note


def _default(kind: str, parameter: str) -> Any:
    return inspect.signature(CONTROLLERS[kind]).parameters[parameter].default


def _listed(sizes: Sequence[int]) -> str:
    return ", ".join(map(str, sizes)) or "none"
