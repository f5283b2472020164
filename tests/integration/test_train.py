"""Whole training runs on the embedded model: both algorithms, killed and resumed, two at once."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from safetensors.torch import load_file

from sagc.errors import UserError
from sagc.run.checkpoints import damage
from sagc.run.folder import RunFolder
from sagc.run.scalars import scalars
from sagc.run.train import train
from sagc.trace import read_trace
from sagc.vanilla import stack as vanilla

CLOCKS = ("rollout_s", "train_s", "sync_s", "step_s", "processor_s")
TENSORBOARD = ("--logging", '{"tensorboard": true}')


def facts(folder):
    """The trace without its clocks."""
    return [
        {name: value for name, value in vars(record).items() if name not in CLOCKS}
        for record in read_trace(RunFolder(folder).trace)
    ]


def command(run, folder, model, data, *options):
    """The command of the DAG."""
    return [
        *(sys.executable, "-m", "sagc.cli", "train-job", str(folder), "--resolved", run.model_dump_json()),
        *("--model", str(model), "--data", str(data / "train.jsonl")),
        *options,
    ]


def assert_tensorboard_shows_the_trace(folder, read_events):
    """Every step once, with the values of the trace as 32 bits hold them."""
    shown = read_events(folder / "tensorboard")
    expected = {
        record.step: {name: [float(np.float32(value))] for name, value in scalars(record).items()}
        for record in read_trace(RunFolder(folder).trace)
    }
    for values in shown.values():
        del values["time/left_s"]
    assert shown == expected


def run_to_end(*arguments):
    done = subprocess.run(command(*arguments), capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stderr
    return done.stderr


def environment():
    return {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


@pytest.mark.parametrize("group", ["sagc", "sagc-robust"])
@pytest.mark.parametrize("algorithm", ["grpo", "dapo"])
def test_three_steps_of_each_algorithm_leave_a_whole_run_folder(
    tmp_path, resolve, tiny_model, tiny_data, algorithm, group
):
    run, folder = resolve(algorithm, group), RunFolder(tmp_path / "run")
    train(run, folder.path, tiny_model, tiny_data / "train.jsonl")
    records = list(read_trace(folder.trace))
    ladder = run.build_controller().ladder
    assert [record.step for record in records] == [1, 2, 3]
    assert [record.policy_version for record in records] == [0, 1, 2]
    assert [record.next_group_size for record in records[:2]] == [record.group_size for record in records[1:]]
    assert all(record.group_size in ladder and len(record.risks) == len(ladder) for record in records)
    assert any(record.reward > 0 for record in records), "the short warm start solves something"
    assert any(record.filtered_groups for record in records) == (algorithm == "dapo")
    for record in records:
        assert record.kept_groups + record.filtered_groups == len(record.lengths) == sum(record.rounds)
        assert record.step_s == pytest.approx(record.rollout_s + record.train_s + record.sync_s)
        assert record.tokens == sum(map(sum, record.lengths))
        assert record.processor_s > 0
    assert folder.complete
    assert folder.read_config()["hash"] == run.hash
    before, after = load_file(tiny_model / "model.safetensors"), load_file(folder.model / "model.safetensors")
    assert any((before[name] != after[name]).any() for name in before)
    assert not folder.checkpoints(run).exists(), "a finished run keeps no checkpoints"


def test_models_are_kept_on_the_way_as_a_run_that_ends_there_would_have_them(tmp_path, resolve, tiny_model, tiny_data):
    whole, shorter = (resolve("dapo", "sagc", steps=steps, keep_model_every=2) for steps in (5, 4))
    for run, name in ((whole, "whole"), (shorter, "shorter")):
        train(run, tmp_path / name, tiny_model, tiny_data / "train.jsonl")
    kept = RunFolder(tmp_path / "whole").kept_models(whole.hash)
    assert list(kept) == [2, 4]
    assert list(RunFolder(tmp_path / "shorter").kept_models(shorter.hash)) == [2], "the last one is in model/"
    assert RunFolder(tmp_path / "whole").kept_models("another hash") == {}
    one, other = (load_file(path / "model.safetensors") for path in (kept[4], tmp_path / "shorter" / "model"))
    assert all((one[name] == other[name]).all() for name in one)
    earlier = load_file(kept[2] / "model.safetensors")
    assert any((one[name] != earlier[name]).any() for name in one)


@pytest.mark.parametrize("outputs_deleted", [False, True], ids=["same folder", "outputs deleted as Snakemake does"])
def test_sigkill_at_a_random_moment_and_the_same_command_give_the_unbroken_trace(
    tmp_path, resolve, tiny_model, tiny_data, read_events, outputs_deleted
):
    run = resolve("dapo", "sagc", steps=7, checkpoint_every=2, learning_rate=1e-3)
    unbroken, broken = tmp_path / "unbroken", tmp_path / "broken"
    run_to_end(run, unbroken, tiny_model, tiny_data, *TENSORBOARD)
    assert_tensorboard_shows_the_trace(unbroken, read_events)

    kill_after = random.Random(int(outputs_deleted)).randint(2, 5)  # steps; the first checkpoint comes after 2
    trace = RunFolder(broken).trace
    process = subprocess.Popen(
        command(run, broken, tiny_model, tiny_data, *TENSORBOARD), stderr=subprocess.DEVNULL, env=environment()
    )
    while process.poll() is None and not (trace.exists() and trace.read_bytes().count(b"\n") >= kill_after):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "the run ended before it could be killed"
    if outputs_deleted:
        trace.unlink()
        RunFolder(broken).config.unlink()
    said = run_to_end(run, broken, tiny_model, tiny_data, *TENSORBOARD)

    assert "going on after step" in said
    assert facts(broken) == facts(unbroken)
    assert len(list((broken / "tensorboard").iterdir())) == 2, "a file per process that trained"
    assert_tensorboard_shows_the_trace(broken, read_events)
    one, other = (load_file(RunFolder(folder).model / "model.safetensors") for folder in (unbroken, broken))
    assert all((one[name] == other[name]).all() for name in one)


def test_a_run_that_dies_after_its_last_step_only_writes_the_model(
    tmp_path, resolve, tiny_model, tiny_data, monkeypatch
):
    run, folder = resolve(steps=2, checkpoint_every=2), RunFolder(tmp_path / "run")
    arguments = (run, folder.path, tiny_model, tiny_data / "train.jsonl")

    def dies(path):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(vanilla, "folder_atomically", dies)
        with pytest.raises(KeyboardInterrupt):
            train(*arguments)
    written = folder.trace.read_bytes()
    assert not folder.complete
    train(*arguments)
    assert folder.complete
    assert folder.trace.read_bytes() == written


def test_a_checkpoint_that_was_being_written_is_passed_over(tmp_path, resolve, tiny_model, tiny_data, monkeypatch):
    run, folder = resolve(steps=4, checkpoint_every=1), RunFolder(tmp_path / "run")
    arguments = (run, folder.path, tiny_model, tiny_data / "train.jsonl")
    unbroken = RunFolder(tmp_path / "unbroken")
    train(run, unbroken.path, *arguments[2:])
    save = vanilla._SaveTrace.on_save

    def dies_at_three(self, args, state, control, **columns):
        if state.global_step == 3:
            raise KeyboardInterrupt
        save(self, args, state, control, **columns)

    with monkeypatch.context() as patch:
        patch.setattr(vanilla._SaveTrace, "on_save", dies_at_three)
        with pytest.raises(KeyboardInterrupt):
            train(*arguments)
    assert (folder.checkpoints(run) / "checkpoint-3").exists()
    assert damage(folder.checkpoints(run) / "checkpoint-3") == "it was not written to its end"
    train(*arguments)
    assert facts(folder.path) == facts(unbroken.path)


@pytest.mark.parametrize("harm", ["cut in half", "a flipped bit"])
def test_a_damaged_checkpoint_is_passed_over_and_the_run_ends_as_an_unbroken_one(
    tmp_path, resolve, tiny_model, tiny_data, monkeypatch, caplog, harm
):
    run, folder, unbroken = resolve(steps=4, checkpoint_every=1), RunFolder(tmp_path / "run"), tmp_path / "unbroken"
    train(run, unbroken, tiny_model, tiny_data / "train.jsonl")
    save = vanilla._SaveTrace.on_save

    def dies_after_three(self, args, state, control, **columns):
        save(self, args, state, control, **columns)
        if state.global_step == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(vanilla._SaveTrace, "on_save", dies_after_three)
        with pytest.raises(KeyboardInterrupt):
            train(run, folder.path, tiny_model, tiny_data / "train.jsonl")
    weights = folder.checkpoints(run) / "checkpoint-3" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    if harm == "cut in half":
        del content[len(content) // 2 :]
    else:
        content[len(content) // 2] ^= 1
    weights.write_bytes(content)
    train(run, folder.path, tiny_model, tiny_data / "train.jsonl")
    assert "model.safetensors is not what was written: the run goes on from checkpoint-2" in caplog.text
    assert facts(folder.path) == facts(unbroken)


def test_a_folder_in_use_or_of_another_config_is_refused_and_left_alone(tmp_path, resolve, tiny_model, tiny_data):
    run, folder = resolve(steps=1), RunFolder(tmp_path / "run")
    rest = (folder.path, tiny_model, tiny_data / "train.jsonl")
    train(run, *rest)
    before = {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file() and path.name[0] != "."}
    with pytest.raises(UserError, match="holds a run of another config"):
        train(resolve(steps=2), *rest)
    with folder.lock():
        done = subprocess.run(
            command(run, folder.path, tiny_model, tiny_data), capture_output=True, text=True, env=environment()
        )
    assert done.returncode == 2
    assert f"is in use by process {os.getpid()} on" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert all(path.read_bytes() == content for path, content in before.items())


def test_a_disk_that_fills_up_is_one_sentence_and_the_run_goes_on_afterwards(
    tmp_path, resolve, tiny_model, tiny_data, small_disk
):
    run, folder = resolve(steps=6, checkpoint_every=2), small_disk / "run"
    filler = small_disk / "filler"
    free = shutil.disk_usage(small_disk).free
    filler.write_bytes(b"x" * (free - 3_000_000))  # room for one checkpoint, not for two
    arguments = (run, folder, tiny_model, tiny_data)
    done = subprocess.run(command(*arguments), capture_output=True, text=True, env=environment())
    assert done.returncode == 2, done.stderr
    assert "No space left on device" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    filler.unlink()
    run_to_end(*arguments)
    train(run, tmp_path / "unbroken", tiny_model, tiny_data / "train.jsonl")
    assert facts(folder) == facts(tmp_path / "unbroken")


def test_a_finished_run_is_left_as_it_is(tmp_path, resolve, tiny_model, tiny_data, caplog):
    run, folder = resolve(steps=1), RunFolder(tmp_path / "run")
    arguments = (run, folder.path, tiny_model, tiny_data / "train.jsonl")
    train(*arguments)
    before = {path: path.stat().st_mtime_ns for path in (folder.config, folder.trace, folder.model)}
    train(*arguments)
    assert "is already trained" in caplog.text
    assert all(path.stat().st_mtime_ns == time_ for path, time_ in before.items())


def test_two_processes_share_one_run_folder(tmp_path, resolve, tiny_model, tiny_data, read_events):
    run, folder = resolve("dapo", "sagc-robust", steps=2), RunFolder(tmp_path / "run")
    python, module, *rest = command(run, folder.path, tiny_model, tiny_data, *TENSORBOARD)
    assert module == "-m"
    launch = [python, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", "-m", *rest]
    done = subprocess.run(launch, capture_output=True, text=True, env={**environment(), "ACCELERATE_USE_CPU": "true"})
    assert done.returncode == 0, done.stderr
    records = list(read_trace(folder.trace))
    assert [record.step for record in records] == [1, 2]
    assert folder.complete
    assert len(list((folder.path / "tensorboard").iterdir())) == 1
    assert_tensorboard_shows_the_trace(folder.path, read_events)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 16 MB; needs root, as containers and CI have."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"no small file system can be mounted here: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_model_or_data_that_is_missing_is_one_sentence(tmp_path, resolve, tiny_model, tiny_data):
    run = resolve()
    with pytest.raises(UserError, match=r"training prompts .*nowhere\.jsonl cannot be read: No such file"):
        train(run, tmp_path / "a", tiny_model, tiny_data / "nowhere.jsonl")
    with pytest.raises(UserError, match=r"model .* cannot be loaded"):
        train(run, tmp_path / "b", tmp_path / "nowhere", tiny_data / "train.jsonl")
    broken = tmp_path / "broken.jsonl"
    broken.write_text(json.dumps({"prompt": "3x +2 = 20 :", "answer": "6"}) + "\n{broken\n")
    with pytest.raises(UserError, match=r"broken\.jsonl, line 2"):
        train(run, tmp_path / "c", tiny_model, broken)


@pytest.mark.parametrize(("world_size", "joined"), [("2", 1), (None, 2)])
def test_a_launcher_that_torch_does_not_follow_is_refused(monkeypatch, world_size, joined):
    """The batch is divided by one number of processes and trained by another: a smaller or larger one, unnoticed."""
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    if world_size:
        monkeypatch.setenv("WORLD_SIZE", world_size)
    with pytest.raises(
        UserError, match=rf"WORLD_SIZE={world_size or 1} in the environment, but torch joined {joined} "
    ):
        vanilla._check_processes(joined)
    vanilla._check_processes(int(world_size or 1))
