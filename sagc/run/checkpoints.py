"""Whole checkpoints: sealed with the checksums of their files, and checked before a run resumes from one."""

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from sagc.system.files import write_atomically

log = logging.getLogger("sagc")

TRACE = "trace.jsonl"
SEAL = "COMPLETE"  # the last file written to a checkpoint; if it is missing, the process died while saving


def seal(folder: Path) -> None:
    """Mark a checkpoint as whole: on return, its files are on disk and the seal holds their checksums."""
    files = _files(folder)
    content = {name: _checksum(path, sync=True) for name, path in files.items()}
    for path in {folder, *(path.parent for path in files.values())}:
        _sync_folder(path)
    write_atomically(folder / SEAL, json.dumps(content, indent=0) + "\n")
    _sync_folder(folder)


def damage(folder: Path) -> str | None:
    """What is wrong with a checkpoint, in words; None if it is whole. Reads every file."""
    try:
        sealed = json.loads((folder / SEAL).read_text(encoding="utf-8"))
        wanted = {str(name): str(checksum) for name, checksum in sealed.items()}
    except FileNotFoundError:
        return "it was not written to its end"
    except (OSError, ValueError, AttributeError) as error:
        return f"its {SEAL} cannot be read ({type(error).__name__})"
    for name, checksum in wanted.items():
        try:
            found = _checksum(folder / name)
        except FileNotFoundError:
            return f"its file {name} is missing"
        except OSError as error:
            return f"its file {name} cannot be read ({error.strerror})"
        if found != checksum:
            return f"its file {name} is not what was written"
    return None


def save_trace(folder: Path, trace: Path) -> None:
    """Copy the trace into a checkpoint and seal it: a failed job of the DAG may lose the run's own trace."""
    shutil.copyfile(trace, folder / TRACE)
    seal(folder)


def restore(checkpoints: Path, prefix: str, trace: Path) -> Path | None:
    """Find a run's last whole checkpoint and put the trace back to that point; None if the run starts over.

    Later checkpoints, half-written or damaged, are removed, as is everything in the trace after the checkpoint: those
    steps will be repeated.
    """
    checkpoint = keep_last_whole(newest_first(checkpoints, prefix))
    trace.unlink(missing_ok=True)
    if checkpoint is not None:
        shutil.copyfile(checkpoint / TRACE, trace)
    return checkpoint


def newest_first(checkpoints: Path, prefix: str) -> list[Path]:
    """The subfolders PREFIX<number> of a folder, ordered by number rather than by time."""
    return sorted(checkpoints.glob(f"{prefix}*"), key=lambda path: number(path, prefix), reverse=True)


def number(checkpoint: Path, prefix: str) -> int:
    """The number after the prefix of a checkpoint's name: optimizer steps or rollouts done."""
    return int(checkpoint.name.removeprefix(prefix))


def keep_last_whole(folders: Iterable[Path]) -> Path | None:
    """Remove a run's checkpoints, latest first, up to the first whole one, and return that one.

    A warning names the sealed checkpoints that are damaged, and the one from which the run continues instead.
    """
    lost: list[str] = []
    for folder in folders:
        problem = damage(folder)
        if problem is None:
            _tell(lost, f"the run goes on from {folder.name}")
            return folder
        if (folder / SEAL).exists():  # a half-written one is just what a kill leaves behind
            lost.append(f"checkpoint {folder} is damaged, {problem}")
        shutil.rmtree(folder)
    _tell(lost, "the run starts anew")
    return None


def _tell(lost: list[str], instead: str) -> None:
    if lost:
        log.warning("%s: %s", "; ".join(lost), instead)


def _files(folder: Path) -> dict[str, Path]:
    return {
        path.relative_to(folder).as_posix(): path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path != folder / SEAL
    }


def _checksum(path: Path, sync: bool = False) -> str:
    """SHA-256; with `sync`, also flushes the file to disk."""
    with open(path, "rb") as file:
        if sync:
            os.fsync(file.fileno())
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync_folder(folder: Path) -> None:
    """Flush a folder to disk: file names are only safe once their folder is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
