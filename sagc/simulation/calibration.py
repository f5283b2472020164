"""The costs of a real run's steps, and how well they predict the seconds of other steps [ours]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sagc.errors import UserError
from sagc.run.folder import RunFolder
from sagc.simulation.step_time import BATCHING, StepTime, Work, fit_step_time
from sagc.trace import StepRecord, read_trace


@dataclass(frozen=True)
class Misfit:
    """How far seconds predicted from the work of steps are from those measured.

    Attributes
    ----------
    steps : int
        Compared.
    median : float
        Of |predicted - measured| / measured over the steps.
    total : float
        (Sum predicted - sum measured) / sum measured.
    """

    steps: int
    median: float
    total: float


def misfit(costs: StepTime, records: Sequence[StepRecord]) -> Misfit:
    """The misfit of these costs for the whole steps of a trace, weight sync and updates included."""
    predicted = np.array([costs.step_s(Work.of(record)) for record in records])
    measured = np.array([record.rollout_s + record.train_s + record.sync_s for record in records])
    errors = np.abs(predicted - measured) / measured
    return Misfit(len(records), float(np.median(errors)), float(predicted.sum() / measured.sum() - 1))


def held_out_misfit(traces: Sequence[Sequence[StepRecord]], batching: str) -> Misfit:
    """The misfit for the even steps of traces, of costs that were fitted to the odd ones (step 1 is odd)."""
    fitted, others = ([record for trace in traces for record in trace[first::2]] for first in (0, 1))
    return misfit(fit_step_time(fitted, batching), others)


def read_runs(folders: Sequence[str | Path]) -> tuple[list[list[StepRecord]], str]:
    """The traces of run folders, finished or not, and how their stack batches.

    Raises
    ------
    UserError
        For no folder, one without a trace of two steps or more, and runs of stacks that batch differently.
    """
    if not folders:
        raise UserError("no run folder to read a trace of")
    traces, kinds = [], set()
    for folder in map(RunFolder, folders):
        try:
            traces.append(list(read_trace(folder.trace)))
            kinds.add(BATCHING[folder.read_config()["run"]["cell"]["stack"]])
        except (OSError, ValueError) as error:
            raise UserError(f"{folder.path}: the trace cannot be read ({error})") from None
        except (KeyError, TypeError):
            raise UserError(f"{folder.config} does not name one of the stacks {', '.join(BATCHING)}") from None
        if len(traces[-1]) < 2:
            raise UserError(f"{folder.trace} has {len(traces[-1])} steps, and the costs need at least 2")
    if len(kinds) > 1:
        raise UserError("the run folders are of stacks that batch differently; take those of one stack")
    return traces, kinds.pop()
