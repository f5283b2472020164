"""The `vanilla` stack: TRL's trainer with transformers' generation. stack.py trains a run."""

from collections.abc import Callable
from pathlib import Path

from sagc.config.run import RunConfig
from sagc.run.folder import RunFolder
from sagc.trace import StepRecord


def check(run: RunConfig) -> None:
    """Check that the run can train here, before anything is created for it.

    Raises
    ------
    UserError
        If it cannot.
    """
    from sagc.vanilla import stack

    stack.check(run)


def train(run: RunConfig, folder: RunFolder, model: str, data: Path, on_step: Callable[[StepRecord], None]) -> None:
    """Train one run into its folder (see sagc/vanilla/stack.py)."""
    from sagc.vanilla import stack

    stack.train(run, folder, model, data, on_step)


def problems() -> list[str]:
    """Why the stack cannot run here even though everything is installed."""
    return []
