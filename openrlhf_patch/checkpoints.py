"""Which of a run's checkpoints is whole, and the state of the run folder that belongs to it.

DeepSpeed writes the folders `global_step<N>` below `_actor`, and the file `latest`, which names the last.
"""

import shutil
from pathlib import Path

from sagc.checkpoints import keep_last_whole
from sagc.run_folder import RunFolder, write_atomically

FOLDER = "_actor"  # of openrlhf.trainer.ray.ppo_actor
STEP = "global_step"


def restore(checkpoints: Path, folder: RunFolder) -> int:
    """Point DeepSpeed at the last whole checkpoint and put the run's trace back to where it stood then.

    Later checkpoints, half-written or damaged, are removed: upstream counts them when it decides which to delete.
    Returns the rollouts done.
    """
    newest_first = sorted((checkpoints / FOLDER).glob(f"{STEP}*"), key=_step, reverse=True)
    checkpoint = keep_last_whole(newest_first)
    folder.trace.unlink(missing_ok=True)
    if checkpoint is None:
        shutil.rmtree(checkpoints, ignore_errors=True)  # upstream would try to load from an empty folder
        return 0
    shutil.copyfile(checkpoint / "trace.jsonl", folder.trace)
    write_atomically(checkpoints / FOLDER / "latest", checkpoint.name)
    return _step(checkpoint)


def _step(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix(STEP))
