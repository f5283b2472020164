"""One training run, whichever its stack: claim the folder, write the config, hand over to the stack."""

import contextlib
import logging
import os
from pathlib import Path

from sagc.config.run import RunConfig
from sagc.config.sections import LoggingConfig
from sagc.errors import UserError
from sagc.rewards.registry import reward_function
from sagc.run.folder import RunFolder
from sagc.run.scalars import ScalarLog
from sagc.run.scalars import check as check_logging
from sagc.run.stacks import STACKS

log = logging.getLogger("sagc")
NO_LOGGING = LoggingConfig()


def check(run: RunConfig, logging: LoggingConfig = NO_LOGGING) -> None:
    """Check that the run can be trained and logged, before anything is created for it.

    Raises
    ------
    UserError
        If it cannot.
    """
    check_logging(logging)
    try:
        reward_function(run.reward)
    except ValueError as error:
        raise UserError(str(error)) from None
    STACKS[run.cell.stack].load().check(run)


def train(
    run: RunConfig,
    folder: Path,
    model: str | Path,
    data: Path,
    logging: LoggingConfig = NO_LOGGING,
    end_orphan: bool = False,
) -> None:
    """Train one run into its folder; an interrupted run continues from its last checkpoint.

    Parameters
    ----------
    run
        The resolved run.
    folder
        The run folder (see sagc/run/folder.py).
    model
        Starting model: a local folder in Hugging Face format, or a Hub id.
    data
        JSON lines with the training prompts: `prompt`, and the columns that the reward needs.
    logging
        Where the scalars of every step go besides the trace (see sagc/run/scalars.py).
    end_orphan
        Whether to end a job of the DAG that still trains into this folder first (see `RunFolder.lock`).

    Raises
    ------
    UserError
        If the folder holds a run of another config, another process uses it, or the stack refuses the run.
    """
    place, main = RunFolder(folder), os.environ.get("RANK", "0") == "0"
    check(run, logging)
    # With several processes, the first claims the folder for all of them.
    with place.lock(end_orphan) if main else contextlib.nullcontext():
        if place.complete and place.read_config().get("hash") == run.hash:
            log.warning("%s is already trained; remove it to train it again", place.path)
            return
        if main:
            place.write_config(run)
        with ScalarLog(logging if main else NO_LOGGING, place, run) as scalars:
            STACKS[run.cell.stack].load().train(run, place, str(model), Path(data), scalars.write)
