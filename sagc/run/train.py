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
NOTHING = LoggingConfig()


def check(run: RunConfig, logging: LoggingConfig = NOTHING) -> None:
    """Refuse what cannot be trained or logged, before anything is made for it. Raises UserError."""
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
    logging: LoggingConfig = NOTHING,
    end_orphan: bool = False,
) -> None:
    """Train one run into its folder; a run that was interrupted goes on from its last checkpoint.

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
        Where the scalars of every step go beside the trace (see sagc/run/scalars.py).
    end_orphan
        Whether a job of the DAG that still trains into this folder is ended first (see `RunFolder.lock`).

    Raises
    ------
    UserError
        For a folder that holds another config's run or that another process uses, and for what the stack refuses.
    """
    place, main = RunFolder(folder), os.environ.get("RANK", "0") == "0"
    check(run, logging)
    # Of several processes the first claims the folder, for all of them.
    with place.lock(end_orphan) if main else contextlib.nullcontext():
        if place.complete and place.read_config().get("hash") == run.hash:
            log.warning("%s is trained already; remove it to train it again", place.path)
            return
        if main:
            place.write_config(run)
        with ScalarLog(logging if main else NOTHING, place, run) as scalars:
            STACKS[run.cell.stack].load().train(run, place, str(model), Path(data), scalars.write)
