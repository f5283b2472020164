"""Which of a run's checkpoints is whole, and the state of the run folder that belongs to it.

DeepSpeed writes the folders `global_step<N>` below `_actor`, and the file `latest`, which names the last.
"""

import shutil
from pathlib import Path

from sagc.run_folder import RunFolder, write_atomically

FOLDER = "_actor"  # of openrlhf.trainer.ray.ppo_actor
COMPLETE = "COMPLETE"  # the last file written into a checkpoint: without it, the process died while saving


def restore(checkpoints: Path, folder: RunFolder) -> int:
    """Point DeepSpeed at the last whole checkpoint and put the run's trace back to where it stood then.

    All other checkpoints are removed: upstream counts a half-written one when it decides which to delete. Returns the
    rollouts done.
    """
    whole = {int(path.parent.name.removeprefix("global_step")): path.parent for path in _whole(checkpoints)}
    done = max(whole, default=0)
    for path in (checkpoints / FOLDER).glob("*"):
        if path != whole.get(done):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    folder.trace.unlink(missing_ok=True)
    if done:
        shutil.copyfile(whole[done] / "trace.jsonl", folder.trace)
        write_atomically(checkpoints / FOLDER / "latest", whole[done].name)
    else:
        shutil.rmtree(checkpoints, ignore_errors=True)  # upstream would try to load from an empty folder
    return done


def _whole(checkpoints: Path) -> list[Path]:
    return list((checkpoints / FOLDER).glob(f"global_step*/{COMPLETE}"))
