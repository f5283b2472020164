"""Simulated steps: what lengths are drawn, what steps take, costs of real runs, and the command."""

import dataclasses
import json
from collections import Counter

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from sagc import SAGC, StaticGroupSize
from sagc.cli import main
from sagc.errors import UserError
from sagc.simulation import steps as run
from sagc.simulation.calibration import held_out_misfit, misfit, read_runs
from sagc.simulation.lengths import LognormalLengths, Shape, TraceLengths
from sagc.simulation.step_time import StepTime, Work
from sagc.simulation.steps import Cluster, simulate
from sagc.trace import StepRecord, TraceWriter

COSTS = {"per_round": 0.5, "per_position": 0.01, "per_row": 0.001, "per_step": 2.0, "per_trained_token": 0.0001}
UNLIMITED = {"shortest": 1, "longest": 10**7}


def costs(batching="continuous") -> StepTime:
    return StepTime(batching, **COSTS, sync=3.0)


def record(step, lengths, times=(1.0, 1.0, 0.1)) -> StepRecord:
    """A step of a trace; only lengths and times are real."""
    blank = {field.name: 0 for field in dataclasses.fields(StepRecord)}
    blank |= {"prompt_index": [], "rewards": [], "risks": {}, "infeasible": False}
    real = {"step": step, "lengths": lengths, "rounds": [len(lengths)], "kept_groups": len(lengths)}
    real["tokens"] = sum(map(sum, lengths))
    return StepRecord(**{**blank, **real, **dict(zip(("rollout_s", "train_s", "sync_s"), times, strict=True))})


# Lengths -------------------------------------------------------------------------------------------------------------


def test_spreads_of_the_body():
    lengths = LognormalLengths(((0, Shape(3000.0, prompt_spread=0.3, response_spread=0.5)),), **UNLIMITED)
    log = np.log(lengths.sample(0, 0, prompts=4000, group_size=16))
    assert log.mean() == pytest.approx(np.log(3000), abs=0.02)
    assert log.std(axis=1, ddof=1).mean() == pytest.approx(0.5, abs=0.015)
    assert log.mean(axis=1).std() == pytest.approx(np.sqrt(0.3**2 + 0.5**2 / 16), abs=0.015)


def test_weight_and_index_of_the_tail():
    shape = Shape(1000.0, prompt_spread=0.0, response_spread=0.0, tail_weight=0.2, tail_index=1.5)
    lengths = LognormalLengths(((0, shape),), **UNLIMITED).sample(0, 0, prompts=20_000, group_size=8)
    for factor in (1.1, 2, 8):
        assert np.mean(lengths > 1000 * factor) == pytest.approx(0.2 * factor**-1.5, abs=0.003)


def test_lengths_are_whole_and_cut_off():
    lengths = LognormalLengths(((0, Shape(50.0, response_spread=3.0)),), shortest=7, longest=90).sample(0, 0, 200, 8)
    assert lengths.dtype.kind == "i" and (lengths.min(), lengths.max()) == (7, 90)


def test_values_are_linear_between_points():
    lengths = LognormalLengths(((0, Shape(100.0, response_spread=0.2)), (10, Shape(400.0, response_spread=0.6))))
    middle = lengths.shape(5)
    assert middle.median == pytest.approx(200) and middle.response_spread == pytest.approx(0.4)
    assert lengths.shape(10) == lengths.shape(99)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**31), st.integers(0, 500), st.integers(1, 9), st.integers(2, 15))
def test_a_larger_group_only_adds_responses(seed, step, prompts, size):
    lengths = LognormalLengths(((0, Shape(tail_weight=0.3)),))
    small, large = (lengths.sample(seed, step, prompts, n) for n in (size, 16))
    assert np.array_equal(small, large[:, :size])


def test_groups_of_traces_are_parts_of_real_ones():
    random = np.random.default_rng(0)
    trace = [record(step, (1000 * step + random.integers(1, 999, (4, 8))).tolist()) for step in range(1, 21)]
    lengths = TraceLengths([trace], steps=100)
    assert lengths.largest == 8
    for step, near in ((0, range(1, 6)), (99, range(16, 21))):
        groups = lengths.sample(3, step, prompts=30, group_size=6)
        assert np.array_equal(groups, lengths.sample(3, step, 30, 6))
        for group in groups.tolist():
            assert group[0] // 1000 in near
            real = [one for one in trace[group[0] // 1000 - 1].lengths if not Counter(group) - Counter(one)]
            assert real, "no group of that step has these responses"
    with pytest.raises(ValueError, match="no group of 9 responses or more near step 0"):
        lengths.sample(0, 0, 4, 9)


# Steps ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batching", ["continuous", "padded"])
def test_one_engine_without_limits_takes_what_the_fitted_model_says(batching):
    lengths = LognormalLengths().sample(0, 0, prompts=6, group_size=8)
    seconds = Cluster(costs(batching)).seconds(lengths[None])
    work = Work.of(record(1, lengths.tolist()))
    assert seconds["step_s"][0] == pytest.approx(costs(batching).step_s(work))
    assert seconds["rollout_s"][0] == pytest.approx(costs(batching).rollout_s(work))
    assert seconds["train_s"][0] == pytest.approx(costs(batching).train_s(work))


def test_the_step_waits_for_the_slowest_engine():
    lengths = np.array([[[10, 20], [5, 5], [30, 40]]])  # engine 0 has the first and the third group
    seconds = Cluster(costs(), engines=2, prompt_tokens=100, per_prefilled_token=0.002).seconds(lengths)
    assert {name: value[0] for name, value in seconds.items()} == pytest.approx(
        {
            "iterations": 40,
            "barrier_s": 0.4,
            "rows_s": 0.1,
            "prefill_s": 0.8,
            "preemptions": 0,
            "rollout_s": 0.5 + 0.4 + 0.1 + 0.8,
            "train_s": 2 + 0.011,
            "sync_s": 3.0,
            "step_s": 1.8 + 2.011 + 3,
        }
    )


def test_steps_are_in_order_whatever_is_computed_together(monkeypatch):
    lengths = LognormalLengths()
    cluster = Cluster(costs(), engines=2, max_running=16)
    together = simulate(SAGC(seed=2), lengths, cluster, steps=40, prompts=8, seed=5)
    assert together["group_size"].nunique() > 1
    monkeypatch.setattr(run, "BUFFER", 1)
    alone = simulate(SAGC(seed=2), lengths, cluster, steps=40, prompts=8, seed=5)
    assert together.equals(alone)
    for row in together.itertuples():
        sampled = lengths.sample(5, row.step - 1, 8, row.group_size)
        assert row.tokens == sampled.sum()
        assert row.step_s == pytest.approx(cluster.seconds(sampled[None])["step_s"][0])


def test_arms_see_the_same_responses():
    tables = [
        simulate(StaticGroupSize(size), LognormalLengths(), Cluster(costs()), steps=5, prompts=4) for size in (4, 16)
    ]
    assert (tables[0]["max_length"] <= tables[1]["max_length"]).all()


# Costs of real runs --------------------------------------------------------------------------------------------------


def timed_trace(seed=0, noise=0.0) -> list[StepRecord]:
    random, trace = np.random.default_rng(seed), []
    for step in range(1, 21):
        plain = record(step, random.integers(5, 90, size=(6, 4 if step % 3 else 16)).tolist())
        work, factor = Work.of(plain), 1 + noise * random.normal()
        trace.append(record(step, plain.lengths, (costs().rollout_s(work) * factor, costs().train_s(work), 3.0)))
    return trace


def test_exact_timings_have_no_misfit():
    found = held_out_misfit([timed_trace(0), timed_trace(1)], "continuous")
    assert (found.steps, found.median, found.total) == (20, pytest.approx(0, abs=1e-6), pytest.approx(0, abs=1e-6))
    assert held_out_misfit([timed_trace(noise=0.1)], "continuous").median > 0.005


def test_misfit_by_hand():
    trace = timed_trace()[:2]
    seconds = [costs().step_s(Work.of(one)) for one in trace]
    slower = [dataclasses.replace(trace[0], sync_s=3 + seconds[0]), trace[1]]  # took twice as long, and as predicted
    found = misfit(costs(), slower)
    assert found.median == pytest.approx((0.5 + 0) / 2)
    assert found.total == pytest.approx(sum(seconds) / (sum(seconds) + seconds[0]) - 1)


@pytest.fixture
def run_folder(tmp_path):
    """Writes a run folder with a trace: `run_folder("name", "openrlhf")` -> its path."""

    def write(name: str, stack: str, trace=None):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps({"run": {"cell": {"stack": stack}}}), encoding="utf-8")
        writer = TraceWriter(folder / "trace.jsonl")
        for one in timed_trace() if trace is None else trace:
            writer.append(one)
        return str(folder)

    return write


def test_run_folders_that_cannot_serve(run_folder, tmp_path):
    good, other = run_folder("good", "openrlhf"), run_folder("other", "vanilla")
    traces, batching = read_runs([good])
    assert batching == "continuous" and len(traces[0]) == 20
    for folders, sentence in (
        ([tmp_path / "none"], "none: the trace cannot be read"),
        ([run_folder("short", "vanilla", timed_trace()[:1])], "has 1 steps, and the costs need at least 2"),
        ([run_folder("odd", "mine")], "does not name one of the stacks vanilla, openrlhf"),
        ([good, other], "of stacks that batch differently"),
        ([], "no run folder"),
    ):
        with pytest.raises(UserError, match=sentence):
            read_runs(folders)


# The command ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def call(project, monkeypatch):
    """`call(*arguments)` -> the result of `sagc simulate` in the project's folder."""
    monkeypatch.chdir(project)
    return lambda *arguments: CliRunner().invoke(main, ["simulate", *map(str, arguments)])


def test_the_command_prints_a_line_per_arm(call, tmp_path):
    arguments = ["--set", "steps=5", "--set", "arms=[4, sagc]", "--csv", tmp_path / "steps.csv"]
    result = call(*arguments)
    assert result.exit_code == 0, result.output
    first, _, *arms = (line.split("|")[1].strip() for line in result.output.splitlines() if line.startswith("|"))
    assert (first, arms) == ("arm", ["4", "sagc"])
    steps = (tmp_path / "steps.csv").read_text().splitlines()
    assert len(steps) == 1 + 2 * 5 and steps[0].startswith("arm,step,group_size")
    assert call(*arguments).output == result.output


def test_the_command_takes_lengths_and_costs_of_runs(call, run_folder):
    folder = run_folder("mine", "openrlhf", [one for one in timed_trace() if len(one.lengths[0]) == 16])
    result = call(
        *("--set", f"lengths={{type: traces, runs: [{folder}]}}", "--set", "steps=4"),
        *("--set", f"cluster={{costs: {{type: fitted, runs: [{folder}]}}}}"),
    )
    assert result.exit_code == 0, result.output
    assert "predict the seconds of their 3 even ones with a median error of 0." in result.output


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("cluster.engines=0", "cluster.engines is 0"),
        ("cluster.kv_tokens=100", "a sequence must fit"),
        ("cluster.odd=1", "unknown key cluster.odd"),
        ("lengths.points=[{step: 3}]", "points are at the steps [3], and must begin at 0 and increase"),
        ("lengths.shortest=9000", "shortest is 9000, above longest, 8192"),
        ("cluster.costs.batching=padded", "max_running and kv_tokens limit continuous batching"),
        ("controllers.sagc={eta: 0}", "arm sagc: eta must be a number above 0, got 0"),
        ("arms=[1]", "arm 1: group_size must be an integer of at least 2"),
        ("lengths={type: traces, runs: [nowhere]}", "nowhere: the trace cannot be read"),
        ("steps", "--set 'steps' is not of the form key=value"),
    ],
)
def test_mistakes_are_one_sentence(call, change, sentence):
    result = call("--set", change)
    assert result.exit_code == 2
    assert result.output.startswith("Error: ") and result.output.count("\n") == 1
    assert sentence in result.output


def test_traces_with_smaller_groups_than_an_arm_asks_for_are_refused(call, run_folder):
    folder = run_folder("mine", "openrlhf")
    result = call("--set", f"lengths={{type: traces, runs: [{folder}]}}")
    assert (result.exit_code, result.output) == (2, "Error: arm 8 may ask for groups of 8, and the traces have 4\n")
