"""sagc.run.scalars: what of a step is logged, read back from TensorBoard's files and from a stand-in for W&B."""

import dataclasses
import json
import shutil
import sys
import threading
import types
from importlib.machinery import ModuleSpec

import numpy as np
import pytest

from sagc.config.grid import validate_grid
from sagc.config.sections import LoggingConfig, WandbConfig
from sagc.errors import UserError
from sagc.run import scalars as scalars_module
from sagc.run.folder import RunFolder
from sagc.run.scalars import GROUPS, ScalarLog, check, scalars
from sagc.trace import StepRecord, TraceWriter
from tests.unit.test_trace import record

TENSORBOARD = LoggingConfig(tensorboard=True)
WANDB = LoggingConfig(wandb=WandbConfig(project="groups", entity="team"))
SECRET = "0123456789abcdef0123456789abcdef01234567"


class UsageError(Exception):
    """As wandb.errors.UsageError."""


class StandIn(types.ModuleType):
    """A stand-in for the package wandb, which is no dependency: it keeps what it is given, and the steps of a run are
    there for the next `init` with its id, as on W&B's server. Like W&B it ignores steps that are not new."""

    def __init__(self):
        super().__init__("wandb")
        self.__spec__ = ModuleSpec("wandb", None, origin="a test")
        self.errors = types.SimpleNamespace(UsageError=UsageError)
        self.calls: list[dict] = []
        self.server: dict[str, dict[int, dict]] = {}
        self.ended: list[int] = []
        self.failure: Exception | None = None

    def init(self, **options):
        if self.failure:
            raise self.failure
        self.calls.append(options)
        return StandInRun(self, self.server.setdefault(options["id"], {}))


class StandInRun:
    def __init__(self, wandb: StandIn, history: dict[int, dict]):
        self.wandb, self.history = wandb, history

    @property
    def step(self) -> int:
        return max(self.history, default=-1) + 1

    def log(self, values, step):
        if self.wandb.failure:
            raise self.wandb.failure
        assert step >= self.step, "W&B would warn and ignore this"
        self.history[step] = values

    def finish(self, exit_code):
        if self.wandb.failure:
            raise self.wandb.failure
        self.wandb.ended.append(exit_code)


@pytest.fixture
def wandb(monkeypatch):
    stand_in = StandIn()
    monkeypatch.setitem(sys.modules, "wandb", stand_in)
    monkeypatch.setenv("WANDB_API_KEY", SECRET)
    return stand_in


@pytest.fixture
def run(minimal):
    grid = validate_grid({**minimal, "training": {"steps": 10}})
    return grid.run(grid.cells()[0])


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path / "run")


def train(wanted, folder, run, first, last, **changes) -> list[StepRecord]:
    """What a stack does between a checkpoint before step `first` and the death or end of its process after `last`."""
    lines = folder.trace.read_text().splitlines(keepends=True) if folder.trace.exists() else []
    folder.path.mkdir(parents=True, exist_ok=True)
    folder.trace.write_text("".join(lines[: first - 1]))
    writer, records = TraceWriter(folder.trace), [record(step, **changes) for step in range(first, last + 1)]
    with ScalarLog(wanted, folder, run) as log:
        for each in records:
            writer.append(each)
            log.write(each)
    return records


def without_time_left(values: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in values.items() if name != "time/left_s"}


def test_a_step_by_hand():
    step = record(3, rounds=[1, 1], dual_variable=1.5, budget=None, reward=None, infeasible=True, vllm_kl=-0.01)
    assert scalars(step) == {
        "control/group_size": 4.0,
        "control/next_group_size": 6.0,
        "control/dual_variable": 1.5,
        "control/infeasible": 1.0,
        "control/straggler_rate": 0.5,
        "control/straggler_events": 1.0,
        "control/risk_4": 0.25,
        "control/risk_8": 0.75,
        "train/learning_rate": 1.5e-4,
        "train/optimizer_steps": 1.0,
        "train/policy_version": 2.0,
        "train/samples": 8.0,
        "train/kept_groups": 2.0,
        "train/filtered_groups": 0.0,
        "train/vllm_kl": -0.01,
        "rollout/prompts": 2.0,
        "rollout/tokens": 85.0,
        "rollout/idle_fraction": 1 - 85 / 320,
        "rollout/mean_length": 85 / 8,
        "rollout/median_length": 6.0,
        "rollout/max_length": 40.0,
        "rollout/truncated": 0.0,
        "rollout/rounds": 2.0,
        "time/step_s": 1.75,
        "time/rollout_s": 1.25,
        "time/train_s": 0.5,
        "time/sync_s": 0.0,
    }


def test_every_number_of_a_step_is_logged_once():
    """A field that is added to the trace has to be put into a group here too."""
    named = [name for names in GROUPS.values() for name in names]
    numbers = {field.name for field in dataclasses.fields(StepRecord) if field.type in (int, float, bool, float | None)}
    assert sorted(named) == sorted(numbers - {"step"})


def test_nothing_is_written_where_nothing_is_asked_for(folder, run):
    train(LoggingConfig(), folder, run, 1, 2)
    assert [path.name for path in folder.path.iterdir()] == ["trace.jsonl"]


def test_tensorboard_reads_back_what_the_trace_holds(folder, run, read_events):
    records = train(TENSORBOARD, folder, run, 1, 3)
    found = read_events(folder.path / "tensorboard")
    assert list(found) == [1, 2, 3]
    for each in records:
        expected = {name: [float(np.float32(value))] for name, value in scalars(each).items()}  # it stores 32 bits
        assert without_time_left(found[each.step]) == expected


def test_the_time_left_is_that_of_sagc_watch(folder, run, read_events):
    """The mean of the last ten steps x the steps left: 2 s x 9, then (2 + 4) / 2 s x 8."""
    writer = TraceWriter(folder.trace)
    with ScalarLog(TENSORBOARD, folder, run) as log:
        for each in (record(1, step_s=2.0), record(2, step_s=4.0)):
            writer.append(each)
            log.write(each)
    found = read_events(folder.path / "tensorboard")
    assert [found[step]["time/left_s"] for step in (1, 2)] == [[18.0], [24.0]]


def test_steps_that_are_done_again_take_the_place_of_the_first_ones(folder, run, read_events):
    train(TENSORBOARD, folder, run, 1, 5, reward=0.25)
    train(TENSORBOARD, folder, run, 4, 6, reward=0.75)
    found = read_events(folder.path / "tensorboard")
    assert {step: values["train/reward"] for step, values in sorted(found.items())} == {
        **{step: [0.25] for step in (1, 2, 3)},
        **{step: [0.75] for step in (4, 5, 6)},
    }


def test_steps_from_before_logging_was_asked_for_are_logged_too(folder, run, read_events, wandb):
    train(LoggingConfig(), folder, run, 1, 3)
    train(LoggingConfig(tensorboard=True, wandb=WANDB.wandb), folder, run, 4, 5)
    assert list(read_events(folder.path / "tensorboard")) == [1, 2, 3, 4, 5]
    ((_, history),) = wandb.server.items()
    assert list(history) == [1, 2, 3, 4, 5]


def test_steps_from_before_are_dated_as_if_nothing_had_come_between(folder, run):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    train(TENSORBOARD, folder, run, 1, 3, step_s=100.0)
    train(TENSORBOARD, folder, run, 4, 4, step_s=50.0)
    events = EventAccumulator(str(folder.path / "tensorboard")).Reload().Scalars("train/reward")
    times = [event.wall_time for event in events]
    assert np.diff(times) == pytest.approx([100, 100, 50], abs=5)


def test_wandb_is_told_which_run_it_is(folder, run, wandb):
    records = train(WANDB, folder, run, 1, 2)
    [options] = wandb.calls
    assert {name: options[name] for name in ("project", "entity", "mode", "resume", "name", "dir")} == {
        "project": "groups",
        "entity": "team",
        "mode": "online",
        "resume": "allow",
        "name": "tiny/grpo/vanilla/4/seed0",
        "dir": str(folder.path),
    }
    assert options["config"] == {"hash": run.hash, **run.model_dump(mode="json")}
    assert options["id"].startswith(run.hash)
    history = wandb.server[options["id"]]
    assert {step: without_time_left(values) for step, values in history.items()} == {
        each.step: scalars(each) for each in records
    }
    assert wandb.ended == [0]


def test_a_resumed_run_goes_on_in_the_same_wandb_run(folder, run, wandb):
    train(WANDB, folder, run, 1, 5, reward=0.25)
    train(WANDB, folder, run, 4, 6, reward=0.75)
    ((_, history),) = wandb.server.items()
    assert [values["train/reward"] for values in history.values()] == [0.25] * 5 + [0.75], "W&B never replaces a step"


def test_a_run_that_is_trained_anew_is_another_one_for_wandb(folder, run, wandb):
    train(WANDB, folder, run, 1, 2)
    for file in folder.checkpoints(run).parent.iterdir():  # as the end of a training does
        file.unlink()
    train(WANDB, folder, run, 1, 2)
    assert [list(history) for history in wandb.server.values()] == [[1, 2], [1, 2]]


def test_a_run_that_fails_has_failed_for_wandb(folder, run, wandb):
    with pytest.raises(KeyboardInterrupt), ScalarLog(WANDB, folder, run):
        raise KeyboardInterrupt
    assert wandb.ended == [1]


def test_the_key_of_the_account_is_written_nowhere(folder, run, wandb):
    folder.write_config(run)
    train(LoggingConfig(tensorboard=True, wandb=WANDB.wandb), folder, run, 1, 2)
    files = [path for path in folder.path.rglob("*") if path.is_file()]
    assert len(files) == 4  # config, trace, event file, id
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]
    assert SECRET not in json.dumps(wandb.calls)


def test_wandb_without_a_login_is_one_sentence(folder, run, wandb):
    wandb.failure = UsageError("No API key configured. Use `wandb login` to log in.\nMore of it.")
    with pytest.raises(UserError, match=r"^logging.wandb: No API key configured. Use `wandb login` to log in.$"):
        ScalarLog(WANDB, folder, run)


@pytest.mark.parametrize("at", ["start", "step", "end"])
def test_wandb_that_fails_ends_neither_the_run_nor_tensorboard(folder, run, wandb, read_events, caplog, at):
    failure = ConnectionError("no network")
    wandb.failure = failure if at == "start" else None
    writer = TraceWriter(folder.trace)
    with ScalarLog(LoggingConfig(tensorboard=True, wandb=WANDB.wandb), folder, run) as log:
        for step in (1, 2, 3, 4):
            wandb.failure = failure if at == "step" and step > 1 else None
            writer.append(record(step))
            log.write(record(step))
        wandb.failure = failure if at == "end" else None
    assert list(read_events(folder.path / "tensorboard")) == [1, 2, 3, 4]
    assert caplog.messages == ["Weights & Biases gets no more scalars of this run, which goes on: no network"]


@pytest.fixture
def quiet_thread(monkeypatch):
    """The thread in which TensorBoard writes prints what it fails of."""
    monkeypatch.setattr(threading, "excepthook", lambda failure: None)
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(5)


@pytest.mark.parametrize("after", [0, 2])
def test_event_files_that_cannot_be_written_do_not_end_the_run(folder, run, caplog, quiet_thread, after):
    """Their folder becomes a file after some steps; the four steps are done all the same."""
    writer, place = TraceWriter(folder.trace), folder.path / "tensorboard"
    with ScalarLog(TENSORBOARD, folder, run) as log:
        for step in range(1, 5):
            if step == after + 1:
                shutil.rmtree(place, ignore_errors=True)
                place.write_text("in the way")
            writer.append(record(step))
            log.write(record(step))
    [said] = caplog.messages
    assert said.startswith("TensorBoard gets no more scalars of this run, which goes on: ")


@pytest.mark.parametrize(("wanted", "name"), [(TENSORBOARD, "tensorboard"), (WANDB, "wandb")])
def test_a_package_that_is_missing_is_one_sentence(monkeypatch, wanted, name):
    monkeypatch.setattr(scalars_module.importlib.util, "find_spec", lambda package: None)
    with pytest.raises(UserError) as caught:
        check(wanted)
    assert str(caught.value) == (
        f"logging.{name} needs the package {name}, which is not installed; `pip install {name}`, or leave the key out"
    )
    check(LoggingConfig())


def test_a_folder_called_wandb_is_not_the_package(monkeypatch, tmp_path):
    """W&B leaves one in the working folder, from which Python could import."""
    (tmp_path / "no_such_package").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert not scalars_module._is_installed("no_such_package")
    assert scalars_module._is_installed("tensorboard")


def test_logging_is_no_part_of_a_run(minimal):
    plain = validate_grid(minimal)
    logged = validate_grid({**minimal, "logging": {"tensorboard": True, "wandb": {"project": "groups"}}})
    assert [logged.run(cell) for cell in logged.cells()] == [plain.run(cell) for cell in plain.cells()]
    assert [logged.run(cell).hash for cell in logged.cells()] == [plain.run(cell).hash for cell in plain.cells()]
