"""Controllers by their names in configs, saved states and result paths; a new one needs a file and a line here."""

from __future__ import annotations

import inspect

from sagc.controllers.protocol import GroupSizeController
from sagc.controllers.robust import RobustSAGC
from sagc.controllers.sagc import SAGC
from sagc.controllers.static import StaticGroupSize

CONTROLLERS: dict[str, type[GroupSizeController]] = {
    controller.type: controller for controller in (StaticGroupSize, SAGC, RobustSAGC)
}
CONTROLLED = tuple(kind for kind in CONTROLLERS if kind != StaticGroupSize.type)  # those that choose a group size


def known_to(kind: str, **parameters) -> dict:
    """Only the parameters that a controller of this type accepts: `seed`, for instance, if it draws random numbers."""
    known = inspect.signature(CONTROLLERS[kind]).parameters
    return {name: value for name, value in parameters.items() if name in known}


def build_controller(kind: str, **parameters) -> GroupSizeController:
    """Build a controller by its name in configs.

    Parameters
    ----------
    kind : {"static", "sagc", "sagc-robust"}
        The type.
    **parameters
        Arguments of `StaticGroupSize`, `SAGC` or `RobustSAGC`.

    Raises
    ------
    ValueError
        If the kind or a parameter is unknown, a required one is missing, or one is outside its range.

    Examples
    --------
    >>> from sagc.controllers.registry import build_controller
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
