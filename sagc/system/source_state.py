"""Which state of the project's source a run was made with."""

import subprocess
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]


def source_state() -> dict[str, Any]:
    """The commit of the checkout that this package lies in, and whether the code of runs has changes in no commit.

    Empty where the package is installed without its repository, or git is missing.
    """
    commit = _git("rev-parse", "HEAD")
    if not commit or _git("ls-files", "--error-unmatch", "__init__.py") is None:  # of some other repository around it
        return {}
    changes = _git("status", "--porcelain", "--", ".", "../openrlhf_patch")
    return {"commit": commit, "changed": bool(changes)}


def _git(*arguments: str) -> str | None:
    try:
        ran = subprocess.run(["git", *arguments], cwd=HERE, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return None
    return ran.stdout.strip() if ran.returncode == 0 else None


def as_text(state: dict[str, Any]) -> str:
    """The state in words."""
    if not state.get("commit"):
        return "not known"
    return state["commit"] + (", with changes that are in no commit" if state.get("changed") else "")
