"""Which of a run's checkpoints is whole, which are kept, and the state of the run folder that belongs to it.

DeepSpeed writes the folders `global_step<N>` below `_actor`, and the file `latest`, which names the last.
"""

import shutil
from pathlib import Path

from sagc.run import checkpoints as checkpoint_store
from sagc.run.checkpoints import newest_first, number
from sagc.run.folder import RunFolder
from sagc.system.files import write_atomically

FOLDER = "_actor"  # of openrlhf.trainer.ray.ppo_actor
STEP = "global_step"


def restore(checkpoints: Path, folder: RunFolder) -> int:
    """Point DeepSpeed at the last whole checkpoint and put the run's trace back to where it stood then.

    Later checkpoints, half-written or damaged, are removed: upstream counts them when it decides which to delete.
    Returns the rollouts done.
    """
    checkpoint = checkpoint_store.restore(checkpoints / FOLDER, STEP, folder.trace)
    if checkpoint is None:
        shutil.rmtree(checkpoints, ignore_errors=True)  # upstream would try to load from an empty folder
        return 0
    write_atomically(checkpoints / FOLDER / "latest", checkpoint.name)
    return number(checkpoint, STEP)


def make_room(checkpoints: Path) -> None:
    """Remove all checkpoints but the last, so that two are there when the next is written.

    Upstream would remove the oldest by time stamp: the last one, after the clock was set back.
    """
    for checkpoint in newest_first(checkpoints / FOLDER, STEP)[1:]:
        shutil.rmtree(checkpoint)
