"""JSON lines: one object per line."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sagc.errors import UserError


def read_rows(path: Path, what: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a JSON lines file, each after the place where it stands, for messages: "FILE, line N".

    Raises
    ------
    UserError
        For a file that is missing, empty or not UTF-8 text (as `what`, a noun in the plural), and for a line that is
        not a JSON object.
    """
    for place, row in read_lines(path, what):
        if row is None:
            raise UserError(f"{place}: not a JSON object")
        yield place, row


def read_lines(path: Path, what: str) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """As `read_rows`, with None for a line that is not a JSON object."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise UserError(f"{what} {path} cannot be read: {reason}") from None
    if not text:
        raise UserError(f"{what} {path} are empty")
    # Not splitlines: a JSON string may hold the other line separators of Unicode.
    for number, line in enumerate(text.removesuffix("\n").split("\n"), start=1):
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        yield f"{path}, line {number}", row if isinstance(row, dict) else None


def as_text(value: Any) -> str | None:
    """A text or a number as text, a whole number without a point: 70.0 is "70". None for anything else."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return str(int(value)) if float(value).is_integer() else str(value)
