"""Training prompts: JSON lines, one prompt each, with the columns that the reward reads."""

import json
from pathlib import Path
from typing import Any

from sagc.errors import UserError


def read_prompts(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSON lines file; `prompt` is text, or a list of chat messages.

    Raises
    ------
    UserError
        For a file that is missing, empty or not UTF-8 text, and for a line that is not JSON or has no prompt.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise UserError(f"training data {path} does not exist or is not UTF-8 text") from None
    rows = []
    # Not splitlines: a JSON string may hold the other line separators of Unicode.
    for number, line in enumerate(text.removesuffix("\n").split("\n") if text else [], start=1):
        try:
            row = json.loads(line)
        except ValueError:
            raise UserError(f"{path}, line {number}: not valid JSON") from None
        if not isinstance(row, dict) or not isinstance(row.get("prompt"), str | list):
            raise UserError(f"{path}, line {number}: needs a prompt, as text or as a list of messages")
        rows.append(row)
    if not rows:
        raise UserError(f"training data {path} holds no prompts")
    return rows
