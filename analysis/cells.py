"""How all tables, figures and pages name and order runs and arms."""

from __future__ import annotations

from typing import Any

SECTION = ["model", "algorithm", "stack"]  # arms are compared within a section
CELL = (*SECTION, "group", "seed")
REFERENCE = "16"  # the static group size that times and tokens are compared with


def natural_order(row: dict[str, Any]) -> tuple:
    """Sort key of a cell: by section, then static sizes by their number, controllers by name, and by seed."""
    group = row["group"]
    size = int(group) if group.isdigit() else float("inf")
    return (*(row[name] for name in SECTION), size, group, row["seed"])
