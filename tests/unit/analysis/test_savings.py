"""Where the time went: the split against numbers by hand, that it adds up, and what the table says."""

import math

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.tables.time_split import PARTS, logarithmic_mean, savings, savings_table, split
from tests.unit.analysis.test_equal_cost import make_run, make_steps

PRODUCT = ("groups", "resampling", "length", "waits", "speed")


def steps_of(rollout, train=0.0, sync=0.0, other=0.0, count=1, **columns) -> pd.DataFrame:
    """Steps that are all alike: seconds of their parts, and their responses, tokens and slots."""
    columns = {"prompts": 5, "group_size": 4, "responses": 20} | columns
    times = {"rollout_s": rollout, "train_s": train, "sync_s": sync, **columns}
    return make_steps([0.5] * count, seconds=rollout + train + sync + other, **times)


def one(*runs) -> dict:
    [row] = savings(runs).to_dict(orient="records")
    return row


# The split -----------------------------------------------------------------------------------------------------------


def test_a_split_by_hand():
    reference = steps_of(
        8.0, train=4.0, sync=0.5, other=0.25, prompts=4, group_size=8, responses=32, tokens=320, slots=640
    )
    own = steps_of(4.0, train=3.0, sync=0.75, other=0.5, prompts=4, group_size=2, responses=16, tokens=160, slots=640)
    # A quarter of the responses asked for, twice as many generated per response asked for, of the same length, with
    # twice the slots per token and half the seconds per slot; in units of L(4, 8) ln 2 = 4 seconds.
    parts = split(own, reference)
    assert [parts[name] for name in PRODUCT] == pytest.approx([8.0, -4.0, 0.0, -4.0, 4.0])
    assert [parts[name] for name in ("train", "sync", "other")] == [1.0, -0.25, -0.25]
    assert list(parts) == list(PARTS)


def test_one_factor_has_all_of_it():
    reference = steps_of(8.0, tokens=100, slots=400)
    waits = steps_of(3.0, tokens=100, slots=150)
    assert split(waits, reference)["waits"] == pytest.approx(5.0)
    faster = steps_of(3.0, tokens=100, slots=400)
    assert split(faster, reference)["speed"] == pytest.approx(5.0)


def test_rollouts_that_took_no_time():
    nothing = steps_of(0.0, tokens=50, slots=60)
    reference = steps_of(8.0, tokens=100, slots=400)
    assert split(nothing, reference) == dict.fromkeys(PARTS, 0.0) | {"speed": 8.0}
    assert split(nothing, nothing) == dict.fromkeys(PARTS, 0.0)


seconds = st.just(0.0) | st.floats(1e-9, 1e6)
sizes = st.integers(1, 10**6)
runs = st.builds(
    steps_of,
    seconds,
    train=seconds,
    sync=seconds,
    other=seconds,
    count=st.integers(1, 3),
    group_size=st.integers(2, 64),
    responses=sizes,
    tokens=sizes,
    slots=sizes,
)


@given(runs, runs)
def test_the_parts_add_up(own, reference):
    parts = split(own, reference)
    total = own["step_s"].sum() + reference["step_s"].sum()
    assert sum(parts.values()) == pytest.approx(reference["step_s"].sum() - own["step_s"].sum(), abs=1e-9 * total)


@given(runs, runs)
def test_both_sides_are_treated_alike(own, reference):
    there, back = split(own, reference), split(reference, own)
    total = own["step_s"].sum() + reference["step_s"].sum()
    assert [there[name] for name in PARTS] == pytest.approx([-back[name] for name in PARTS], rel=1e-6, abs=1e-9 * total)


@given(runs)
def test_identical_runs_have_no_part(steps):
    assert split(steps, steps) == dict.fromkeys(PARTS, 0.0)


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6))
def test_the_logarithmic_mean_is_between(a, b):
    assert min(a, b) * (1 - 1e-9) <= logarithmic_mean(a, b) <= max(a, b) * (1 + 1e-9)
    assert logarithmic_mean(a, a) == a
    assert logarithmic_mean(a, a * (1 + 1e-12)) == pytest.approx(a, rel=1e-9)


# Arms ----------------------------------------------------------------------------------------------------------------


def test_arms_are_compared_over_common_seeds_and_steps():
    long, short = steps_of(2.0, train=1.0, count=10), steps_of(1.0, train=1.0, count=4)
    row = one(
        make_run("16", long, seed=0),
        make_run("16", long, seed=1),
        make_run("16", long, seed=2),
        make_run("sagc", short, seed=0, planned=10),
        make_run("sagc", steps_of(2.5, train=0.25, count=6), seed=1, planned=10),
        make_run("sagc", short.head(0), seed=2, planned=10),
        make_run("sagc", short, seed=3),
    )
    assert (row["seeds"], row["steps"], row["best"]) == (2, 4, False)
    assert row["reference_s"] == 4 * 3.0 + 6 * 3.0
    assert row["saved_s"] == pytest.approx(4 * 1.0 + 6 * 0.25)
    assert row["speed_s"] == pytest.approx(4 * 1.0 - 6 * 0.5)
    assert (row["train_s"], row["train_share"]) == (pytest.approx(6 * 0.75), pytest.approx(4.5 / 30))


def test_the_best_static_arm_is_compared_with_where_it_is_not_16():
    steps = {group: steps_of(seconds) for group, seconds in (("8", 4.0), ("16", 8.0), ("sagc", 6.0))}
    found = savings([make_run(group, steps[group], accuracy=0.9 - (group == "16") / 2) for group in steps])
    pairs = [tuple(row) for row in found[["group", "reference", "best", "saved_s"]].itertuples(index=False)]
    assert pairs == [
        ("8", "16", False, 4.0),
        ("sagc", "16", False, 2.0),
        ("16", "8", True, -4.0),
        ("sagc", "8", True, -2.0),
    ]
    best = savings([make_run(group, steps[group], accuracy=0.5 + (group == "16") / 9) for group in steps])
    assert best["reference"].tolist() == ["16", "16"] and best["best"].all()


def test_cells_are_compared_with_their_own():
    a = [make_run("16", steps_of(8.0)), make_run("sagc", steps_of(6.0))]
    b = [make_run("16", steps_of(3.0), model="b"), make_run("sagc", steps_of(6.0), model="b")]
    assert savings([*a, *b])["saved_s"].tolist() == [2.0, -3.0]


# The table -----------------------------------------------------------------------------------------------------------


def read(runs, folder) -> str:
    frame = savings(runs)
    savings_table(frame).write(folder / "savings", csv=frame)
    assert sorted(path.name for path in folder.iterdir()) == ["savings.csv", "savings.md", "savings.tex"]
    return (folder / "savings.md").read_text()


def test_the_table_says_what_it_shows(tmp_path):
    reference = steps_of(8.0, train=2.0, tokens=400, slots=800)
    own = steps_of(4.0, train=3.0, responses=40, tokens=200, slots=800)
    longer = steps_of(9.0, train=2.0, tokens=450, slots=900)
    text = read([make_run(g, s) for g, s in (("16", reference), ("sagc", own), ("sagc-robust", longer))], tmp_path)
    line = next(line for line in text.splitlines() if "| " in line and " sagc |" in line)
    assert [cell.strip() for cell in line.strip("|").split("|")] == [
        *("sagc", "16", "1", "1", "10.0", "+3.0 (+30.0)"),
        *("+0.0 (+0.0)", "-4.0 (-40.0)", "+8.0 (+80.0)", "-4.0 (-40.0)", "+4.0 (+40.0)", "-1.0 (-10.0)"),
        *("+0.0 (+0.0)", "+0.0 (+0.0)"),
    ]
    assert (
        "sagc against static 16: 30.0 % of the time saved, the largest part by shorter responses (80.0 %); "
        "more resampling cost 40.0 %."
    ) in text
    assert (
        "sagc-robust against static 16: 10.0 % of the time added, the largest part by longer responses (10.0 %)."
    ) in text
    assert "\N{EN DASH}" not in text
    assert r"+3.0 (+30.0) & +0.0 (+0.0) & -4.0 (-40.0)" in (tmp_path / "savings.tex").read_text()
    table = pd.read_csv(tmp_path / "savings.csv")
    assert table["length_s"].tolist() == pytest.approx([8.0, -1.0])


def test_slots_of_openrlhf_with_dynamic_sampling_are_marked(tmp_path):
    """It refills while it decodes; for its other rows, and those of other stacks, slots are what waited."""
    own, reference = (steps_of(4.0, tokens=tokens, slots=800, filtered_groups=2) for tokens in (200, 400))
    whole = [steps.assign(filtered_groups=0) for steps in (own, reference)]

    def of(stack, algorithm, steps):
        arms = zip(("sagc", "16"), steps, strict=True)
        return [make_run(group, each, stack=stack, algorithm=algorithm) for group, each in arms]

    others = [*of("openrlhf", "grpo", whole), *of("vanilla", "dapo", (own, reference))]
    assert not savings(others)["slots_bound"].any()
    assert "upper bound" not in read(others, tmp_path) + (tmp_path / "savings.tex").read_text()
    runs = [*others, *of("openrlhf", "dapo", (own, reference))]
    assert savings(runs)["slots_bound"].tolist() == [False, False, True]
    text, latex = read(runs, tmp_path), (tmp_path / "savings.tex").read_text()
    for table, mark in ((text, " |"), (latex, " &")):
        assert table.count(f")*{mark}") == 2 and "upper bound" in table  # waits and speed of one row


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        ([], "There is nothing to compare"),
        ([make_run("sagc", steps_of(1.0)), make_run("4", steps_of(1.0))], "There is nothing to compare"),
        ([make_run("16", steps_of(1.0))], "There is nothing to compare"),
        (
            [make_run("16", steps_of(1.0)), make_run("sagc", steps_of(1.0).head(0), planned=9)],
            "sagc against static 16: nothing to compare.",
        ),
        (
            [make_run("16", steps_of(1.0)), make_run("sagc", steps_of(1.0), seed=1)],
            "No two arms have steps of a common seed yet.",
        ),
        (
            [make_run("16", steps_of(1.0)), make_run("sagc", steps_of(1.0))],
            "sagc against static 16: no time saved.",
        ),
        (
            [make_run("16", steps_of(0.0)), make_run("sagc", steps_of(0.0))],
            "sagc against static 16: nothing to compare.",
        ),
    ],
    ids=["no run", "no reference", "one arm", "no step", "no seed", "no difference", "no time"],
)
def test_what_is_missing_is_said(tmp_path, runs, said):
    text = read(runs, tmp_path)
    assert said in text and "nan" not in text
    assert math.isfinite(savings(runs)["seeds"].sum())
