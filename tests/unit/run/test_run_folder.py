"""sagc.run.folder: one process at a time, one config per folder, whole files or none."""

import json
import os
import signal
import socket
import subprocess
import sys

import pytest

from sagc.config.grid import validate_grid
from sagc.config.run import Cell
from sagc.errors import UserError
from sagc.run import folder as run_folder
from sagc.run.folder import RunFolder, is_older
from sagc.system.files import folder_atomically, write_atomically
from tests.limits import stretched, wait_for

HOLD = """
import sys, time
from sagc.run.folder import RunFolder
with RunFolder(sys.argv[1]).lock():
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def run(minimal):
    return validate_grid(minimal).run(Cell(model="tiny", algorithm="grpo", stack="vanilla", group=4, seed=0))


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock of the test's folder."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()


def test_a_folder_in_use_names_its_process_and_host(holder, tmp_path):
    with pytest.raises(UserError) as caught, RunFolder(tmp_path).lock():
        pass
    assert f"in use by process {holder.pid} on {socket.gethostname()}" in str(caught.value)


def test_a_killed_process_frees_its_folder(holder, tmp_path):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with RunFolder(tmp_path).lock():
        assert f"process {os.getpid()} on" in (tmp_path / ".lock-holder").read_text()


@pytest.fixture
def start_holder(tmp_path):
    """Starts a process that holds the test's folder, called with these options."""
    started = []

    def start(*options, deaf=False):
        code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" * deaf + HOLD
        command = [sys.executable, "-c", code, str(tmp_path), *options]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        assert started[-1].stdout.readline() == "held\n"
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.parametrize("job", ["train-job", "evaluate-job"])
@pytest.mark.parametrize("deaf", [False, True])
def test_a_job_that_a_killed_snakemake_left_behind_is_ended(start_holder, tmp_path, monkeypatch, caplog, job, deaf):
    monkeypatch.setattr(run_folder, "ORPHAN_S", stretched(1.0 if deaf else 30.0))
    orphan = start_holder("-m", "sagc.cli", job, "--data", "d", deaf=deaf)
    with RunFolder(tmp_path).lock(end_orphan=True):
        wait_for(orphan, 10)  # fails where it is still there
        assert f"process {os.getpid()} on" in (tmp_path / ".lock-holder").read_text()
    assert f"ending process {orphan.pid}, which a Snakemake that is gone left behind" in caplog.text


@pytest.mark.parametrize("command", [["train", "run"], ["train", "train-job"], ["train", "--config", "evaluate-job"]])
def test_what_a_user_started_is_never_ended(start_holder, tmp_path, command):
    process = start_holder("-m", "sagc.cli", *command)
    with pytest.raises(UserError, match="is in use by process"), RunFolder(tmp_path).lock(end_orphan=True):
        pass
    assert process.poll() is None


def test_a_job_is_ended_only_where_that_is_asked_for(start_holder, tmp_path):
    process = start_holder("-m", "sagc.cli", "train-job", "--data", "d")
    with pytest.raises(UserError, match="is in use by process"), RunFolder(tmp_path).lock():
        pass
    (tmp_path / ".lock-holder").write_text(f"process {process.pid} on another.machine\n")
    with pytest.raises(UserError, match=r"on another\.machine"), RunFolder(tmp_path).lock(end_orphan=True):
        pass
    assert process.poll() is None


def test_whether_a_folder_is_in_use_can_be_seen_without_its_lock(holder, tmp_path):
    place = RunFolder(tmp_path)
    assert place.in_use
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert not place.in_use  # though its note is still there
    (tmp_path / ".lock-holder").write_text(f"process {holder.pid} on another.machine\n")
    assert place.in_use
    (tmp_path / ".lock-holder").write_text("process")
    assert not place.in_use
    assert not RunFolder(tmp_path / "none").in_use


def test_a_folder_is_free_again_after_an_error(tmp_path):
    with pytest.raises(ValueError, match="of ours"), RunFolder(tmp_path).lock():
        raise ValueError("of ours")
    with RunFolder(tmp_path).lock():
        pass
    assert not (tmp_path / ".lock-holder").exists()


def test_the_config_says_what_ran_where(run, tmp_path):
    place = RunFolder(tmp_path / "run")
    place.write_config(run)
    content = place.read_config()
    assert content["hash"] == run.hash
    assert type(run).model_validate(content["run"]).hash == run.hash
    assert content["versions"].keys() >= {"python", "sagc", "numpy"}
    assert content["machine"]["host"] == socket.gethostname()


def test_the_same_config_may_come_again_and_another_is_refused(run, tmp_path):
    place = RunFolder(tmp_path)
    place.write_config(run)
    place.write_config(run)
    other = run.model_copy(update={"reward": "other"})
    with pytest.raises(UserError, match=f"hash {run.hash}, this one is {other.hash}"):
        place.write_config(other)


def test_a_run_of_an_older_version_is_read_and_said_to_be_one(run, tmp_path):
    place = RunFolder(tmp_path)
    place.write_config(run)
    content = place.read_config()
    assert not is_older(content)
    del content["format"], content["run"]["controller"]["type"]
    place.config.write_text(json.dumps({**content, "hash": "0123456789abcdef"}))
    assert is_older(place.read_config())
    with pytest.raises(UserError, match=r"a run of an older version of sagc, .* \(hash 0123456789abcdef, this one is"):
        place.write_config(run)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [(None, "it has no config.json"), ("{", "is not a JSON object"), ("[]", "is not a JSON object")],
)
def test_a_folder_that_is_no_run_folder(tmp_path, content, sentence):
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    with pytest.raises(UserError, match=sentence):
        RunFolder(tmp_path).read_config()


def test_checkpoints_are_apart_by_config(run, tmp_path):
    other = run.model_copy(update={"reward": "other"})
    place = RunFolder(tmp_path)
    assert place.checkpoints(run) != place.checkpoints(other)
    assert place.checkpoints(run).parent == tmp_path / "checkpoints"


def test_a_run_is_complete_when_model_config_and_trace_are_there(run, tmp_path):
    place = RunFolder(tmp_path)
    place.write_config(run)
    place.trace.touch()
    assert not place.complete
    place.model.mkdir()
    assert place.complete


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "deep" / "file.json"
    write_atomically(path, "old")

    def full_disk(_):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(run_folder.os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(path.parent.iterdir()) == [path], "nothing is left beside it"


def test_a_folder_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "deep" / "model"
    with folder_atomically(path) as folder:
        (folder / "weights").write_text("old")
    with pytest.raises(ValueError, match="half way"), folder_atomically(path) as folder:
        (folder / "weights").write_text("new")
        raise ValueError("half way")
    assert (path / "weights").read_text() == "old"
    with folder_atomically(path) as folder:
        (folder / "other").write_text("new")
    assert [file.name for file in path.iterdir()] == ["other"]
    assert list(path.parent.iterdir()) == [path]


def test_the_written_json_is_readable_while_it_is_replaced(run, tmp_path):
    place = RunFolder(tmp_path)
    place.write_config(run)
    with open(place.config, encoding="utf-8") as before:
        place.write_config(run)
        assert json.load(before)["hash"] == run.hash


def test_a_folder_that_cannot_be_written_to_is_one_sentence():
    """Whoever runs the tests: no one can make a folder there."""
    refused = pytest.raises(UserError, match=r"^/proc/sagc cannot be written to: No such file or directory$")
    with refused, RunFolder("/proc/sagc").lock():
        pass
