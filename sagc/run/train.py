"""One training run, whichever its stack: claim the folder, write the config, hand over to the stack."""

import contextlib
import importlib
import logging
import os
from pathlib import Path
from types import ModuleType

from sagc.config import RunConfig
from sagc.errors import UserError
from sagc.rewards import reward_function
from sagc.run_folder import RunFolder
from sagc.scalars import ScalarLog
from sagc.scalars import check as check_logging
from sagc.sections import LoggingConfig

log = logging.getLogger("sagc")
NOTHING = LoggingConfig()

# Stack -> module with `check(run)` and `train(run, folder, model_path, data, on_step)`; imported on use, for they are
# heavy. `on_step` is called with each step's record when it is in the trace.
STACKS = {"vanilla": "sagc.vanilla", "openrlhf": "openrlhf_patch"}


def check(run: RunConfig, logging: LoggingConfig = NOTHING) -> None:
    """Refuse what cannot be trained or logged, before anything is made for it. Raises UserError."""
    check_logging(logging)
    try:
        reward_function(run.reward)
    except ValueError as error:
        raise UserError(str(error)) from None
    _stack(run).check(run)


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
        The run folder (see sagc/run_folder.py).
    model
        Starting model: a local folder in Hugging Face format, or a Hub id.
    data
        JSON lines with the training prompts: `prompt`, and the columns that the reward needs.
    logging
        Where the scalars of every step go beside the trace (see sagc/scalars.py).
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
            _stack(run).train(run, place, str(model), Path(data), scalars.write)


def _stack(run: RunConfig) -> ModuleType:
    if run.cell.stack == "vanilla":
        from trl import import_utils

        # It samples with transformers. TRL imports vLLM wherever it is installed: 5 s, in a run that may take a minute.
        import_utils.is_vllm_available = lambda min_version=None: False
    return importlib.import_module(STACKS[run.cell.stack])
