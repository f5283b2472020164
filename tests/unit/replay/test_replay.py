"""What smaller groups would have cost: against enumeration by hand, simulated runs, and runs that were really made."""

import dataclasses
import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from analysis.results.steps import step_row, steps_table
from analysis.results.summary import training_columns
from analysis.tables.replay import replay_frame, replay_text
from sagc.errors import UserError
from sagc.logs import Log, LoggedStep, read_log
from sagc.replay.arms import static_arm
from sagc.replay.estimate import MEASURES, answerable_sizes, replay, replay_all
from sagc.replay.intervals import Resamples
from sagc.replay.resizing import FIELDS, Rollouts
from sagc.replay.subgroups import Longest, informative_probability
from tests.unit.test_trace import record

DATA = Path(__file__).parent / "traces"
CELLS = ["tiny-qwen2-grpo", "tiny-llama-dapo"]

tokens = st.integers(1, 12)
few_groups = st.tuples(st.integers(1, 3), st.integers(2, 5)).flatmap(
    lambda shape: arrays(np.int64, shape, elements=tokens)
)


def subgroups(group, size):
    return list(itertools.combinations(group, size))


def step(lengths, rewards=None, rounds=None, kept=None):
    lengths = np.array(lengths)
    rewards = None if rewards is None else np.array(rewards, dtype=float)
    return LoggedStep(1, lengths, rewards, tuple(rounds or [len(lengths)]), len(lengths) if kept is None else kept)


def totals(log, size):
    return {name: sum(amounts[name] for amounts in Rollouts(log, 2.0).expected(size)) for name in FIELDS}


# Sub-groups, by enumeration ------------------------------------------------------------------------------------------


@given(few_groups, st.data())
def test_the_longest_response_is_that_of_all_subgroups_enumerated(lengths, data):
    size = data.draw(st.integers(1, lengths.shape[1]))
    choices = itertools.product(*(subgroups(group, size) for group in lengths.tolist()))
    longest = [max(map(max, choice)) for choice in choices]
    found = Longest(lengths, size)
    assert found.expect(found.of_all()) == pytest.approx(np.mean(longest))
    one = [max(choice) for group in lengths.tolist() for choice in subgroups(group, size)]
    assert found.expect(found.of_one()) == pytest.approx(np.mean(one))


@given(few_groups)
def test_the_longest_response_grows_with_the_size(lengths):
    means = [(longest := Longest(lengths, size)).expect(longest.of_all()) for size in range(1, lengths.shape[1] + 1)]
    assert all(a <= b + 1e-9 for a, b in itertools.pairwise(means))
    assert means[-1] == pytest.approx(lengths.max())


@given(
    arrays(
        np.float64, st.tuples(st.integers(1, 3), st.integers(2, 6)), elements=st.sampled_from([0.0, 0.5, 1.0, math.nan])
    ),
    st.data(),
)
def test_informative_subgroups_are_those_enumerated(rewards, data):
    size = data.draw(st.integers(1, rewards.shape[1]))

    def informative(chosen):
        return len({reward for reward in chosen if not math.isnan(reward)}) > 1

    wanted = [np.mean([informative(chosen) for chosen in subgroups(group, size)]) for group in rewards.tolist()]
    assert informative_probability(rewards, size) == pytest.approx(wanted, abs=1e-12)


# Rollouts ------------------------------------------------------------------------------------------------------------


def test_a_table_by_hand():
    log = Log("log", [step([[1, 2, 9], [4, 4, 4]], [[0, 0, 1], [1, 1, 1]])])
    found = totals(log, 2)
    # Pairs of the first group: (1, 2), (1, 9), (2, 9); the longest with the other group's 4 is 4, 9, 9.
    assert found["positions"] == pytest.approx(22 / 3)
    assert found["tokens"] == pytest.approx(2 * 4 + 2 * 4)
    assert found["slots"] == pytest.approx(4 * 22 / 3)
    assert found["informative"] == pytest.approx(2 / 3)
    assert (found["groups"], found["kept"], found["rounds"], found["steps"], found["group_size"]) == (2, 2, 1, 1, 2)
    assert found["events"] == 0  # of two, max / median stays below 2
    assert Rollouts(log, 1.5).expected(2)[0]["events"] == pytest.approx(2 / 3)  # 9 / 5 and 9 / 5.5


def test_rounds_have_barriers_of_their_own():
    both, apart = (Log("log", [step([[1, 9], [4, 4]], rounds=rounds)]) for rounds in ([2], [1, 1]))
    assert totals(both, 2)["positions"] == 9 and totals(both, 2)["slots"] == 36
    assert totals(apart, 2)["positions"] == 13 and totals(apart, 2)["slots"] == 26
    assert Rollouts(apart, 2.0).expected(3) == [None]


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("size", [16, 8, 4])
def test_the_size_that_was_played_has_the_numbers_of_its_summary(cell, size):
    log = read_log(DATA / cell / str(size))
    wanted = training_columns(steps_table(map(step_row, log.records)), event="group")
    found = totals(log, size)
    estimate = next(each for each in replay(log).estimates if each.played)
    assert estimate.values["straggler_rate"] == pytest.approx(wanted["straggler_rate"])
    assert estimate.values["idle_fraction"] == pytest.approx(wanted["idle_fraction"])
    assert found["tokens"] == wanted["tokens"]
    assert 1 - found["kept"] / found["groups"] == pytest.approx(wanted["filtered_share"])
    assert estimate.arm == str(size) and math.isnan(estimate.intervals["tokens"][0])


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_second_round_is_that_of_all_cases_enumerated(data):
    """Every case of dynamic sampling with two rounds: which places are empty, which groups and responses fill them."""
    groups, n, size = data.draw(st.integers(1, 2)), 3, 2
    pool = groups + data.draw(st.integers(0, 1))
    lengths = data.draw(arrays(np.int64, (pool, n), elements=tokens))
    rewards = data.draw(arrays(np.float64, (pool, n), elements=st.sampled_from([0.0, 1.0])))
    log = Log("log", [step(lengths, rewards, [groups, pool - groups] if pool > groups else None)], max_rounds=2)
    q = informative_probability(rewards, size)
    wanted = dict.fromkeys(("groups", "positions", "slots", "rounds", "tokens"), 0.0)
    first = Longest(lengths[:groups], size)
    first_longest = first.expect(first.of_all())
    for empty in itertools.product([0, 1], repeat=groups):
        weight = math.prod(1 - q[i] if hole else q[i] for i, hole in enumerate(empty))
        fills = [choice for group in lengths.tolist() for choice in subgroups(group, size)]
        cases = list(itertools.product(fills, repeat=sum(empty)))
        longest = np.mean([max(map(max, case), default=0) for case in cases])
        wanted["groups"] += weight * (groups + sum(empty))
        wanted["rounds"] += weight * (1 + any(empty))
        wanted["positions"] += weight * (first_longest + longest)
        wanted["slots"] += weight * size * (groups * first_longest + sum(empty) * longest)
        wanted["tokens"] += weight * size * (lengths[:groups].mean() * groups + lengths.mean() * sum(empty))
    found = totals(log, size)
    assert {name: found[name] for name in wanted} == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize(("max_rounds", "hold"), [(None, "prompts"), (None, "samples"), (3, "prompts"), (3, "samples")])
def test_rollouts_drawn_at_random_have_the_expected_amounts(max_rounds, hold):
    rng = np.random.default_rng(0)
    lengths = rng.lognormal(3, 0.8, (4, 8)).astype(int) + 1
    rewards = (rng.random((4, 8)) < [[0.1], [0.3], [0.9], [0.9]]).astype(float)
    log = Log("log", [step(lengths, rewards)], max_rounds=max_rounds, hold=hold)
    rollouts = Rollouts(log, 2.0)
    (expected,) = rollouts.expected(4)
    drawn = [rollouts.draw(0, 4, rng) for _ in range(2000)]
    assert all(draw.lengths.shape == (draw.amounts["groups"], 4) for draw in drawn)
    for name in FIELDS:
        values = np.array([draw.amounts[name] for draw in drawn])
        error = values.std() / len(values) ** 0.5
        # Which groups are kept goes with which are informative, and the mean of a ratio is not the ratio of means.
        slack = 0.03 * expected[name] if name in ("trained_tokens",) else 0.0
        if hold == "samples" and max_rounds is None:
            assert expected["groups"] == 8
        assert values.mean() == pytest.approx(expected[name], rel=1e-5, abs=4 * error + slack), name


def test_without_rewards_nothing_is_said_about_informative_groups():
    (estimate, *_) = replay(Log("log", [step([[1, 2, 9, 3], [4, 4, 4, 5]])] * 8)).estimates
    assert math.isnan(estimate.values["informative_share"]) and estimate.values["tokens"] == 32


# Against runs that were made -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("cell", CELLS)
def test_the_runs_that_were_made_are_where_a_larger_one_says(cell):
    """The first ten steps of static 8 and 4 in the intervals from static 16's (and 4's from 8's)."""
    outside, compared = [], 0
    for played, size in [(16, 8), (16, 4), (8, 4)]:
        estimates = {each.arm: each for each in replay(read_log(DATA / cell / str(played))).estimates}
        (real,) = (each for each in replay(read_log(DATA / cell / str(size))).estimates if each.played)
        for measure, value in real.values.items():
            low, high = estimates[str(size)].intervals[measure]
            compared += 1
            if not low - 1e-9 <= value <= high + 1e-9:
                outside.append((played, size, measure))
        low, high = estimates[str(size)].intervals["straggler_rate"]
        assert low <= real.values["straggler_rate"] <= high
    assert compared == 18 and len(outside) <= 2, outside  # 95 % intervals


def lognormal_log(rng, steps=24, groups=8, size=16):
    drift = np.linspace(3, 3.3, steps)[:, None, None]
    lengths = np.exp(drift + 0.3 * rng.normal(size=(steps, groups, 1)) + 0.6 * rng.normal(size=(steps, groups, size)))
    return Log("log", [step(np.ceil(rows).astype(int), (rows > 20).astype(float)) for rows in lengths])


def test_intervals_cover_other_runs_with_such_lengths():
    rng = np.random.default_rng(1)
    fresh = [
        {
            name: sum(amounts[name] for amounts in Rollouts(lognormal_log(rng, size=4), 2.0).expected(4))
            for name in FIELDS
        }
        for _ in range(50)
    ]
    inside = {measure: [] for measure in MEASURES if measure != "groups"}
    for _ in range(12):
        arm = static_arm(Rollouts(lognormal_log(rng), 2.0), 4)
        resamples = Resamples(FIELDS, arm.expected, arm.drawn, paths=False)
        for measure, found in inside.items():
            low, high = resamples.interval(MEASURES[measure])
            found += [low <= MEASURES[measure](run) <= high for run in fresh]
    for measure, found in inside.items():
        assert 0.88 < np.mean(found) <= 1, (measure, np.mean(found))


# Sizes, controllers, notes -------------------------------------------------------------------------------------------


def flat_log(n, steps=20, **changes):
    return Log("log", [step(np.full((2, n), 7), np.tile([0, 1], (2, n // 2)))] * steps, **changes)


@pytest.mark.parametrize(
    ("n", "tau", "hold", "sizes"),
    [
        (16, 2.0, "prompts", [4, 6, 8, 12, 16]),
        (10, 2.0, "prompts", [4, 6, 8, 10]),
        (32, 2.0, "prompts", [4, 6, 8, 12, 16, 24, 32]),
        (2, 1.5, "prompts", [2]),
        (24, 2.0, "samples", [4, 6, 8, 12, 16, 24]),
        (16, 2.0, "samples", [4, 8, 16]),
    ],
)
def test_which_sizes_a_log_answers(n, tau, hold, sizes):
    assert answerable_sizes(flat_log(n, hold=hold), tau) == sizes


def test_pairs_can_never_be_events():
    with pytest.raises(UserError, match="groups of 2, which can never be straggler events with tau 2"):
        replay(flat_log(2))


def test_controllers_climb_where_nothing_straggles():
    estimates = {each.arm: each for each in replay(flat_log(16)).estimates}
    assert estimates["sagc"].mean_group_size == 16 and estimates["sagc"].values["straggler_rate"] == 0
    robust = estimates["sagc-robust"]
    assert 12 < robust.mean_group_size < 16 and robust.moves == pytest.approx(2 / 20)  # 8, 12, 16
    assert robust.values["positions"] == 7 and robust.values["idle_fraction"] == 0
    assert robust.values["tokens"] == pytest.approx(2 * 7 * robust.mean_group_size)


def test_the_same_log_has_the_same_estimates():
    log = read_log(DATA / "tiny-llama-dapo" / "16")
    assert repr(replay(log).estimates) == repr(replay(log).estimates)


def test_a_ladder_is_cut_to_what_the_log_answers():
    found = replay(flat_log(12), controllers={"sagc": {"delta": 0.3}})
    assert any(note.startswith("sagc has the ladder 4, 8, the sizes of 4, 8, 16 that") for note in found.notes)
    assert any("sagc (class SAGC) with delta 0.3 moves" in note for note in found.notes)
    found = replay(flat_log(4))
    assert [each.arm for each in found.estimates] == ["4"]
    assert any("sagc cannot be replayed: of its ladder 4, 8, 16 the log answers 4." in note for note in found.notes)


def test_a_refused_parameter_names_its_controller():
    with pytest.raises(UserError, match="sagc: delta must be a straggler rate between 0 and 1"):
        replay(flat_log(16), controllers={"sagc": {"delta": 2.0}})


def test_a_budget_below_every_size_is_said():
    rng = np.random.default_rng(0)
    found = replay(lognormal_log(rng), controllers={"sagc-robust": {"delta": 0.05}})
    assert any("even groups of 4 were above its delta" in note for note in found.notes)


def test_a_log_of_several_sizes_answers_step_by_step():
    log = read_log(DATA / CELLS[0] / "16")
    steps = [*log.steps[:4], *read_log(DATA / CELLS[0] / "4").steps[4:]]
    run = log.run | {"cell": log.run["cell"] | {"group": "sagc"}}
    mixed = dataclasses.replace(log, steps=steps, run=run)
    (found,) = replay_all([mixed])
    assert {each.arm: each.steps for each in found.estimates} == {"4": 10, "6": 4, "8": 4, "12": 4, "16": 4, "sagc": 10}
    played = found.estimates[-1]
    assert played.played and played.mean_group_size == pytest.approx(8.8) and played.moves == pytest.approx(0.1)
    assert played.hours == pytest.approx(2 * (sum(r.step_s for r in mixed.records) / 3600,))
    four = found.estimates[0]
    assert four.values["straggler_rate"] == pytest.approx(MEASURES["straggler_rate"](totals(mixed, 4)))
    assert "A step tells about sizes up to its own: of 10 steps, the estimates use 10 for 4, 4 for 6" in replay_text(
        found
    ).replace("\n  ", " ")


# Hours and what is printed -------------------------------------------------------------------------------------------


def timed_log(size, per_position, per_slot, steps=30):
    """A run whose timings are exactly those costs."""
    rng, records = np.random.default_rng(size), []
    for number in range(steps):
        lengths = rng.lognormal(3, 0.6, (4, size)).astype(int) + 1
        positions = int(lengths.max())
        rollout_s = 0.2 + per_position * positions + per_slot * positions * lengths.size
        each = record(number + 1, lengths=lengths.tolist(), rounds=[4], kept_groups=4, tokens=int(lengths.sum()))
        train_s = 0.1 + 1e-3 * int(lengths.sum())
        records.append(dataclasses.replace(each, rollout_s=rollout_s, train_s=train_s, step_s=rollout_s + train_s))
    run = {"cell": {"model": "m", "stack": "vanilla", "group": size}}
    rewards = np.tile([0.0, 1.0], (4, size // 2))
    return Log(
        f"log{size}",
        [LoggedStep(r.step, np.array(r.lengths), rewards, (4,), 4, r) for r in records],
        run=run,
    )


@pytest.mark.parametrize(("per_position", "per_slot"), [(0.01, 0.0), (0.0, 2e-4), (0.004, 1e-4)])
def test_one_size_leaves_hours_open_and_two_tell_them(per_position, per_slot):
    large, small = timed_log(16, per_position, per_slot), timed_log(4, per_position, per_slot)
    (alone,) = replay_all([large])
    hours = {each.arm: each.hours for each in alone.estimates}
    total = totals(large, 8)
    rollout = 0.2 * 30 + per_position * total["positions"] + per_slot * total["slots"]
    true = (rollout + 0.1 * 30 + 1e-3 * total["tokens"]) / 3600
    low, high = hours["8"]
    assert low <= true * 1.0001 and true <= high * 1.0001 and high > 1.2 * low
    # The ends: the barrier's seconds are all of positions, or all of slots, of which groups of 8 have half.
    barrier = (per_position + 64 * per_slot) * total["positions"] / 3600
    assert high - low == pytest.approx(barrier / 2, rel=0.02)
    both, _ = replay_all([large, small])
    assert {each.arm: each.hours for each in both.estimates}["8"] == pytest.approx((true, true), rel=0.005)
    assert any("with groups of 16 alone it cannot tell" in note for note in alone.notes)
    assert any("timings of groups of 4, 16 leave open" in note for note in both.notes)


def test_timings_of_different_models_are_apart():
    one, other = timed_log(16, 0.01, 0.0), timed_log(4, 0.0, 1e-3)
    other = dataclasses.replace(other, run={"cell": {"model": "other", "stack": "vanilla", "group": 4}})
    together, alone = replay_all([one, other])[0], replay_all([one])[0]
    assert [each.hours for each in together.estimates] == [each.hours for each in alone.estimates]


def test_no_hours_without_a_config_or_timings():
    log = dataclasses.replace(timed_log(16, 0.01, 0.0), run={})
    (found,) = replay_all([log])
    assert [each.arm for each in found.estimates if each.hours] == ["16"]  # measured
    assert any("Without config.json it is not known how rows were batched" in note for note in found.notes)
    (few,) = replay_all([dataclasses.replace(timed_log(16, 0.01, 0.0), steps=log.steps[:7])])
    assert [each.arm for each in few.estimates if each.hours] == ["16"]
    assert any("fewer than 8 steps" in note for note in few.notes)
    assert replay_text(found).count("\N{EN DASH} |") == len(found.estimates) - 1
    assert "hours |" not in replay_text(replay(flat_log(16)))


def test_what_is_printed_and_written():
    (found,) = replay_all([read_log(DATA / "tiny-llama-dapo" / "16")], delta=0.65)
    text = replay_text(found)
    table, notes = text.split("\n\n")
    assert len({len(line) for line in table.splitlines()}) == 1 and len(table.splitlines()) == 9
    assert all(len(line) <= 120 for line in notes.splitlines())
    assert "16, played" in table and "groups" in table and "hours" in table
    assert "a policy trained with another group size would drift away from it" in notes
    assert "Dynamic sampling, at most 4 rounds" in notes
    frame = replay_frame([found]).set_index("arm")
    estimate = found.estimates[0]
    assert frame.loc["4", "tokens"] == estimate.values["tokens"]
    assert frame.loc["4", "straggler_rate_low"] == estimate.intervals["straggler_rate"][0]
    assert (frame.loc["4", "hours_low"], frame.loc["4", "hours_high"]) == estimate.hours
    assert f"{100 * estimate.values['straggler_rate']:.1f} [" in table
