"""The `openrlhf` stack: OpenRLHF with a group size that changes. Not built yet."""

from sagc.config import RunConfig
from sagc.errors import UserError


def check(run: RunConfig) -> None:
    """Raises UserError: the stack is not built yet."""
    raise UserError(f"stack {run.cell.stack!r} is not built yet; use stack 'vanilla'")
