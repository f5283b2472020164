"""analysis.watch: what it says of runs that train, have ended, or were killed."""

import json
import os
import socket
import subprocess
import sys

import pytest
from click.testing import CliRunner

from analysis import watch as watching
from analysis.watch import Watch, watch
from sagc.cli import main
from sagc.errors import UserError
from sagc.trace import TraceWriter
from tests.unit.test_trace import record


def make_run(folder, records=(), steps=20, complete=False, evaluated=False, pid=None):
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"run": {"training": {"steps": steps}}, "hash": "0"}))
    writer = TraceWriter(folder / "trace.jsonl") if records else None
    for each in records:
        writer.append(each)
    if complete:
        (folder / "model").mkdir()
        (folder / "model" / "config.json").write_text('{"model_type": "qwen2"}')  # not a run's
    if evaluated:
        (folder / "eval").mkdir()
        (folder / "eval" / "evaluation.json").write_text("{}")
    if pid:
        (folder / ".lock-holder").write_text(f"process {pid} on {socket.gethostname()}\n")
    return writer


@pytest.fixture
def dead():
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def rows(results) -> dict[str, list[str]]:
    runs = Watch(results)
    runs.update()
    return {run.name: run.cells()[1:] for run in runs.runs.values()}


def test_every_state_by_hand(tmp_path, dead):
    both = [record(1, step_s=2.0, straggler_rate=0.25, reward=None), record(2, step_s=4.0, reward=0.25, budget=0.625)]
    make_run(tmp_path / "a", both, pid=os.getpid())
    make_run(tmp_path / "b", both, pid=dead)
    make_run(tmp_path / "c", [record(20, dual_variable=1.5, budget=None)], complete=True, evaluated=True)
    make_run(tmp_path / "d", [record(20, budget=None)], complete=True)
    make_run(tmp_path / "e", [record(20, reward=None)], complete=True, pid=os.getpid())
    make_run(tmp_path / "f")
    mean_rate = "0.38"  # of 0.25 and 0.5
    assert rows(tmp_path) == {
        "a": ["training", "2/20", "4", "0.62", mean_rate, "0.250", "0:54"],  # 18 steps of 3 s
        "b": ["stopped", "2/20", "4", "0.62", mean_rate, "0.250", "-"],
        "c": ["done", "20/20", "4", "1.50", "0.50", "0.571", "-"],
        "d": ["trained", "20/20", "4", "-", "0.50", "0.571", "-"],
        "e": ["evaluating", "20/20", "4", "0.50", "0.50", "-", "-"],
        "f": ["waiting", "0/20", "-", "-", "-", "-", "-"],
    }


def test_means_are_over_the_last_ten_steps(tmp_path):
    records = [
        record(step, straggler_rate=float(step == 1), step_s=100.0 if step == 1 else 1.0) for step in range(1, 12)
    ]
    make_run(tmp_path / "a", records, steps=3611, pid=os.getpid())
    assert rows(tmp_path)["a"][4:] == ["0.00", "0.571", "1:00:00"]


def test_runs_and_steps_that_come_later_are_seen(tmp_path):
    writer = make_run(tmp_path / "deep" / "a", [record(1)], pid=os.getpid())
    runs = Watch(tmp_path)
    runs.update()
    writer.append(record(2))
    make_run(tmp_path / "b")
    runs.update()
    lines = runs.table().splitlines()
    assert [line.split()[:3] for line in lines[1:3]] == [["b", "waiting", "0/20"], ["deep/a", "training", "2/20"]]
    assert lines[0].split()[0] == "run" and lines[-1] == "1 waiting, 1 training"


def test_a_trace_that_is_broken_hides_no_other_run(tmp_path):
    make_run(tmp_path / "a")
    (tmp_path / "a" / "trace.jsonl").write_text("{}\n")
    make_run(tmp_path / "b", [record(1)])
    found = rows(tmp_path)
    assert found["a"][1] == "0/20" and found["b"][1] == "1/20"


def test_without_a_terminal_it_is_shown_once(tmp_path):
    make_run(tmp_path / "a", [record(1)], pid=os.getpid())
    result = CliRunner().invoke(main, ["watch", str(tmp_path)])
    assert result.exit_code == 0
    assert result.stdout.endswith("1 training\n")


def test_on_a_terminal_it_goes_on_until_no_run_is_at_work(tmp_path, monkeypatch):
    make_run(tmp_path / "a", [record(1)], pid=os.getpid())
    shown = []

    def sleep(seconds):
        assert seconds == 5.0
        if len(shown) == 2:
            (tmp_path / "a" / ".lock-holder").unlink()

    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setattr(watching.time, "sleep", sleep)
    watch(tmp_path, 5.0, shown.append)
    assert [text.splitlines()[-1] for text in shown] == ["1 training", "1 training", "1 stopped"]


@pytest.mark.parametrize(("folder", "sentence"), [("none", "does not exist"), ("", "contains no runs")])
def test_a_folder_without_runs_is_refused(tmp_path, folder, sentence):
    with pytest.raises(UserError, match=sentence):
        watch(tmp_path / folder, 1.0, print)
