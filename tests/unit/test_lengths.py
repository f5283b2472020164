"""Group statistics: hand-computed reports, exact sub-group probabilities, and what is refused."""

import itertools
import math
import statistics

import numpy as np
import pytest

from sagc import lengths as lengths_module
from sagc.controllers.static import StaticGroupSize
from sagc.lengths import (
    GroupLengths,
    StragglerReport,
    decode_slots,
    expected_events,
    idle_fraction,
    straggler_report,
    subgroup_straggler_probability,
)
from sagc.run.rollout import Rollout


def by_enumeration(row, size, tau):
    """Share of the sub-groups of `size` that are straggler events, each looked at."""
    events = [max(chosen) / statistics.median(chosen) > tau for chosen in itertools.combinations(row, size)]
    return sum(events) / len(events)


def test_report_by_hand():
    # Medians 25 and 20: 90 / 25 = 3.6 is an event, 40 / 20 = 2 is not (strictly greater).
    assert straggler_report([[10, 20, 30, 90], [20, 20, 20, 40]], 2.0) == StragglerReport(
        groups=2,
        events=1,
        straggler_rate=0.5,
        idle_fraction=1 - 31.25 / 90,
        responses=8,
        tokens=250,
        max_length=90,
        mean_length=31.25,
        median_length=20.0,
    )


def test_report_over_the_whole_step():
    report = straggler_report([[10, 10, 10, 11], [20, 20, 20, 21]], 2.0, event="step")
    assert (report.groups, report.events, report.straggler_rate) == (1, 0, 0.0)  # 21 / 15.5 = 1.35
    report = straggler_report([[10, 10, 10, 10], [20, 20, 20, 40]], 2.0, event="step")
    assert (report.groups, report.events, report.straggler_rate) == (1, 1, 1.0)  # 40 / 15 = 2.67
    assert report.median_length == 15.0
    assert straggler_report([[10, 10], [20, 30]], 2.0, event="step").events == 0  # 30 / 15 = 2, strictly


@pytest.mark.parametrize(
    ("row", "tau", "event"),
    [
        ([10, 10, 20], 2.0, False),  # odd: median 10, ratio 2
        ([10, 10, 21], 2.0, True),
        ([10, 12, 14, 26], 2.0, False),  # even: median 13, ratio 2
        ([10, 12, 14, 27], 2.0, True),
        ([100, 100, 115], 1.15, False),  # 1.15 * 100 rounds to less than 115
        ([100, 100, 116], 1.15, True),
        ([7, 7], 2.0, False),
        ([1, 1000], 2.0, False),  # two responses never reach twice their median
        ([1, 1000], 1.5, True),
    ],
)
def test_event_is_strict(row, tau, event):
    assert straggler_report([row], tau).events == event
    assert subgroup_straggler_probability([row], len(row), tau) == [event]


@pytest.mark.parametrize("rounds", [[2], [1, 1]])
def test_the_idle_fraction_of_a_rollout_is_that_of_its_rounds(rounds):
    """One definition: 1 - tokens / slots; with one round 1 - mean / max, as the report has it."""
    lengths = [[10, 20, 30, 40], [5, 5, 5, 10]]
    rollout = Rollout(1, 4, 2, rounds=rounds, lengths=lengths, report=straggler_report(lengths, 2.0))
    recorded = rollout.record(StaticGroupSize(4), processor_s=None).idle_fraction
    assert recorded == idle_fraction(125, decode_slots(lengths, rounds))
    assert recorded == pytest.approx({1: 1 - 15.625 / 40, 2: 1 - 125 / (160 + 40)}[len(rounds)])
    if len(rounds) == 1:
        assert recorded == straggler_report(lengths, 2.0).idle_fraction


def test_equal_lengths_leave_nothing_idle():
    assert straggler_report([[7] * 3] * 5, 2.0).idle_fraction == 0.0


def test_groups_of_different_sizes_keep_their_order():
    rollout = [[5, 6, 30], [9, 9, 9, 9, 40], [5, 6, 7], [1, 2]]
    assert straggler_report(rollout, 2.0).events == 2
    probabilities = subgroup_straggler_probability(rollout, 2, 1.5)
    assert probabilities.tolist() == pytest.approx([by_enumeration(row, 2, 1.5) for row in rollout])


@pytest.mark.parametrize("n", range(2, 11))
@pytest.mark.parametrize("highest", [4, 12, 200])  # many ties, some, few
def test_subgroup_probability_equals_enumeration(n, highest):
    rollout = np.random.default_rng(n).integers(1, highest, (3, n), endpoint=True)
    for size, tau in itertools.product(range(2, n + 1), (1.15, 1.5, 2.0, 3.0)):
        expected = [by_enumeration(row, size, tau) for row in rollout.tolist()]
        assert subgroup_straggler_probability(rollout, size, tau).tolist() == expected
        assert expected_events(rollout, size, tau) == pytest.approx(sum(expected), abs=1e-12)


@pytest.mark.parametrize(("n", "size"), [(16, 5), (64, 33), (70, 35), (128, 64)])  # beyond n = 66, int64 is too small
def test_subgroups_of_large_groups_are_counted_exactly(n, size):
    # A sub-group is an event exactly if it holds the one long response.
    probability = subgroup_straggler_probability([[10] * (n - 1) + [100], [10] * n], size, 2.0)
    assert probability.tolist() == [size / n, 0.0]


def test_leaving_one_out_of_a_large_group():
    row = np.random.default_rng(0).lognormal(5, 0.4, 41).astype(int).tolist()
    tau = max(row) / statistics.median(row) - 0.05
    assert subgroup_straggler_probability([row], 40, tau)[0] == by_enumeration(row, 40, tau)


def test_large_rollouts_are_counted_in_chunks(monkeypatch):
    rollout = np.random.default_rng(1).integers(1, 50, (20, 9))
    whole = subgroup_straggler_probability(rollout, 4, 2.0)
    monkeypatch.setattr(lengths_module, "_CHUNK", 700)
    assert subgroup_straggler_probability(rollout, 4, 2.0).tolist() == whole.tolist()


def test_order_changes_no_bit():
    generator = np.random.default_rng(2)
    rollout = [generator.lognormal(4, 0.8, n).astype(int).tolist() for n in (5, 9, 13, 9, 5, 13, 7)]
    report, expected = straggler_report(rollout, 2.0), expected_events(rollout, 4, 2.0)
    for _ in range(20):
        shuffled = [generator.permutation(rollout[i]).tolist() for i in generator.permutation(len(rollout))]
        assert straggler_report(shuffled, 2.0) == report
        assert expected_events(shuffled, 4, 2.0) == expected


class Tensor:
    """What the library sees of a CPU tensor: rows to iterate over, each of which becomes an array."""

    def __init__(self, values):
        self.values = np.array(values)

    def __iter__(self):
        return (Tensor(row) for row in self.values)

    def __array__(self, dtype=None, copy=None):
        return self.values


@pytest.mark.parametrize(
    "convert",
    [
        np.array,
        lambda rows: np.array(rows, dtype=float),
        lambda rows: np.array(rows, dtype=np.uint64),
        lambda rows: np.array(rows, dtype=np.float16),
        lambda rows: tuple(map(tuple, rows)),
        lambda rows: [np.array(rows[0], dtype=np.int16), rows[1]],
        lambda rows: (row for row in rows),
        Tensor,
        lambda rows: [Tensor(row) for row in rows],
    ],
)
def test_any_kind_of_sequence(convert):
    rows = [[10, 20, 30, 90], [20, 20, 20, 40]]
    assert straggler_report(convert(rows), 2.0) == straggler_report(rows, 2.0)


def test_parsing_leaves_the_input_alone():
    rollout = np.array([[30, 10, 20]])
    GroupLengths.parse(rollout)
    assert rollout.tolist() == [[30, 10, 20]]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([], "no groups"),
        (np.empty((0, 4)), "no groups"),
        ([[3, 4], []], "group 1 has no responses"),
        (np.empty((3, 0)), "group 0 has no responses"),
        ([[3, 4], [5, 6], [7]], "group 2 has one response"),
        ([[3, 4], [5, 0]], "group 1 holds 0"),
        ([[3, 4, 5], [5, -2]], "group 1 holds -2"),
        ([[3, 4], [5, 2.5]], "group 1 holds 2.5"),
        ([[3, 4], [5, math.nan]], "group 1 holds nan"),
        ([[3, math.inf], [5, 4]], "group 0 holds inf"),
        ([[3, 2**31], [5, 4]], "group 0 holds 2147483648"),
        ([[3, 4], [5, 2**70]], "group 1 must be a flat sequence"),
        ([[3, 4], ["5", "6"]], "group 1 must be a flat sequence"),
        ([[3, 4], [True, True]], "group 1 must be a flat sequence"),
        (np.ones((2, 3), dtype=bool), "group 0 must be a flat sequence"),
        ([[3, 4], [[5], [6, 7]]], "group 1 must be a flat sequence"),
        (np.ones((2, 3, 4)), "group 0 must be a flat sequence"),
        ([3, 4, 5], "group 0 must be a flat sequence"),
        ([[3, 4], None], "group 1 must be a flat sequence"),
        (7, "one sequence of token counts per group"),
    ],
)
def test_invalid_lengths_are_refused(bad, message):
    with pytest.raises(ValueError, match=message) as refusal:
        straggler_report(bad, 2.0)
    assert "lengths" in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("tau", [1.0, 0.5, -2, math.nan, math.inf, 10**400, True, "2", None])
def test_invalid_tau_is_refused(tau):
    with pytest.raises(ValueError, match="tau must be a number above 1"):
        straggler_report([[3, 4]], tau)


def test_invalid_event_is_refused():
    with pytest.raises(ValueError, match="event must be one of 'group', 'step', got 'batch'"):
        straggler_report([[3, 4]], 2.0, event="batch")


@pytest.mark.parametrize("size", [1, 0, -3, 2.0, True, "4", None])
def test_invalid_size_is_refused(size):
    with pytest.raises(ValueError, match="size must be an integer of at least 2"):
        subgroup_straggler_probability([[3, 4, 5]], size, 2.0)


def test_a_subgroup_larger_than_its_group_is_refused():
    with pytest.raises(ValueError, match="size must be at most the group's, got 4 for group 1 of 3"):
        subgroup_straggler_probability([[3, 4, 5, 6], [3, 4, 5]], 4, 2.0)
