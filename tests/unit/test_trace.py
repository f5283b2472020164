"""The trace: what is written comes back, and what a crash leaves behind is handled."""

import dataclasses
import errno
import json
import resource
import signal

import pytest

from sagc.trace import StepRecord, TraceFollower, TraceWriter, read_trace


def record(step=1, **changes):
    values = {
        "step": step,
        "policy_version": step - 1,
        "group_size": 4,
        "prompts": 2,
        "samples": 8,
        "kept_groups": 2,
        "filtered_groups": 0,
        "rounds": [2],
        "prompt_index": [3, 1],
        "lengths": [[6, 7, 8, 40], [6, 6, 6, 6]],
        "rewards": [[0.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, None]],
        "truncated": 0,
        "straggler_events": 1,
        "straggler_rate": 0.5,
        "idle_fraction": 1 - 85 / 320,
        "max_length": 40,
        "mean_length": 85 / 8,
        "median_length": 6.0,
        "tokens": 85,
        "reward": 0.5714285714285714,
        "learning_rate": 1.5e-4,
        "optimizer_steps": 1,
        "rollout_s": 1.25,
        "train_s": 0.5,
        "sync_s": 0.0,
        "step_s": 1.75,
        "dual_variable": None,
        "budget": 0.5,
        "risks": {"4": 0.25, "8": 0.75},
        "infeasible": False,
        "next_group_size": 6,
    }
    return StepRecord(**{**values, **changes})


def write(path, *records):
    writer = TraceWriter(path)
    for each in records:
        writer.append(each)
    return writer


def test_round_trip(tmp_path):
    records = [record(1), record(2, reward=None, dual_variable=1 / 3)]
    write(tmp_path / "deep" / "trace.jsonl", *records)
    assert list(read_trace(tmp_path / "deep" / "trace.jsonl")) == records


def test_one_line_per_record():
    assert "\n" not in record().to_json()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_json_lacks_are_refused_and_nothing_is_written(tmp_path, value):
    writer = write(tmp_path / "trace.jsonl", record(1))
    with pytest.raises(ValueError, match="not JSON compliant"):
        writer.append(record(2, reward=value))
    assert list(read_trace(writer.path)) == [record(1)]


def test_a_half_written_last_line_is_left_out(tmp_path):
    path = tmp_path / "trace.jsonl"
    write(path, record(1), record(2))
    half = path.read_bytes()[:-10]
    path.write_bytes(half)
    assert list(read_trace(path)) == [record(1)]
    assert path.read_bytes() == half  # reading changes nothing


def test_going_on_cuts_a_half_written_last_line_off(tmp_path):
    path = tmp_path / "trace.jsonl"
    write(path, record(1), record(2))
    path.write_bytes(path.read_bytes()[:-10])
    write(path, record(2), record(3))
    assert [each.step for each in read_trace(path)] == [1, 2, 3]


def test_going_on_after_a_first_line_that_is_half_written(tmp_path):
    path = tmp_path / "trace.jsonl"
    path.write_text('{"step": 1, "poli')
    write(path, record(1))
    assert list(read_trace(path)) == [record(1)]


@pytest.mark.parametrize("line", ["{", "null", "[1, 2]", "12", '{"step": 2}'])
def test_a_bad_line_names_file_and_line(tmp_path, line):
    path = tmp_path / "trace.jsonl"
    path.write_text(f"{record(1).to_json()}\n{line}\n{record(3).to_json()}\n")
    with pytest.raises(ValueError, match=r"trace\.jsonl, line 2: not a step record"):
        list(read_trace(path))


def test_missing_fields_are_named():
    values = dataclasses.asdict(record())
    del values["lengths"], values["budget"]
    with pytest.raises(ValueError, match="lacks budget, lengths"):
        StepRecord.from_json(json.dumps(values))


def test_fields_of_later_versions_are_ignored():
    values = dataclasses.asdict(record()) | {"later": 0.01}
    assert StepRecord.from_json(json.dumps(values)) == record()


def test_a_full_disk_leaves_the_records_before_it_whole(tmp_path):
    path = tmp_path / "trace.jsonl"
    writer = write(path, record(1))
    whole = path.read_bytes()
    with FileSizeLimit(len(whole) + 50), pytest.raises(OSError, match=r"No space|File too large") as raised:
        writer.append(record(2))
    assert raised.value.errno in (errno.ENOSPC, errno.EFBIG)
    assert path.read_bytes() == whole
    writer.append(record(2))
    assert [each.step for each in read_trace(path)] == [1, 2]


class FileSizeLimit:
    """No file may grow beyond so many bytes: the kernel cuts a write short, as a full disk does."""

    def __init__(self, size):
        self.size = size

    def __enter__(self):
        self.before = resource.getrlimit(resource.RLIMIT_FSIZE)
        self.handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.size, self.before[1]))

    def __exit__(self, *exception):
        resource.setrlimit(resource.RLIMIT_FSIZE, self.before)
        signal.signal(signal.SIGXFSZ, self.handler)


def test_a_record_from_before_a_field_with_a_default_is_read():
    values = dataclasses.asdict(record())
    del values["vllm_kl"], values["processor_s"]
    read = StepRecord.from_json(json.dumps(values))
    assert read.vllm_kl is read.processor_s is None


def test_a_trace_is_followed_while_it_grows(tmp_path):
    path = tmp_path / "trace.jsonl"
    follower, late = TraceFollower(path), TraceFollower(path, skip=2)
    assert follower.new() == late.new() == []  # it is not there yet
    writer = write(path, record(1))
    assert follower.new() == [record(1)] and late.new() == []
    assert follower.new() == []
    writer.append(record(2))
    writer.append(record(3))
    line = record(4).to_json() + "\n"
    with open(path, "a") as file:
        file.write(line[:50])
    assert follower.new() == [record(2), record(3)] and late.new() == [record(3)]
    with open(path, "a") as file:
        file.write(line[50:])
    assert follower.new() == late.new() == [record(4)]


def test_a_trace_that_was_put_back_is_followed_anew(tmp_path):
    path = tmp_path / "trace.jsonl"
    write(path, record(1), record(2), record(3))
    follower = TraceFollower(path)
    assert len(follower.new()) == 3
    path.unlink()
    write(path, record(1), record(2, reward=0.25))
    assert follower.new() == [record(1), record(2, reward=0.25)]
