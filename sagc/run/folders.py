"""Finds the run folders of a results folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

NOT_RUNS = ("checkpoints", "kept", "model", "models")  # hold copies of traces and configs of models


def find_runs(results: Path) -> tuple[list[Path], list[str]]:
    """The run folders of a results folder, and a sentence for each nested results folder of another grid.

    A run lies at model/algorithm/stack/group/seed below its results folder. If some runs do, then runs with such a path
    below a folder in between, like those of `make quick` in results/quick, belong to another grid. A results folder
    without such paths may hold runs anywhere.
    """
    found = {path: _prefix(path.relative_to(results), cell) for path, cell in _candidates(results)}
    if "" not in found.values():
        return list(found), []
    others = sorted({prefix for prefix in found.values() if prefix})
    problems = [f"{prefix} is a results folder of its own; its runs are left out here" for prefix in others]
    return [path for path, prefix in found.items() if not prefix], problems


def _candidates(results: Path) -> list[tuple[Path, dict[str, Any]]]:
    """Every folder with a config.json or a trace, and the cell named in the config."""
    files = [path for name in ("config.json", "trace.jsonl") for path in results.rglob(name)]
    folders = sorted({path.parent for path in files if not set(path.relative_to(results).parts) & set(NOT_RUNS)})
    return [(folder, _cell(folder / "config.json")) for folder in folders]


def _cell(config: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(config.read_text(encoding="utf-8"))["run"]["cell"])
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _prefix(relative: Path, cell: dict[str, Any]) -> str | None:
    """The folders between the results folder and the run's usual path; None if the run is not at such a path."""
    usual = Path(*(str(cell.get(name)) for name in ("model", "algorithm", "stack", "group")), f"seed{cell.get('seed')}")
    if relative.parts[-len(usual.parts) :] != usual.parts:
        return None
    return "/".join(relative.parts[: -len(usual.parts)])
