"""The linear model of a step's seconds: its work counted by hand, costs found again, timings that say nothing."""

import dataclasses

import numpy as np
import pytest

from sagc.simulation.step_time import StepTime, Work, fit_step_time
from sagc.trace import StepRecord

COSTS = {"per_round": 0.2, "per_position": 0.01, "per_row": 3e-4, "per_step": 0.5, "per_trained_token": 2e-4}


def record(lengths, rounds=None, kept=None, rollout_s=1.0, train_s=1.0, sync_s=0.1) -> StepRecord:
    """A step of a trace; only what the model reads is real."""
    rounds = rounds or [len(lengths)]
    blank = {field.name: 0 for field in dataclasses.fields(StepRecord)}
    real = {"lengths": lengths, "rounds": rounds, "kept_groups": len(lengths) if kept is None else kept}
    times = {"rollout_s": rollout_s, "train_s": train_s, "sync_s": sync_s}
    return StepRecord(**{**blank, **real, **times, "tokens": sum(map(sum, lengths))})


def test_work_is_counted_round_by_round():
    work = Work.of(record([[3, 5], [2, 2], [9, 1]], rounds=[2, 1], kept=2))
    assert work == Work(rounds=2, positions=5 + 9, slots=4 * 5 + 2 * 9, tokens=22, trained_tokens=22 * 2 / 3)


def test_seconds_add_up():
    time, work = StepTime("padded", **COSTS, sync=0.1), Work(2, 14, 38, 22, 11)
    assert time.rollout_s(work) == pytest.approx(0.2 * 2 + 0.01 * 14 + 3e-4 * 38)
    assert time.train_s(work) == pytest.approx(0.5 + 2e-4 * 11)
    assert time.step_s(work) == pytest.approx(time.rollout_s(work) + time.train_s(work) + 0.1)
    continuous = dataclasses.replace(time, batching="continuous")
    assert continuous.rollout_s(work) == pytest.approx(0.2 * 2 + 0.01 * 14 + 3e-4 * 22)


@pytest.mark.parametrize("batching", ["continuous", "padded"])
def test_costs_are_found_again(batching):
    """From steps of two sizes with several rounds, whose seconds are exactly those of the model."""
    random, true = np.random.default_rng(0), StepTime(batching, **COSTS, sync=0.1)
    records = []
    for step in range(40):
        groups = random.integers(5, 90, size=(12, 4 if step % 2 else 16)).tolist()
        plain = record(groups, rounds=[8, 4] if step % 3 else [12], kept=12 - step % 4)
        work = Work.of(plain)
        records.append(dataclasses.replace(plain, rollout_s=true.rollout_s(work), train_s=true.train_s(work)))
    found = fit_step_time(records, batching)
    assert dataclasses.astuple(found)[1:] == pytest.approx(dataclasses.astuple(true)[1:], rel=1e-6)


def test_no_cost_is_negative():
    """Where more work took less time, it cost nothing."""
    records = [record([[n, n]], rollout_s=1 / n, train_s=1 / n) for n in (2, 4, 8)]
    found = fit_step_time(records, "continuous")
    assert min(dataclasses.astuple(found)[1:]) >= 0


def test_what_cannot_be_fitted_is_refused():
    with pytest.raises(ValueError, match="no steps"):
        fit_step_time([], "padded")
    with pytest.raises(ValueError, match="batching must be"):
        fit_step_time([record([[1, 2]])], "static")
