"""Clocks that are set back: files written before that are then younger than whatever is made next."""

from __future__ import annotations

import os
from pathlib import Path


def end_future(folder: Path) -> int:
    """Give every file below a folder that is from the future the time of now; how many there were.

    Snakemake takes an output that is older than its inputs for a mistake and deletes it. All such files get the same
    time, so that none becomes younger than another.

    "Now" is the time of a file touched in the folder: its file system may go by another machine's clock.
    """
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        return 0
    marker = folder / ".now"
    marker.touch()
    now = marker.stat().st_mtime_ns
    future = [path for path in folder.rglob("*") if _changed_ns(path) > now]
    for path in future:
        os.utime(path, ns=(now, now), follow_symlinks=False)
    return len(future)


def _changed_ns(path: Path) -> int:
    try:
        return path.lstat().st_mtime_ns
    except FileNotFoundError:  # another process has just removed it
        return 0
