"""openrlhf_patch.checkpoints: after a kill at any moment, the last whole checkpoint is found, and no later one left."""

import os
import time

from openrlhf_patch.checkpoints import make_room, restore
from sagc.run.checkpoints import seal
from sagc.run.folder import RunFolder


def checkpoint(root, step, whole=True):
    folder = root / "_actor" / f"global_step{step}"
    folder.mkdir(parents=True)
    (folder / "weights").write_text(str(step))
    if whole:
        (folder / "trace.jsonl").write_text("line\n" * step)
        seal(folder)


def test_a_half_written_checkpoint_is_removed_and_the_one_before_it_is_used(tmp_path):
    folder, root = RunFolder(tmp_path), tmp_path / "checkpoints" / "hash"
    checkpoint(root, 10)
    checkpoint(root, 20)
    checkpoint(root, 100, whole=False)
    (root / "_actor" / "latest").write_text("global_step100")
    folder.trace.write_text("line\n" * 29 + "half a li")
    assert restore(root, folder) == 20
    assert sorted(path.name for path in (root / "_actor").iterdir()) == ["global_step10", "global_step20", "latest"]
    assert (root / "_actor" / "latest").read_text() == "global_step20"
    assert folder.trace.read_text() == "line\n" * 20


def test_without_a_whole_checkpoint_the_run_starts_anew(tmp_path):
    folder, root = RunFolder(tmp_path), tmp_path / "checkpoints" / "hash"
    checkpoint(root, 10, whole=False)
    folder.trace.write_text("line\n")
    assert restore(root, folder) == 0
    assert not root.exists() and not folder.trace.exists()


def test_a_run_without_checkpoints_starts_at_0(tmp_path):
    assert restore(tmp_path / "checkpoints" / "hash", RunFolder(tmp_path)) == 0


def test_a_damaged_checkpoint_is_removed_and_the_one_before_it_is_used(tmp_path):
    folder, root = RunFolder(tmp_path), tmp_path / "checkpoints" / "hash"
    checkpoint(root, 10)
    checkpoint(root, 20)
    (root / "_actor" / "global_step20" / "weights").write_text("2")
    assert restore(root, folder) == 10
    assert folder.trace.read_text() == "line\n" * 10


def test_the_last_checkpoint_is_kept_after_the_clock_was_set_back(tmp_path):
    root, later = tmp_path / "checkpoints" / "hash", time.time() + 3600
    make_room(root)  # before the first one
    for step in (9, 10):
        checkpoint(root, step)
    os.utime(root / "_actor" / "global_step9", (later, later))
    make_room(root)
    assert [path.name for path in (root / "_actor").iterdir()] == ["global_step10"]
