"""Handles clocks that were set back, after which older files appear newer than anything made next."""

from __future__ import annotations

import os
from pathlib import Path


def end_future(folder: Path) -> int:
    """Give all files below a folder that are dated in the future the current time; returns how many there were.

    Snakemake takes an output older than its inputs for a mistake and deletes it. All such files get the same time, so
    none becomes newer than another.

    "Now" is the time of a file touched in the folder, because its file system may use another machine's clock.
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
