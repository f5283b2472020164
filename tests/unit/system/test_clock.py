"""Files from the future in a results folder."""

import os
import time

from sagc.system.clock import end_future


def at(path, seconds):
    """A file changed so many seconds from now."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.utime(path, (time.time() + seconds,) * 2, follow_symlinks=False)
    return path


def test_files_from_the_future_get_one_time_of_now(tmp_path):
    ahead = [at(tmp_path / "run" / "trace.jsonl", 3600), at(tmp_path / "model" / "model.safetensors", 7200)]
    assert end_future(tmp_path) == 2
    assert len({path.stat().st_mtime_ns for path in ahead}) == 1
    assert abs(ahead[0].stat().st_mtime - time.time()) < 60


def test_files_of_the_past_keep_their_times(tmp_path):
    old = at(tmp_path / "run" / "trace.jsonl", -3600)
    before = old.stat().st_mtime_ns
    assert end_future(tmp_path) == 0
    assert old.stat().st_mtime_ns == before


def test_links_are_not_followed_out_of_the_results_folder(tmp_path):
    users = at(tmp_path / "mine" / "prompts.jsonl", 3600)
    before = users.stat().st_mtime_ns
    results = tmp_path / "results"
    results.mkdir()
    (results / "data").symlink_to(users.parent)
    at(results / "prompts.jsonl", 0).unlink()
    (results / "prompts.jsonl").symlink_to(users)
    os.utime(results / "prompts.jsonl", (time.time() + 3600,) * 2, follow_symlinks=False)
    assert end_future(results) == 1
    assert users.stat().st_mtime_ns == before


def test_a_folder_that_is_not_there_stays_so(tmp_path):
    assert end_future(tmp_path / "results") == 0
    assert not (tmp_path / "results").exists()
