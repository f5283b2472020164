"""The `openrlhf` stack: OpenRLHF with a group size that changes. See README.md here."""

from collections.abc import Callable
from pathlib import Path

from sagc.config.run import RunConfig
from sagc.run.folder import RunFolder
from sagc.trace import StepRecord


def check(run: RunConfig) -> None:
    """Refuse, before anything is made for it, what cannot train here. Raises UserError."""
    from openrlhf_patch import preflight

    preflight.check(run)


def train(run: RunConfig, folder: RunFolder, model: str, data: Path, on_step: Callable[[StepRecord], None]) -> None:
    """Train one run into its folder (see openrlhf_patch/launch.py)."""
    from openrlhf_patch import launch

    launch.train(run, folder, model, data, on_step)


def problems() -> list[str]:
    """Why the stack cannot run here although everything is installed: the names of upstream's that are gone."""
    from openrlhf_patch.names import missing_names

    return missing_names()
