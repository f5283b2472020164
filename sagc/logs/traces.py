"""Our own trace.jsonl, which has everything; config.json beside it says what the run was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sagc.errors import UserError
from sagc.logs.form import Log, LoggedStep, group_matrix
from sagc.run.folder import OLDER, RunFolder, is_older
from sagc.trace import StepRecord, read_trace

NAME = "trace.jsonl"


def read(path: Path, limit: int | None) -> Log:
    """Read a trace, finished or not; a half-written last line is left out.

    Parameters
    ----------
    path : Path
        The file.
    limit : int or None
        Most tokens that a response may have; None: what config.json says, if it is there.

    Raises
    ------
    UserError
        For a line that is no step record, and for lengths that are none (see `group_matrix`).
    """
    run, notes = _run_of(path)
    limit = limit or run.get("training", {}).get("max_response_tokens")
    try:
        steps = [_step(path, record, limit) for record in read_trace(path)]
    except ValueError as error:
        raise UserError(str(error)) from None
    sampling = run.get("algorithm", {}).get("dynamic_sampling")
    max_rounds = sampling["max_rounds"] if sampling else None
    if not run:
        notes.append(f"There is no config.json beside {path}: hold: prompts is assumed, and the limit is not known.")
        most = max((len(step.rounds) for step in steps), default=1)
        if most > 1 or any(step.record.filtered_groups for step in steps):
            max_rounds = most
            notes.append(f"Dynamic sampling is assumed to have at most {most} rounds, the most that a step had.")
    if run.get("straggler", {}).get("event") == "step":
        notes.append("The run counted one straggler event per step; here it is one per group.")
    return Log(str(path), steps, notes, limit, max_rounds, run.get("training", {}).get("hold", "prompts"), run)


def _run_of(path: Path) -> tuple[dict[str, Any], list[str]]:
    """What config.json beside the trace says of the run, and what is to be said of that."""
    place = RunFolder(path.parent)
    if not place.config.exists():
        return {}, []
    content = place.read_config()
    notes = [f"{place.path} is {OLDER}; here it has today's."] if is_older(content) else []
    return content.get("run", {}), notes


def _step(path: Path, record: StepRecord, limit: int | None) -> LoggedStep:
    where = f"step {record.step} of {path}"
    lengths = group_matrix(where, record.lengths, limit)
    try:
        rewards = np.array(record.rewards, dtype=np.float64)  # None becomes NaN
    except (TypeError, ValueError):
        rewards = np.empty(())
    if rewards.shape != lengths.shape:
        raise UserError(f"{where} has rewards that are not one number per response")
    return LoggedStep(record.step, lengths, rewards, tuple(record.rounds), record.kept_groups, record)
