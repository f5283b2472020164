"""The state of the project's source code that a run was made with."""

import subprocess
from pathlib import Path
from typing import Any

PACKAGE_FOLDER = Path(__file__).resolve().parents[1]


def source_state() -> dict[str, Any]:
    """The commit of this package's checkout, and whether the code of runs has uncommitted changes.

    Empty if the package is installed without its repository, or git is missing.
    """
    commit = _git("rev-parse", "HEAD")
    if not commit or _git("ls-files", "--error-unmatch", "__init__.py") is None:  # an unrelated repository around it
        return {}
    changes = _git("status", "--porcelain", "--", ".", "../openrlhf_patch")
    return {"commit": commit, "changed": bool(changes)}


def _git(*arguments: str) -> str | None:
    try:
        ran = subprocess.run(["git", *arguments], cwd=PACKAGE_FOLDER, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return None
    return ran.stdout.strip() if ran.returncode == 0 else None


def as_text(state: dict[str, Any]) -> str:
    """The state in words."""
    if not state.get("commit"):
        return "not known"
    return state["commit"] + (", with changes that are in no commit" if state.get("changed") else "")
