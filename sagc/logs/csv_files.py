"""A plain CSV with a line per response: step, group, length and, if there is one, reward."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from sagc.errors import UserError
from sagc.logs.form import Log, LoggedStep, group_matrix

COLUMNS = ("step", "group", "length")


def read(path: Path, limit: int | None) -> Log:
    """Read a CSV, compressed or not.

    `group` is any name that is the same for the responses of one prompt in one step; `step` is a whole number. A
    further column `reward` may have empty cells.

    Raises
    ------
    UserError
        For a file that is no CSV, missing columns, cells that are no numbers, and lengths that are none (see
        `group_matrix`).
    """
    import pandas as pd

    try:
        table = pd.read_csv(path, dtype={"group": str}, skip_blank_lines=False)
    except (pd.errors.ParserError, UnicodeDecodeError, pd.errors.EmptyDataError, EOFError) as error:
        raise UserError(f"{path} is not a CSV: {str(error).strip()}") from None
    if missing := [name for name in COLUMNS if name not in table]:
        raise UserError(f"{path} lacks the column {missing[0]}; it needs {', '.join(COLUMNS)}, and may have reward")
    table.index += 2  # the lines of the file; the header is the first
    table = table.dropna(how="all")  # blank lines
    has_rewards = "reward" in table
    for name in ("step", "length", *["reward"] * has_rewards):
        try:
            numbers = pd.to_numeric(table[name], errors="coerce").astype(float)
        except OverflowError:  # an integer of hundreds of digits
            numbers = table[name].map(_as_float)
        bad = ~np.isfinite(numbers) & (table[name].notna() if name == "reward" else True)
        if name == "step":
            bad |= numbers != np.floor(numbers)
        if bad.any():
            line = int(bad.idxmax())
            kind = "a whole number" if name == "step" else "a number"
            raise UserError(f"{path}, line {line}: {name} is {str(table[name][line])[:40]}, which is not {kind}")
        table[name] = numbers
    if table["group"].isna().any():
        raise UserError(f"{path}, line {int(table['group'].isna().idxmax())}: there is no group")
    steps = []
    for number, rows in table.groupby("step", sort=True):
        where = f"step {number:g} of {path}"
        groups = [group for _, group in rows.groupby("group", sort=False)]
        lengths = group_matrix(where, [group["length"].tolist() for group in groups], limit)
        rewards = pd.concat(groups)["reward"].to_numpy(float).reshape(lengths.shape) if has_rewards else None
        steps.append(LoggedStep(int(number), lengths, rewards, (len(lengths),), len(lengths)))
    return Log(str(path), steps, [_WHAT_A_TABLE_LACKS], limit)


def _as_float(value: object) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


_WHAT_A_TABLE_LACKS = (
    "A CSV has no timings, so there are no hours; the groups of a step are taken to be one round of generation, "
    "without dynamic sampling, and prompts per step to stay as they are."
)
