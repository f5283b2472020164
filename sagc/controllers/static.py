"""A group size that never changes."""

from __future__ import annotations

from sagc.controllers.protocol import ControllerStatus, GroupSizeController
from sagc.lengths import GroupLengths, StragglerReport, check_integer


class StaticGroupSize(GroupSizeController):
    """A group size that never changes: the baseline, with the same statistics as the other controllers.

    Parameters
    ----------
    group_size : int
        At least 2, because a group's baseline needs two responses.
    tau, event
        As for `SAGC`.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

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
