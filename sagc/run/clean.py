"""Removes what can be recreated from a run folder: never the trace, which exists nowhere else."""

import shutil
from pathlib import Path

from sagc.errors import UserError
from sagc.run.folder import RunFolder

MADE_AGAIN = {  # name in the run folder -> why it can go
    "checkpoints": "only an unfinished training needs it",
    "kept": "training makes it again",
    "model": "training makes it again",
    "eval": "evaluating the model makes it again",
    "summary.json": "`sagc summarize` makes it again, once there is an evaluation",
    "tensorboard": "it was made from the trace",
    "openrlhf.log": "training writes it",
}


def removable(folder: Path) -> list[Path]:
    """What can be removed from a run, in the order of MADE_AGAIN.

    Raises
    ------
    UserError
        If the folder is not a run folder.
    """
    run = RunFolder(folder)
    if "run" not in run.read_config():
        raise UserError(f"{folder} is not a run folder: its config.json is of something else")
    return [path for name in MADE_AGAIN if (path := run.path / name).exists() or path.is_symlink()]


def remove(folder: Path) -> None:
    """Remove what `removable` lists; config.json, trace.jsonl and the user's own files stay.

    Raises
    ------
    UserError
        If the folder is not a run folder, or a process is using it.
    """
    with RunFolder(folder).lock():
        for path in removable(folder):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()


def size(path: Path) -> int:
    """Size in bytes of a file, or of all files below a folder."""
    if path.is_symlink() or path.is_file():
        return path.lstat().st_size
    return sum(each.lstat().st_size for each in path.rglob("*") if not each.is_dir())
