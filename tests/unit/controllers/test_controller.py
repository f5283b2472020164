"""The controllers: the published update by hand, invariants, checkpoints, refusals, and what they converge to."""

import copy
import inspect
import itertools
import json
import logging
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sagc
from sagc import SAGC, RobustSAGC, StaticGroupSize
from sagc.controllers.protocol import ControllerStatus
from sagc.controllers.registry import build_controller

STEPS, EVENT, CALM = 12, [10, 10, 10, 90], [10, 10, 10, 11]
properties = settings(deadline=None, max_examples=100)


def rollout(generator, group_size, groups=8, spread=0.5, log_median=3.3):
    """Lognormal lengths whose median differs by prompt."""
    difficulty = generator.normal(0, 0.4, (groups, 1))
    lengths = np.exp(log_median + difficulty + spread * generator.normal(size=(groups, group_size)))
    return np.clip(lengths, 4, 600).round().astype(int)


def play(controller, generator, steps=STEPS, **kwargs):
    """Straggler rates and the sizes played."""
    rates, sizes = [], []
    for _ in range(steps):
        sizes.append(controller.group_size)
        rates.append(controller.step(rollout(generator, controller.group_size, **kwargs)).straggler_rate)
    return rates, sizes


ladders = st.lists(st.integers(3, 20), min_size=1, max_size=5, unique=True).map(sorted)
shared = {"delta": st.floats(0.05, 0.95), "rho": st.floats(0.5, 1), "tau": st.floats(1.1, 3)}
sagc_parameters = st.fixed_dictionaries(
    {**shared, "eta": st.floats(0.01, 5), "initial_dual": st.floats(0, 10), "radius": st.integers(1, 3)}
    | {"event": st.sampled_from(["group", "step"])}
)
robust_parameters = st.fixed_dictionaries(
    {**shared, "integral_gain": st.floats(0, 1), "hysteresis": st.floats(0, 0.2), "budget_range": st.floats(0, 0.6)}
)


@st.composite
def controllers(draw, kinds=("sagc", "sagc-robust")):
    kind, ladder = draw(st.sampled_from(kinds)), draw(ladders)
    parameters = draw(sagc_parameters if kind == "sagc" else robust_parameters)
    return build_controller(kind, ladder=ladder, start=draw(st.sampled_from(ladder)), **parameters)


generators = st.builds(np.random.default_rng, st.integers(0, 2**32))
spreads = st.sampled_from([0.05, 0.4, 0.7, 1.2])
groups = st.integers(1, 9)


# The published update, by hand.


def test_posterior_and_dual_variable_by_hand():
    controller = SAGC(ladder=(4,), start=4, delta=0.5, eta=0.5, rho=0.5, prior=(1.0, 2.0))
    controller.step([EVENT, EVENT, EVENT, CALM])
    # alpha 1 + 3, beta 2 + 1; lambda 0.5 (3/4 - 1/2)
    assert controller.status() == ControllerStatus(
        dual_variable=0.125, risks={4: 4 / 7}, scores={4: 2 - 0.125 * 4 / 7}, infeasible=False
    )
    controller.step([EVENT, CALM])
    # alpha 1 + 0.5 * 3 + 1, beta 2 + 0.5 * 1 + 1; lambda unchanged at k/n = delta
    state = controller.state_dict()
    assert (state["alpha"], state["beta"], state["dual_variable"]) == ([3.5], [3.5], 0.125)
    controller.step([CALM] * 4)
    # lambda would be 0.125 - 0.25 without its bound
    state = controller.state_dict()
    assert (state["alpha"], state["beta"], state["dual_variable"]) == ([2.25], [6.75], 0.0)
    assert (state["step"], controller.steps) == (3, 3)


def test_every_size_forgets_and_the_one_played_observes():
    controller = SAGC(ladder=(4, 8, 16), start=4, rho=0.5)
    controller.step([CALM] * 4)
    assert controller.group_size == 8  # lambda is 0: the larger size, whatever is drawn
    controller.step([[10] * 8] * 6)
    assert controller.group_size == 16
    state = controller.state_dict()
    assert (state["alpha"], state["beta"]) == ([1.0, 1.0, 1.0], [3.0, 7.0, 1.0])


@pytest.mark.parametrize("radius", [1, 2])
def test_thompson_draws_for_neighbours_only_in_ladder_order(radius):
    controller = SAGC(ladder=(3, 4, 8, 16, 32), start=4, radius=radius, initial_dual=7.0, seed=5)
    controller.step([EVENT, CALM, EVENT, CALM])
    generator = np.random.default_rng(5)
    neighbours = (3, 4, 8, 16)[: 2 + radius]
    scores = {size: math.log2(size) - 7.0 * generator.beta(*((3, 3) if size == 4 else (1, 1))) for size in neighbours}
    assert controller.group_size == max(scores, key=scores.get)
    assert controller.state_dict()["generator"] == generator.bit_generator.state


def test_ties_go_to_the_smaller_size(monkeypatch):
    controller = SAGC(ladder=(4, 16), start=4, initial_dual=2.0)
    monkeypatch.setattr(controller._arms, "sample", lambda size, generator: {4: 0.0, 16: 1.0}[size])
    controller.step([EVENT, CALM])  # lambda stays 2: log2 4 - 0 = log2 16 - 2
    assert controller.group_size == 4


def test_step_events_count_one_per_rollout():
    controller = SAGC(ladder=(4,), start=4, event="step", rho=1)
    report = controller.step([[10] * 4] * 3 + [[30] * 4])
    assert (report.groups, report.events) == (1, 1)
    assert (controller.state_dict()["alpha"], controller.state_dict()["beta"]) == ([2.0], [1.0])


# The robust update, by hand.


def test_evidence_of_a_group_is_split_over_the_sizes_it_informs():
    controller = RobustSAGC(ladder=(3, 4, 5), start=4, rho=0.5)
    controller.step([EVENT, CALM])
    # Three of the four sub-groups of 3 hold the long response; each group counts half for 3 and half for 4.
    state = controller.state_dict()
    assert (state["events"], state["trials"]) == ([0.375, 0.5, 0.0], [1.0, 1.0, 0.0])
    controller._group_size = 3
    controller.step([[10, 10, 90]] * 4)
    state = controller.state_dict()
    assert (state["events"], state["trials"]) == ([4.1875, 0.25, 0.0], [4.5, 0.5, 0.0])


def test_budget_by_hand():
    controller = RobustSAGC(ladder=(4,), start=4, delta=0.5, integral_gain=0.2, budget_range=0.15)
    controller.step([EVENT, CALM, CALM, CALM])
    assert controller.status().budget == 0.5 + 0.2 * 0.25
    for _ in range(5):
        controller.step([CALM])
    assert controller.status().budget == 0.65
    for _ in range(9):
        controller.step([EVENT])
    assert controller.status().budget == 0.35


@pytest.mark.parametrize(("delta", "groups", "bound"), [(0.1, [EVENT], 0.0), (0.9, [CALM], 1.0)])
def test_the_budget_is_a_rate(delta, groups, bound):
    controller = RobustSAGC(ladder=(4,), start=4, delta=delta, integral_gain=1.0)
    controller.step(groups)
    assert controller.status().budget == bound
    controller.load_state_dict({**controller.state_dict(), "budget": 2 * bound - 0.5})
    assert controller.status().budget == bound


def test_a_budget_of_zero_makes_no_low_risk_infeasible(caplog):
    controller = RobustSAGC(ladder=(4, 8), start=4, delta=0.1, integral_gain=0.0)
    controller.load_state_dict({**controller.state_dict(), "budget": 0.0})
    with caplog.at_level(logging.WARNING, logger="sagc"):
        for _ in range(20):
            controller.step([CALM] * 63 + [EVENT])
    assert (controller.group_size, controller.status().budget) == (4, 0.0)
    assert 0 < controller.status().risks[4] < 0.1
    assert not controller.status().infeasible


@pytest.mark.parametrize(
    ("current", "risks", "following"),
    [
        (8, (0.1, 0.2, 0.3), 16),
        (4, (0.1, 0.2, 0.3), 8),  # one rung at a time
        (8, (0.1, 0.3, 0.44), 16),
        (8, (0.1, 0.3, 0.46), 8),  # fits, but by less than the hysteresis
        (8, (0.1, 0.52, 0.7), 8),  # exceeds by less than the hysteresis
        (8, (0.1, 0.56, 0.7), 4),
        (16, (0.1, 0.2, 0.7), 8),
        (16, (0.6, 0.7, 0.8), 8),  # nothing fits: towards the smallest
        (8, (0.6, 0.7, 0.8), 4),
        (4, (0.6, 0.7, 0.8), 4),
    ],
)
def test_moves_by_hand(current, risks, following):
    controller = RobustSAGC(ladder=(4, 8, 16), start=current, delta=0.5, hysteresis=0.05)
    assert controller._move(dict(zip(controller.ladder, risks, strict=True))) == following


def test_infeasible_is_flagged_and_said_once_per_stretch(caplog):
    controller = RobustSAGC(ladder=(4, 8), start=4, delta=0.3, rho=0.5)

    def stragglers(row, steps):
        flags = []
        for _ in range(steps):
            controller.step([[*row, *row][: controller.group_size]] * 16)
            flags.append(controller.status().infeasible)
        return flags

    with caplog.at_level(logging.WARNING, logger="sagc"):
        assert all(stragglers(EVENT, 10))
        assert [record.getMessage()[:50] for record in caplog.records] == [
            "constraint infeasible: even groups of 4 have a str"
        ]
        assert (controller.group_size, max(controller.status().scores.values()) < 0) == (4, True)

        resumed = RobustSAGC(ladder=(4, 8), start=4, delta=0.3, rho=0.5)
        resumed.load_state_dict(json.loads(json.dumps(controller.state_dict())))
        resumed.step([EVENT] * 16)
        assert resumed.status().infeasible
        assert len(caplog.records) == 1

        assert not any(stragglers(CALM, 10)[5:])
        stragglers(EVENT, 15)
        assert len(caplog.records) == 2
    assert caplog.records[0].name == "sagc"


# Invariants.


@properties
@given(controllers(), generators, spreads, groups)
def test_invariants(controller, generator, spread, groups):
    ladder = controller.ladder
    reach = controller.radius if isinstance(controller, SAGC) else 1
    for _ in range(STEPS):
        before = controller.group_size
        controller.step(rollout(generator, before, groups, spread))
        assert controller.group_size in ladder
        assert abs(ladder.index(controller.group_size) - ladder.index(before)) <= reach
        status = controller.status()
        assert tuple(status.risks) == tuple(status.scores) == ladder
        assert all(0 <= risk <= 1 for risk in status.risks.values())
        if isinstance(controller, SAGC):
            assert status.dual_variable >= 0
            assert (status.budget, status.infeasible) == (None, False)
        else:
            low, high = controller.delta - controller.budget_range, controller.delta + controller.budget_range
            assert low <= status.budget <= high
            risks = list(status.risks.values())
            assert risks == sorted(risks)
            assert status.dual_variable is None


@properties
@given(controllers(), generators, spreads, groups)
def test_order_of_groups_and_responses_changes_no_bit(controller, generator, spread, groups):
    other = copy.deepcopy(controller)
    for _ in range(STEPS):
        lengths = rollout(generator, controller.group_size, groups, spread)
        report = controller.step(lengths)
        shuffled = generator.permuted(generator.permutation(lengths), axis=1)
        assert other.step(shuffled.tolist()) == report
        assert json.dumps(other.state_dict()) == json.dumps(controller.state_dict())
        assert other.status() == controller.status()


@properties
@given(controllers(), generators, spreads, groups, st.integers(0, STEPS))
def test_a_checkpoint_continues_with_the_same_decisions(controller, generator, spread, groups, steps):
    fresh = copy.deepcopy(controller)
    play(controller, generator, steps, groups=groups, spread=spread)
    state = controller.state_dict()
    written = json.dumps(state, allow_nan=False)
    assert json.loads(written) == state
    fresh.load_state_dict(json.loads(written))
    assert fresh.state_dict() == state
    for _ in range(STEPS):
        lengths = rollout(generator, controller.group_size, groups, spread)
        assert fresh.step(lengths) == controller.step(lengths)
        assert fresh.state_dict() == controller.state_dict()
    assert json.dumps(state) == written  # a state is a copy: later steps do not reach it


@pytest.mark.parametrize("kind", ["sagc", "sagc-robust"])
def test_deterministic(kind):
    first, second = build_controller(kind), build_controller(kind)
    assert play(first, np.random.default_rng(3), 60) == play(second, np.random.default_rng(3), 60)
    assert first.state_dict() == second.state_dict()


def test_seeds_differ():
    sizes = {tuple(play(SAGC(seed=seed), np.random.default_rng(3), 60)[1]) for seed in range(5)}
    assert len(sizes) > 1


def test_static_never_moves():
    controller = StaticGroupSize(8)
    rates, sizes = play(controller, np.random.default_rng(0))
    assert set(sizes) == {8}
    assert 0 < np.mean(rates) < 1
    assert (controller.ladder, controller.steps, controller.status()) == ((8,), STEPS, ControllerStatus())


# Checkpoints that do not fit, and rollouts that do not.

KINDS = {"static": {"group_size": 8}, "sagc": {"start": 8}, "sagc-robust": {"start": 8}}


def played(kind, **parameters):
    controller = build_controller(kind, **KINDS[kind] | parameters)
    play(controller, np.random.default_rng(1))
    return controller


@pytest.mark.parametrize(("kind", "other"), list(itertools.permutations(KINDS, 2)))
def test_states_of_another_type_are_refused(kind, other):
    with pytest.raises(ValueError, match=f"state has type '{other}', but this controller has '{kind}'"):
        played(kind).load_state_dict(played(other).state_dict())


@pytest.mark.parametrize("kind", KINDS)
def test_incomplete_states_are_refused(kind):
    controller = played(kind)
    state = controller.state_dict()
    for key in state:
        with pytest.raises(ValueError, match=f"state lacks '{key}'"):
            controller.load_state_dict({name: value for name, value in state.items() if name != key})
    assert controller.state_dict() == state


def other_generator(**changes):
    return {"generator": np.random.PCG64(0).state | changes}


def test_a_state_saved_under_another_delta_goes_on_within_the_bounds_of_the_new_one():
    controller = RobustSAGC(delta=0.8)
    controller.load_state_dict(RobustSAGC(delta=0.5).state_dict())
    assert controller.status().budget == pytest.approx(0.65)  # 0.5, brought into 0.8 -/+ 0.15


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("static", {"ladder": [16]}, r"state has ladder \[16\], but this controller has \[8\]"),
        ("sagc", {"ladder": [4, 8]}, "state has ladder"),
        ("sagc", {"tau": 3.0}, "state has tau 3.0"),
        ("sagc", {"event": "step"}, "state has event 'step'"),
        ("sagc", {"group_size": 5}, r"state's group_size must be one of the ladder \[4, 8, 16\], got 5"),
        ("sagc", {"group_size": "8"}, "state's group_size"),
        ("sagc", {"step": -1}, "state's step"),
        ("sagc", {"dual_variable": -0.1}, "state's dual_variable must be a number of at least 0, got -0.1"),
        ("sagc", {"dual_variable": None}, "state's dual_variable"),
        ("sagc", {"alpha": [1, 2]}, "state's alpha must be a list of 3 numbers"),
        ("sagc", {"beta": [1, 2, 0]}, r"state's beta\[2\] must be a positive number, got 0"),
        ("sagc", {"generator": None}, "state's generator"),
        ("sagc", {"generator": np.random.MT19937(0).state}, "state's generator"),
        ("sagc", other_generator(state={"state": 1.5e38, "inc": 3}), "integers kept exactly"),
        ("sagc", other_generator(state={"state": "7", "inc": 3}), "state's generator"),
        ("sagc", other_generator(state={"state": 2**200, "inc": 3}), "state's generator"),
        ("sagc", other_generator(has_uint32="no"), "state's generator"),
        ("sagc-robust", {"budget": math.nan}, "state's budget must be a finite number"),
        ("sagc-robust", {"infeasible": 1}, "state's infeasible must be true or false, got 1"),
        ("sagc-robust", {"events": [9e9, 0, 0, 0, 0]}, "state's events must be at most its trials"),
        ("sagc-robust", {"trials": [math.nan] * 5}, "state's trials"),
    ],
)
def test_invalid_states_are_refused_and_change_nothing(kind, change, message):
    controller = played(kind)
    before, status = controller.state_dict(), controller.status()
    with pytest.raises(ValueError, match=message) as refusal:
        controller.load_state_dict({**before, "step": 99, **change})
    assert "\n" not in str(refusal.value)
    assert controller.state_dict() == before
    assert controller.status() == status


@pytest.mark.parametrize("state", [None, [], "static"])
def test_a_state_must_be_a_dictionary(state):
    with pytest.raises(ValueError, match="state must be a dictionary"):
        StaticGroupSize(4).load_state_dict(state)


@pytest.mark.parametrize("kind", ["sagc", "sagc-robust"])
def test_steering_parameters_may_change_over_a_checkpoint(kind):
    controller = build_controller(kind, **KINDS[kind], delta=0.55)
    controller.load_state_dict(played(kind).state_dict())
    assert (controller.delta, controller.steps) == (0.55, STEPS)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: [], "no groups"),
        (lambda rows: [*rows, []], "group 8 has no responses"),
        (lambda rows: [*rows, [5]], "group 8 has one response"),
        (lambda rows: [*rows, [5] * 9], "group 8 has 9 responses, but the controller asked for groups of"),
        (lambda rows: [row[:-1] for row in rows], r"group 0 has \d+ responses, but the controller asked for groups of"),
        (lambda rows: [[0, *rows[0][1:]], *rows[1:]], "group 0 holds 0"),
        (lambda rows: [*rows[1:], [math.nan, *rows[0][1:]]], "group 7 holds nan"),
    ],
)
def test_invalid_lengths_change_nothing(kind, change, message):
    controller = played(kind)
    before = copy.deepcopy(controller.state_dict())
    lengths = rollout(np.random.default_rng(2), controller.group_size).tolist()
    with pytest.raises(ValueError, match=message):
        controller.step(change(lengths))
    assert controller.state_dict() == before


# Parameters.

LADDER_ERRORS = [
    ({"ladder": []}, "ladder must be a list of at least one group size"),
    ({"ladder": 8}, "ladder must be a list"),
    ({"ladder": "4,8"}, "ladder must be a list"),
    ({"ladder": [4, 4]}, r"ladder must be strictly increasing, got \[4, 4\]"),
    ({"ladder": [8, 4]}, "ladder must be strictly increasing"),
    ({"ladder": [4.0, 8]}, r"ladder\[0\] must be an integer"),
    ({"ladder": [True, 8]}, r"ladder\[0\] must be an integer"),
    ({"ladder": [1, 8], "tau": 1.5}, r"ladder\[0\] must be an integer of at least 2 \(a group's baseline needs two"),
    ({"ladder": [2, 8]}, r"ladder\[0\] must be an integer of at least 3 \(max / median of two responses stays below 2"),
    ({"ladder": [2, 8], "tau": 2.5}, r"ladder\[0\] must be an integer of at least 3"),
    ({"start": 5}, "start must be one of the ladder .*, got 5"),
    ({"start": 8.0}, "start must be one of the ladder"),
    ({"tau": 1}, "tau must be a number above 1"),
    ({"tau": "2"}, "tau"),
    ({"event": "batch"}, "event must be one of 'group', 'step'"),
    ({"delta": 0}, "delta must be a straggler rate between 0 and 1, both excluded, got 0"),
    ({"delta": 1.0}, "delta"),
    ({"delta": True}, "delta"),
    ({"delta": math.nan}, "delta"),
    ({"rho": 0.0}, "rho"),
    ({"rho": 1.5}, "rho must be a number above 0 and at most 1, got 1.5"),
]
SAGC_ERRORS = [
    ({"eta": 0}, "eta must be a number above 0, got 0"),
    ({"eta": math.inf}, "eta"),
    ({"initial_dual": -1}, "initial_dual must be a number of at least 0, got -1"),
    ({"radius": 0}, "radius must be an integer of at least 1, got 0"),
    ({"radius": 1.5}, "radius"),
    ({"radius": True}, "radius"),
    ({"prior": (0, 1)}, "prior"),
    ({"seed": -1}, "seed must be an integer of at least 0, got -1"),
    ({"seed": None}, "seed"),
    ({"speed": 1}, "unknown parameter 'speed' of controller 'sagc'; allowed are ladder, start, tau"),
]
ROBUST_ERRORS = [
    ({"integral_gain": -0.1}, "integral_gain must be a number of at least 0, got -0.1"),
    ({"hysteresis": -0.1}, "hysteresis"),
    ({"budget_range": -0.1}, "budget_range"),
    ({"budget_range": math.inf}, "budget_range"),
    ({"prior_mean": (0, -1)}, "prior_mean"),
    ({"prior_precision": (1, 0)}, "prior_precision"),
    ({"event": "step"}, "event must be 'group' for sagc-robust, got 'step'"),
    ({"seed": 1}, "unknown parameter 'seed' of controller 'sagc-robust'; allowed are ladder"),
]
STATIC_ERRORS = [
    (
        {"group_size": 1},
        r"group_size must be an integer of at least 2 \(a group's baseline needs two responses\), got 1",
    ),
    ({"group_size": 8.0}, "group_size"),
    ({"group_size": True}, "group_size"),
    ({"group_size": 8, "tau": 0.5}, "tau"),
    ({"group_size": 8, "event": None}, "event"),
    (
        {"group_size": 8, "seed": 1},
        "unknown parameter 'seed' of controller 'static'; allowed are group_size, tau, event",
    ),
    ({}, "controller 'static' needs the parameter 'group_size'"),
]


@pytest.mark.parametrize(
    ("kind", "parameters", "message"),
    [("static", *case) for case in STATIC_ERRORS]
    + [("sagc", *case) for case in LADDER_ERRORS + SAGC_ERRORS]
    + [("sagc-robust", *case) for case in LADDER_ERRORS + ROBUST_ERRORS],
)
def test_invalid_parameters_are_refused(kind, parameters, message):
    with pytest.raises(ValueError, match=message) as refusal:
        build_controller(kind, **parameters)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("kind", ["paper", "SAGC", "", None, ["sagc"]])
def test_unknown_kinds_are_refused(kind):
    with pytest.raises(ValueError, match="kind must be one of 'static', 'sagc', 'sagc-robust'"):
        build_controller(kind)


def test_defaults_and_bounds_that_are_allowed():
    assert (SAGC().group_size, SAGC().ladder) == (16, (4, 8, 16))
    assert (RobustSAGC().group_size, RobustSAGC().ladder) == (8, (4, 6, 8, 12, 16))
    assert (StaticGroupSize(2).tau, StaticGroupSize(2).event) == (2.0, "group")
    assert SAGC(ladder=[2, 4], start=2, tau=1.9, rho=1, initial_dual=0, radius=9).ladder == (2, 4)
    assert RobustSAGC(ladder=range(3, 9), start=3, delta=0.05, budget_range=0.5, hysteresis=0).ladder[-1] == 8


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("static", {"group_size": 6, "tau": 3, "event": "step"}),
        ("sagc", {"ladder": (4, 8), "start": 4, "delta": 0.3, "eta": 2, "prior": (2, 1), "initial_dual": 1, "seed": 7}),
        ("sagc", {}),
        ("sagc-robust", {"ladder": range(3, 9), "start": 3, "prior_mean": [0, 1], "hysteresis": 0}),
        ("sagc-robust", {}),
    ],
)
def test_the_parameters_are_all_that_the_constructor_takes_and_build_the_same_controller(kind, given):
    controller = played(kind) if not given else build_controller(kind, **given)
    parameters = controller.parameters
    assert parameters.keys() == inspect.signature(type(controller)).parameters.keys()
    assert json.loads(json.dumps(parameters)) == parameters
    again = build_controller(kind, **parameters)
    assert again.parameters == parameters
    if given:
        assert again.state_dict() == controller.state_dict()


def test_repr_is_a_table():
    text = repr(played("sagc-robust"))
    assert text.startswith("RobustSAGC(group_size=")
    assert len(text.splitlines()) == 2 + 5
    assert sum(line.startswith(" >") for line in text.splitlines()) == 1
    assert repr(StaticGroupSize(8)) == "StaticGroupSize(group_size=8, steps=0)"


def test_importing_the_library_needs_numpy_only():
    script = "import sys, sagc; print(*sorted({m.split('.')[0] for m in sys.modules} - set(sys.stdlib_module_names)))"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    heavy = {"torch", "transformers", "trl", "vllm", "openrlhf", "pandas", "pydantic", "scipy", "click", "yaml"}
    assert {"numpy", "sagc"} <= set(result.stdout.split())
    assert not heavy & set(result.stdout.split())
    assert sagc.__version__ == "0.1.0"


# What they converge to: simulated lognormal lengths, 8 groups a step, 300 steps.


def simulate(kind, delta, spreads, seeds=6):
    """Straggler rates and sizes, (seeds, 300), for a spread in the first half and one in the second."""
    rates, sizes = [], []
    for seed in range(seeds):
        generator = np.random.default_rng(100 + seed)
        controller = build_controller(kind, delta=delta, **({"seed": seed} if kind == "sagc" else {}))
        halves = [play(controller, generator, 150, spread=spread) for spread in spreads]
        rates.append(halves[0][0] + halves[1][0])
        sizes.append(halves[0][1] + halves[1][1])
    return np.array(rates), np.array(sizes)


def distance(rates, delta):
    """Mean distance of the rolling rate over 20 steps from delta, after a start of 40 steps."""
    rolling = np.lib.stride_tricks.sliding_window_view(rates, 20, axis=1).mean(axis=2)
    return np.abs(rolling[:, 40:] - delta).mean()


def moves(sizes):
    return (sizes[:, 1:] != sizes[:, :-1]).mean()


def test_stationary_lengths():
    published, published_sizes = simulate("sagc", 0.5, (0.5, 0.5))
    robust, robust_sizes = simulate("sagc-robust", 0.5, (0.5, 0.5))
    # Both hold the rate; the published one by mixing the ends of the ladder, at a higher mean 1/G.
    assert published[:, 150:].mean() == pytest.approx(0.5, abs=0.03)
    assert robust[:, 150:].mean() == pytest.approx(0.5, abs=0.02)
    assert distance(robust, 0.5) < 0.03
    assert distance(published, 0.5) > 0.04
    assert moves(robust_sizes) < 0.15
    assert moves(published_sizes) > 0.4
    assert (1 / robust_sizes[:, 150:]).mean() < (1 / published_sizes[:, 150:]).mean() - 0.01


def test_drifting_lengths():
    published, _ = simulate("sagc", 0.5, (0.35, 0.6))
    robust, _ = simulate("sagc-robust", 0.5, (0.35, 0.6))
    assert distance(robust, 0.5) < 0.12
    assert distance(published, 0.5) > 0.13


def test_infeasible_then_easy():
    published, _ = simulate("sagc", 0.4, (0.9, 0.4))
    robust, sizes = simulate("sagc-robust", 0.4, (0.9, 0.4))
    assert set(sizes[:, 20:150].ravel()) == {4}
    # The dual variable wound up during the first half; the budget cannot.
    assert robust[:, 150:].mean() == pytest.approx(0.38, abs=0.03)
    assert published[:, 150:].mean() < 0.3
    assert distance(robust, 0.4) < 0.1
    assert distance(published, 0.4) > 0.14
