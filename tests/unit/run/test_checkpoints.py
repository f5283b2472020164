"""sagc.run.checkpoints: whatever happens to a checkpoint's files is noticed, and the one before it is used."""

import json
import logging
import os

import pytest

from sagc.run.checkpoints import SEAL, damage, keep_last_whole, seal


def checkpoint(root, step, sealed=True):
    folder = root / f"checkpoint-{step}"
    (folder / "shards").mkdir(parents=True)
    (folder / "weights.safetensors").write_bytes(bytes(range(256)) * step)
    (folder / "shards" / "rank0").write_bytes(b"optimizer" * step)
    (folder / "empty").touch()
    if sealed:
        seal(folder)
    return folder


def test_a_sealed_checkpoint_is_whole(tmp_path):
    folder = checkpoint(tmp_path, 1)
    assert damage(folder) is None
    assert sorted(json.loads((folder / SEAL).read_text())) == ["empty", "shards/rank0", "weights.safetensors"]


def test_a_file_cut_in_half_is_noticed(tmp_path):
    folder = checkpoint(tmp_path, 1)
    os.truncate(folder / "weights.safetensors", 128)
    assert damage(folder) == "its file weights.safetensors is not what was written"


@pytest.mark.parametrize("place", [0, 7, 255])
def test_a_flipped_bit_is_noticed(tmp_path, place):
    folder = checkpoint(tmp_path, 1)
    content = bytearray((folder / "weights.safetensors").read_bytes())
    content[place] ^= 1
    (folder / "weights.safetensors").write_bytes(content)
    assert damage(folder) == "its file weights.safetensors is not what was written"


def test_a_missing_file_is_noticed(tmp_path):
    folder = checkpoint(tmp_path, 1)
    (folder / "shards" / "rank0").unlink()
    assert damage(folder) == "its file shards/rank0 is missing"


@pytest.mark.parametrize("content", ["", "{", "[]", "null"])
def test_a_seal_that_was_cut_is_noticed(tmp_path, content):
    folder = checkpoint(tmp_path, 1)
    (folder / SEAL).write_text(content)
    assert "COMPLETE cannot be read" in damage(folder)


def test_a_checkpoint_without_a_seal_was_not_written_to_its_end(tmp_path):
    assert damage(checkpoint(tmp_path, 1, sealed=False)) == "it was not written to its end"


def test_a_failed_seal_leaves_none(tmp_path, monkeypatch):
    folder = checkpoint(tmp_path, 1, sealed=False)
    monkeypatch.setattr(os, "replace", lambda *paths: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space left"):
        seal(folder)
    assert damage(folder) == "it was not written to its end"


def test_the_checkpoint_before_a_damaged_one_is_used_and_that_is_said(tmp_path, caplog):
    first, second, third = (checkpoint(tmp_path, step) for step in (1, 2, 3))
    half = checkpoint(tmp_path, 4, sealed=False)
    os.truncate(third / "weights.safetensors", 1)
    with caplog.at_level(logging.WARNING, logger="sagc"):
        assert keep_last_whole([half, third, second, first]) == second
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["checkpoint-1", "checkpoint-2"]
    [message] = [record.getMessage() for record in caplog.records]
    assert message == (
        f"checkpoint {third} is damaged, its file weights.safetensors is not what was written: "
        "the run goes on from checkpoint-2"
    )


def test_a_half_written_checkpoint_is_no_news(tmp_path, caplog):
    whole, half = checkpoint(tmp_path, 1), checkpoint(tmp_path, 2, sealed=False)
    assert keep_last_whole([half, whole]) == whole
    assert not caplog.records


def test_a_run_with_damaged_checkpoints_only_starts_anew_and_says_so(tmp_path, caplog):
    folder = checkpoint(tmp_path, 1)
    (folder / "empty").unlink()
    assert keep_last_whole([folder]) is None
    assert caplog.records[0].getMessage().endswith("its file empty is missing: the run starts anew")
    assert not folder.exists()
