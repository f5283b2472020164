"""Which of a run's checkpoints is whole, which are kept, and the state of the run folder that belongs to it.

DeepSpeed writes the folders `global_step<N>` below `_actor`, and the file `latest`, which names the last.
"""

import shutil
from pathlib import Path

from sagc.run.checkpoints import keep_last_whole
from sagc.run.folder import RunFolder
from sagc.system.files import write_atomically

FOLDER = "_actor"  # of openrlhf.trainer.ray.ppo_actor
STEP = "global_step"


def restore(checkpoints: Path, folder: RunFolder) -> int:
    """Point DeepSpeed at the last whole checkpoint and put the run's trace back to where it stood then.

    Later checkpoints, half-written or damaged, are removed: upstream counts them when it decides which to delete.
    Returns the rollouts done.
    """
    checkpoint = keep_last_whole(_newest_first(checkpoints))
    folder.trace.unlink(missing_ok=True)
    if checkpoint is None:
        shutil.rmtree(checkpoints, ignore_errors=True)  # upstream would try to load from an empty folder
        return 0
    shutil.copyfile(checkpoint / "trace.jsonl", folder.trace)
    write_atomically(checkpoints / FOLDER / "latest", checkpoint.name)
    return _step(checkpoint)


def make_room(checkpoints: Path) -> None:
    """Remove all checkpoints but the last, so that two are there when the next is written.

    Upstream would remove the oldest by time stamp: the last one, after the clock was set back.
    """
    for checkpoint in _newest_first(checkpoints)[1:]:
        shutil.rmtree(checkpoint)


def _newest_first(checkpoints: Path) -> list[Path]:
    return sorted((checkpoints / FOLDER).glob(f"{STEP}*"), key=_step, reverse=True)


def _step(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix(STEP))
