"""What `sagc replay` prints: a table per log with notes below it, and the numbers as CSV."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from analysis.tables.table import MISSING, Column, Row, markdown_table
from sagc.replay.estimate import MEASURES, Replay
from sagc.system.files import write_atomically

SCALES = {"straggler_rate": 100, "idle_fraction": 100, "informative_share": 100}
DRIFT = (
    "This is a what-if on the lengths of this run: a policy trained with another group size would drift away from it."
)
INTERVALS = "In brackets: the range that would hold 95 % of other runs with such lengths."


def replay_frame(replays: Sequence[Replay]) -> pd.DataFrame:
    """One row per log and arm (see `sagc.replay.estimate.Estimate`), with X, X_low and X_high for each measure X."""
    rows = []
    for each in replays:
        for estimate in each.estimates:
            row = {"log": each.log.path, "tau": each.tau, "arm": estimate.arm, "played": estimate.played}
            row |= {name: getattr(estimate, name) for name in ("steps", "mean_group_size", "moves", "infeasible")}
            for name in MEASURES:
                row[name] = estimate.values[name]
                row[f"{name}_low"], row[f"{name}_high"] = estimate.intervals[name]
            row["hours_low"], row["hours_high"] = estimate.hours or (None, None)
            rows.append(row)
    return pd.DataFrame(rows)


def write_csv(replays: Sequence[Replay], path: Path) -> None:
    """Write the rows of all logs."""
    write_atomically(path, replay_frame(replays).to_csv(index=False))


def replay_text(replay: Replay) -> str:
    """The table of one log and the notes below it, in plain text."""
    columns = [
        Column("group", "", lambda row: row["arm"] + ", played" * row["played"]),
        Column("mean G", "", lambda row: f"{row['mean_group_size']:.1f}"),
        Column("straggler rate %", "", _with_interval("straggler_rate")),
        Column("barrier", "", _with_interval("positions")),
        Column("tokens", "", _with_interval("tokens")),
        Column("idle %", "", _with_interval("idle_fraction")),
        Column("informative %", "", _with_interval("informative_share")),
        Column("hours", "", _hours),
    ]
    frame = replay_frame([replay])
    if replay.log.max_rounds is not None:
        columns.insert(-1, Column("groups", "", lambda row: f"{row['groups']:.1f}"))
    if frame["hours_low"].isna().all():
        columns.pop()
    return f"{markdown_table(frame, columns)}\n{as_list([*_readings(replay), *replay.notes, *replay.log.notes])}"


def as_list(sentences: Sequence[str]) -> str:
    """A bulleted list, wrapped at 120 characters."""
    return "\n".join(
        textwrap.fill(each, 120, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False)
        for each in sentences
    )


def _with_interval(name: str):
    scale = SCALES.get(name, 1)
    digits = 1 if scale == 100 else 0

    def text(row: Row) -> str:
        if pd.isna(row[name]):
            return MISSING
        value, low, high = (row[f"{name}{end}"] * scale for end in ("", "_low", "_high"))
        return f"{value:.{digits}f}" + ("" if pd.isna(low) else f" [{low:.{digits}f}, {high:.{digits}f}]")

    return text


def _hours(row: Row) -> str:
    low, high = row["hours_low"], row["hours_high"]
    if pd.isna(low):
        return MISSING
    return f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"


def _readings(replay: Replay) -> list[str]:
    log = replay.log
    sizes = " to ".join(map(str, sorted({log.sizes[0], log.sizes[-1]})))
    found = [
        f"From {len(log.steps)} steps with groups of {sizes}, for tau {replay.tau:g}. Barrier: the longest response, "
        f"summed over the rounds of generation. Barrier and tokens are per step. {INTERVALS}",
        DRIFT,
    ]
    if log.max_rounds is not None:
        found.append(
            f"Dynamic sampling, at most {log.max_rounds} rounds: how many smaller groups would be regenerated, and how "
            "long they would be, is modelled from the log's rewards and lengths; the straggler rate and the "
            "informative share are counted. Groups: those generated per step."
        )
    if len(log.sizes) > 1:
        used = ", ".join(f"{each.steps} for {each.arm}" for each in replay.estimates if not each.played)
        found.append(f"A step tells about sizes up to its own: of {len(log.steps)} steps, the estimates use {used}.")
    return found
