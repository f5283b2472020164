"""Reads JSON lines from users: one object per line, in training data, a benchmark or a log.

Lines end in LF, CRLF or CR; U+2028 and other Unicode separators are part of the line. A byte-order mark at the start of
the file is dropped, and blank lines are skipped but counted. What only Python could read is refused line by line, with
a reason: NaN and infinities, numbers beyond a float, half a surrogate pair.
"""

import codecs
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sagc.errors import UserError

MAX_DEPTH = 16  # levels of nesting in a row; building a table recurses, with many calls per level
NESTING_TYPES = {dict, list}
HALF_SURROGATE_PAIR = re.compile(r"\\u[dD][89a-fA-F]")


def read_rows(path: Path, what: str) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """The objects of a JSON lines file, each as (place for messages, "FILE, line N"; N; object).

    Raises
    ------
    UserError
        If the file is missing or empty, or `parse_object` refuses a line. The message calls the content `what`, a
        plural noun.
    """
    for place, number, row in read_lines(path, what):
        if isinstance(row, str):
            raise UserError(f"{place}: {row}")
        yield place, number, row


def read_lines(path: Path, what: str) -> Iterator[tuple[str, int, dict[str, Any] | str]]:
    """Like `read_rows`, but with the reason instead of the object for a line that `parse_object` refuses.

    Raises
    ------
    UserError
        If the file is missing or empty.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"{what} {path} cannot be read: {error.strerror}") from None
    lines = numbered_lines(content)
    if not lines:
        raise UserError(f"{what} {path} are empty")
    for number, line in lines:
        try:
            row = parse_object(line)
        except ValueError as error:
            row = str(error)
        yield f"{path}, line {number}", number, row


def numbered_lines(content: bytes) -> list[tuple[int, bytes]]:
    """The non-blank lines of a file, each with its number, from 1."""
    lines = content.removeprefix(codecs.BOM_UTF8).splitlines()  # bytes are only split at CR and LF
    return [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]


def parse_object(line: str | bytes) -> dict[str, Any]:
    """The JSON object in a line.

    Raises
    ------
    ValueError
        If there is none, or one that is refused; the message is a clause that says what is wrong.
    """
    try:
        text = line if isinstance(line, str) else line.decode("utf-8")
        row = json.loads(text, parse_float=_finite, parse_constant=_no_number)
    except UnicodeDecodeError:
        raise ValueError("not UTF-8 text") from None
    except json.JSONDecodeError:
        row = None
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except ValueError as error:
        too_long = "Exceeds the limit" in str(error)  # Python's own limit on the digits of an integer
        raise ValueError("an integer of more than 4300 digits, which could be a text" if too_long else error) from None
    if not isinstance(row, dict):
        raise ValueError("not a JSON object")
    _check_depth(row)
    if HALF_SURROGATE_PAIR.search(text):
        _check_characters(row)
    return row


def as_text(value: Any) -> str | None:
    """Text or a number as text, with no decimal point for whole numbers: 70.0 is "70". None for anything else."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)  # even beyond what a float can hold
    if not isinstance(value, float) or not math.isfinite(value):
        return None
    # Beyond 1e16 the digits would be those of the nearest float, not those in the file (6.02e23).
    return str(int(value)) if value.is_integer() and abs(value) < 1e16 else str(value)


_TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep"


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:20]}{'...' * (len(text) > 20)} is beyond the largest number, 1.8e308")
    return number


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number in JSON")


def _check_depth(row: dict[str, Any]) -> None:
    level: list[Any] = [row]
    for _ in range(MAX_DEPTH + 1):
        level = [
            child
            for parent in level
            for child in (parent.values() if type(parent) is dict else parent)
            if type(child) in NESTING_TYPES  # json.loads makes no subclasses, and a trace line has thousands of numbers
        ]
        if not level:
            return
    raise ValueError(_TOO_DEEP)


def _check_characters(row: dict[str, Any]) -> None:
    try:
        json.dumps(row, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        half = ascii(error.object[error.start])[1:-1]
        raise ValueError(f"{half} is half of a surrogate pair, which is no character") from None
