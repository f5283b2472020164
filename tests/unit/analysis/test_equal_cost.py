"""Arms at equal cost: the curve, the two comparisons and the front against numbers by hand, and what the tables say."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.results.runs import RunResults
from analysis.results.steps import COLUMNS
from analysis.statistics import INTERVAL
from analysis.tables.cost_tables import write_equal_cost
from analysis.tables.curves import accuracy_at, reward_at, reward_curve, time_to
from analysis.tables.equal_cost import equal_cost
from analysis.tables.rivals import compare_with_static, pareto_front
from sagc.run.folder import RunFolder

NAN = math.nan
T1 = 12.706205  # 97.5 % quantile of Student's t with one degree of freedom
ONE = "[\N{EN DASH}], n = 1"


def make_steps(rewards, seconds=10.0, **columns) -> pd.DataFrame:
    """Steps of these rewards and of `seconds` each; columns that are not given are 1."""
    steps = pd.DataFrame(1.0, index=range(len(rewards)), columns=list(COLUMNS))
    steps = steps.assign(step=np.arange(1, len(rewards) + 1), reward=np.array(rewards, dtype=float), step_s=seconds)
    steps = steps.assign(**columns)
    return steps.assign(elapsed_s=steps["step_s"].cumsum())


def make_run(
    group, steps, seed=0, planned=None, accuracy=None, algorithm="grpo", model="tiny", config=None, stack="vanilla"
):
    """A run of these steps; evaluated on heldout where there is an accuracy."""
    cell = {"model": model, "algorithm": algorithm, "stack": stack, "group": group, "seed": seed}
    name = "/".join(map(str, cell.values()))
    summary = None
    if accuracy is not None:
        last = ("straggler_rate", "idle_fraction", "filtered_share", "group_size", "tokens", "rollout_s", "reward")
        summary = {**cell, **dict.fromkeys(last, 1.0), "mean_group_size": 1.0, "wall_s": steps["step_s"].sum()}
        summary |= {"processor_s": summary["wall_s"], "accuracy_heldout": accuracy, "output_tokens_heldout": 20.0}
    nothing = pd.DataFrame()
    return RunResults(
        name=name,
        folder=RunFolder(name),
        cell=cell,
        config={"run": {"cell": cell, "straggler": {"tau": 2.0, "event": "group"}, **(config or {})}},
        planned_steps=len(steps) if planned is None else planned,
        steps=steps,
        risks=nothing,
        realised=nothing,
        summary=summary,
    )


def arms(*runs) -> dict[str, dict]:
    return {row["group"]: row for row in equal_cost(runs).to_dict(orient="records")}


# The reward curve ----------------------------------------------------------------------------------------------------


def test_the_curve_is_a_trailing_mean_of_what_is_there():
    curve = reward_curve(make_steps([0.0, 1.0, NAN, 0.5, *[0.5] * 6, 1.0]))
    assert curve[:4].tolist() == pytest.approx([0.0, 0.5, 0.5, 0.5])
    assert curve[-1] == pytest.approx((1.0 + 7 * 0.5 + 1.0) / 9)  # the first step has left, one has no reward


def test_a_lucky_step_does_not_reach_the_target():
    lucky = make_steps([1.0, *[0.0] * 30])
    assert reward_curve(lucky)[0] == 1.0
    assert math.isnan(time_to(lucky, 0.6))


def test_ten_lucky_steps_do_not_reach_the_target():
    steps = make_steps([*[0.0] * 10, *[1.0] * 10, *[0.0] * 20])
    assert reward_curve(steps).max() == 1.0
    assert math.isnan(time_to(steps, 0.6))


def test_a_target_is_reached_where_both_sides_are_at_it():
    steps = make_steps([*[0.0] * 10, *[1.0] * 20])
    assert time_to(steps, 0.6) == 160.0  # the sixth 1 of ten; the ten after it are 1, too


def test_the_last_step_can_reach_the_target():
    steps = make_steps(np.arange(20) / 20)
    assert time_to(steps, reward_curve(steps)[-1]) == 200.0


def test_without_rewards_no_target_is_reached():
    assert math.isnan(time_to(make_steps([NAN] * 12), 0.5))
    assert math.isnan(time_to(make_steps([0.5] * 12), NAN))


def test_the_reward_at_a_time_is_of_the_steps_that_had_ended():
    steps = make_steps([0.0, 1.0, 0.5])
    assert math.isnan(reward_at(steps, 9.9))
    assert [reward_at(steps, seconds) for seconds in (10.0, 19.9, 20.0, 99.0)] == [0.0, 0.0, 0.5, 0.5]


# The front -----------------------------------------------------------------------------------------------------------


def test_the_front_by_hand():
    hours = np.array([1.0, 2.0, 2.0, 3.0, 1.0, 4.0])
    accuracy = np.array([0.5, 0.7, 0.6, 0.7, 0.5, 0.8])
    # The third is as quick as the second and worse, the fourth as good and slower; the first and fifth are equal.
    assert pareto_front(hours, accuracy).tolist() == [True, True, False, False, True, True]


def test_points_without_a_value_are_off_the_front_and_dominate_nothing():
    hours, accuracy = np.array([1.0, NAN, 2.0]), np.array([NAN, 0.9, 0.1])
    assert pareto_front(hours, accuracy).tolist() == [False, False, True]
    assert pareto_front(np.array([]), np.array([])).tolist() == []


numbers = st.one_of(st.integers(0, 4).map(float), st.just(NAN))


@given(st.lists(st.tuples(numbers, numbers), max_size=8))
def test_the_front_is_what_nothing_dominates(points):
    hours, accuracy = np.array(points, dtype=float).reshape(-1, 2).T
    expected = [
        not (math.isnan(h) or math.isnan(a)) and not any(x <= h and y >= a and (x < h or y > a) for x, y in points)
        for h, a in points
    ]
    assert pareto_front(hours, accuracy).tolist() == expected


# Arms ----------------------------------------------------------------------------------------------------------------


def level(reward, seconds):
    return make_steps([0.0] * 10 + [reward] * 20, seconds=seconds)


def test_two_arms_by_hand():
    found = arms(make_run("16", level(0.5, 10.0)), make_run("sagc", level(0.8, 5.0)), make_run("4", level(0.4, 2.0)))
    assert {row["reference"] for row in found.values()} == {"16"}
    assert found["sagc"]["target"] == pytest.approx(0.5)
    # 16 has its ten steps at 0.5 after 20 steps; 7 of 10 steps at 0.8 are 0.56.
    assert (found["16"]["time_to_target_s"], found["sagc"]["time_to_target_s"]) == (200.0, 85.0)
    assert found["sagc"]["time_vs_reference"] == pytest.approx(85 / 200)
    assert (found["4"]["reached"], found["sagc"]["reached"]) == (0, 1)
    assert math.isnan(found["4"]["time_to_target_s"]) and math.isnan(found["4"]["time_vs_reference"])
    assert found["4"]["time_to_target_at_least_s"] == 60.0
    assert found["4"]["time_vs_reference_at_least"] == pytest.approx(60 / 200)
    # 4 is done after 60 s: 12 steps of sagc, of which two at 0.8, and 6 of 16.
    assert {row["budget_s"] for row in found.values()} == {60.0}
    assert found["sagc"]["reward_at_budget"] == pytest.approx(0.16)
    assert found["4"]["reward_vs_reference"] == pytest.approx(0.4)
    assert math.isnan(found["4"]["reward_vs_reference_low"]) and math.isnan(found["4"]["reward_at_budget_se"])


def keeping(run, final, **kept):
    """The run with the accuracy of its last model, and of those kept after so many steps: `_10=0.5`."""
    of = {done.strip("_"): {"heldout": {"accuracy": accuracy}} for done, accuracy in kept.items()}
    run.evaluation = {"benchmarks": {"heldout": {"accuracy": final}}, "kept": of}
    return run


def test_accuracy_then_is_between_the_models_kept_before_and_after():
    run = keeping(make_run("16", level(0.5, 10.0), accuracy=0.9), 0.9, _20=0.7, _10=0.5)
    assert [accuracy_at(run, "heldout", seconds) for seconds in (100, 150, 175, 200, 250, 300, 999)] == pytest.approx(
        [0.5, 0.6, 0.65, 0.7, 0.8, 0.9, 0.9]
    )
    assert math.isnan(accuracy_at(run, "heldout", 99.9))
    assert math.isnan(accuracy_at(run, "harder", 200))
    assert math.isnan(accuracy_at(make_run("16", level(0.5, 10.0), accuracy=0.9), "heldout", 200))


def test_arms_are_compared_by_the_models_they_had_when_the_quickest_run_ended(tmp_path):
    runs = []
    for seed in (0, 1):
        runs.append(keeping(make_run("16", level(0.5, 10.0), seed, accuracy=0.9), 0.9, _10=0.5 + seed / 10, _20=0.7))
        runs.append(keeping(make_run("4", level(0.5, 5.0), seed, accuracy=0.7), 0.7 + seed / 10, _20=0.1))
    found = arms(*runs)
    assert found["4"]["budget_s"] == 150.0
    assert found["4"]["kept_heldout"] == pytest.approx((0.7 + 0.8) / 2)
    assert found["16"]["kept_heldout"] == pytest.approx((0.6 + 0.65) / 2)
    assert found["16"]["kept_heldout_se"] == pytest.approx(0.025)
    differences = [found["4"][f"kept_heldout_vs_reference{of}"] for of in INTERVAL]
    assert differences == pytest.approx([0.125, 0.125 - T1 * 0.025, 0.125 + T1 * 0.025, 2])
    cost, pareto = read(runs, tmp_path)
    assert "heldout then" in cost and "heldout - reference" in cost and "+0.125 [-0.193, +0.443], n = 2" in cost
    assert "heldout then" not in pareto
    assert pd.read_csv(tmp_path / "equal_cost.csv")["kept_heldout"].tolist() == pytest.approx([0.625, 0.75])
    assert not any("kept" in column for column in pd.read_csv(tmp_path / "pareto.csv"))


def test_seeds_are_paired():
    runs = [make_run("16", level(0.5, seconds), seed=seed) for seed, seconds in enumerate((10.0, 20.0, 30.0))]
    runs += [make_run("sagc", level(0.8, seconds), seed=seed) for seed, seconds in ((0, 5.0), (1, 20.0), (4, 1.0))]
    found = arms(*runs)["sagc"]
    assert (found["seeds"], found["reached"]) == (3, 3)
    assert found["time_to_target_s"] == pytest.approx((85 + 340 + 17) / 3)
    assert found["time_to_target_s_se"] == pytest.approx(np.std([85, 340, 17], ddof=1) / 3**0.5)
    # Ratios 85 / 200 and 340 / 400, twice as much: the mean of their logarithms has an error of half of ln 2.
    middle, reach = (85 / 200 * 340 / 400) ** 0.5, 2 ** (T1 / 2)
    ratio = [found[f"time_vs_reference{of}"] for of in INTERVAL]
    assert ratio == pytest.approx([middle, middle / reach, middle * reach, 2])


def flat(reward, seconds):
    """Thirty steps of this reward: a target that it is at is reached after the first of them."""
    return make_steps([reward] * 30, seconds=seconds)


def of_two_seeds(own, rewards=(0.5, 0.5)) -> dict:
    """The row of sagc, of two seeds; static 16 has these rewards, in steps of 10 and 20 seconds."""
    runs = [make_run("16", flat(rewards[seed], seconds), seed=seed) for seed, seconds in enumerate((10.0, 20.0))]
    return arms(*runs, *(make_run("sagc", steps, seed=seed) for seed, steps in enumerate(own)))["sagc"]


def censored(row) -> list:
    keys = ("reached", "reached_share", "time_to_target_s", "time_to_target_at_least_s")
    return [row[key] for key in keys] + [row[f"time_vs_reference{end}"] for end in ("", "_at_least", "_at_most", "_n")]


def test_a_time_that_all_seeds_reached():
    found = censored(of_two_seeds((flat(0.9, 5.0), flat(0.9, 5.0))))
    assert found == pytest.approx([2, 1.0, 5.0, NAN, (5 / 10 * 5 / 20) ** 0.5, NAN, NAN, 2], nan_ok=True)


def test_a_time_that_not_all_seeds_reached_is_at_least_what_is_known():
    """A seed that has not in its 150 seconds is not left out, which would make 5 seconds of the time."""
    row = of_two_seeds((flat(0.9, 5.0), flat(0.1, 5.0)))
    expected = [1, 0.5, NAN, (5 + 150) / 2, NAN, (5 / 10 * 150 / 20) ** 0.5, NAN, 2]
    assert censored(row) == pytest.approx(expected, nan_ok=True)
    assert math.isnan(row["time_to_target_s_se"]) and math.isnan(row["time_vs_reference_low"])


def test_a_time_that_no_seed_reached():
    found = censored(of_two_seeds((flat(0.1, 5.0), flat(0.1, 6.0))))
    expected = [0, 0.0, NAN, (150 + 180) / 2, NAN, (150 / 10 * 180 / 20) ** 0.5, NAN, 2]
    assert found == pytest.approx(expected, nan_ok=True)


def test_a_time_that_a_seed_of_the_reference_did_not_reach():
    """Static 16 ends at 0.4 and 0.6, so that the target is 0.5 and its first seed is below it for all 300 seconds."""
    found = censored(of_two_seeds((flat(0.9, 5.0), flat(0.9, 5.0)), rewards=(0.4, 0.6)))
    expected = [2, 1.0, 5.0, NAN, NAN, NAN, (5 / 300 * 5 / 20) ** 0.5, 2]
    assert found == pytest.approx(expected, nan_ok=True)
    both = censored(of_two_seeds((flat(0.1, 5.0), flat(0.9, 5.0)), rewards=(0.4, 0.6)))
    assert both == pytest.approx([1, 0.5, NAN, (150 + 5) / 2, NAN, NAN, NAN, 2], nan_ok=True)


def test_times_that_are_not_known_are_marked(tmp_path):
    runs = [make_run("16", steps, seed=seed) for seed, steps in enumerate((flat(0.4, 3600.0), flat(0.6, 3600.0)))]
    runs += [make_run("sagc", flat(0.9, 3600.0), seed=seed) for seed in (0, 1)]
    cost, _ = read(runs, tmp_path)
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in cost.splitlines() if line[0:1] == "|"]
    cells = {line[0]: line[2:5] for line in lines[2:]}
    assert cells["16"] == ["at least 15.500", "1 of 2 (50 %)", "\N{EN DASH}"]  # 30 hours and 1
    middle = (1 / 30 * 1 / 1) ** 0.5
    assert cells["sagc"] == ["1.000 \N{PLUS-MINUS SIGN} 0.000", "2 of 2 (100 %)", f"at most {middle:.2f}, n = 2"]
    assert "left out if seeds of both did" in cost


def test_the_largest_static_size_stands_in_for_16():
    found = arms(make_run("4", level(0.9, 1.0)), make_run("8", level(0.5, 1.0)), make_run("sagc", level(0.5, 1.0)))
    assert (found["sagc"]["reference"], found["sagc"]["target"]) == ("8", pytest.approx(0.5))
    unfinished = make_run("16", level(0.9, 1.0), planned=99)
    assert arms(make_run("8", level(0.5, 1.0)), unfinished)["8"]["reference"] == "8"


def test_runs_that_are_not_done_do_not_count():
    found = arms(
        make_run("16", level(0.5, 10.0)),
        make_run("sagc", level(0.9, 1.0).head(5), planned=30),
        make_run("sagc-robust", level(0.9, 1.0).head(0), planned=30),
    )
    assert [found[group]["seeds"] for group in ("16", "sagc", "sagc-robust")] == [1, 0, 0]
    assert found["16"]["budget_s"] == 300.0
    assert math.isnan(found["sagc"]["wall_s"]) and not found["sagc"]["front_reward"]


def test_every_cell_has_its_own_target_and_front():
    one = [make_run("16", level(0.5, 10.0)), make_run("sagc", level(0.4, 20.0))]
    other = [make_run("16", level(0.9, 1.0), model="b")]
    found = equal_cost([*one, *other])
    assert found["target"].tolist() == pytest.approx([0.5, 0.5, 0.9])
    assert found["front_reward"].tolist() == [True, False, True]


def as_good(runs) -> list[list[str]]:
    found = compare_with_static(runs)
    return found.loc[found["as_good"].astype(bool), ["group", "quality", "static"]].to_numpy().tolist()


def test_static_arms_that_are_as_good_as_a_controlled_one():
    runs = [
        make_run("4", level(0.5, 1.0), accuracy=0.6),
        make_run("8", level(0.7, 2.0), accuracy=0.7),
        make_run("16", level(0.8, 9.0), accuracy=0.9),
        make_run("sagc", level(0.6, 4.0), accuracy=0.7),
        make_run("sagc-robust", level(0.9, 1.5), accuracy=0.65),
    ]
    assert equal_cost(runs)["front_heldout"].tolist() == [True, True, True, False, True]
    found = compare_with_static(runs)
    assert len(found) == 2 * 2 * 3 and found["difference_n"].eq(1).all()
    assert as_good(runs) == [["sagc", "reward", "8"], ["sagc", "heldout", "8"]]
    reward = found[found["as_good"].astype(bool)].iloc[0]
    assert [reward["time"], reward["difference"]] == pytest.approx([0.5, 0.1])


def seeds_of(group, seconds, accuracies):
    return [make_run(group, level(0.5, seconds), seed, accuracy=value) for seed, value in enumerate(accuracies)]


@pytest.mark.parametrize(
    ("static", "seconds", "expected"),
    [
        ([0.72, 0.68, 0.70, 0.70, 0.70], 1.0, []),  # as good on average, and perhaps 0.018 below
        ([0.702, 0.698, 0.700, 0.701, 0.699], 1.0, ["4"]),  # surely within 0.002
        ([0.696, 0.692, 0.694, 0.695, 0.693], 1.0, ["4"]),  # surely within 0.01 below
        ([0.691, 0.691, 0.691, 0.691, 0.691], 9.0, []),  # as good, and slower
        ([0.689, 0.689, 0.689, 0.689, 0.689], 1.0, []),  # surely worse
        ([0.90, 0.90, 0.50, 0.90, 0.90], 1.0, []),  # better on average, and nothing sure
    ],
    ids=["noisy", "clear", "within the margin", "slower", "worse", "a mean that is better"],
)
def test_with_several_seeds_the_intervals_decide(static, seconds, expected):
    runs = [*seeds_of("4", seconds, static), *seeds_of("sagc", 4.0, [0.7] * 5)]
    assert [arm for _, quality, arm in as_good(runs) if quality == "heldout"] == expected


def test_a_time_that_may_be_longer_is_not_surely_less():
    quick = [make_run("4", level(0.5, seconds), seed, accuracy=0.7) for seed, seconds in enumerate((1.0, 3.0))]
    slow = [make_run("sagc", level(0.5, 4.0), seed, accuracy=0.7) for seed in (0, 1)]
    assert as_good([*quick, *slow]) == []  # ratios 1/4 and 3/4: two seeds do not bound their mean
    assert compare_with_static([*quick, *slow])["time"].tolist() == pytest.approx([(3 / 16) ** 0.5] * 2)


# Tables --------------------------------------------------------------------------------------------------------------


def read(runs, folder) -> tuple[str, str]:
    write_equal_cost(equal_cost(runs), compare_with_static(runs), folder)
    assert sorted(path.name for path in folder.iterdir()) == [
        *("equal_cost.csv", "equal_cost.md", "equal_cost.tex"),
        *("pareto.csv", "pareto.md", "pareto.tex"),
    ]
    return (folder / "equal_cost.md").read_text(), (folder / "pareto.md").read_text()


def test_the_tables_say_what_they_show(tmp_path):
    runs = [
        make_run("4", level(0.4, 60.0), accuracy=0.7),
        make_run("16", level(0.5, 240.0), accuracy=0.8),
        make_run("sagc", level(0.6, 120.0), accuracy=0.7),
        make_run("sagc-robust", level(0.6, 120.0).head(3), planned=30),
    ]
    cost, pareto = read(runs, tmp_path)
    assert "No arm has more than one seed" in cost and "No arm has more than one seed" in pareto
    assert "The target is 0.500, the reward of static 16 at its end; the given time is 0.500 hours" in cost
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in cost.splitlines() if line.startswith("|")
    ]
    cells = {line[0]: line[2:] for line in lines[2:]}
    assert cells["4"] == ["at least 0.500", "0 of 1 (0 %)", "at least 0.38, n = 1", "0.400", f"+0.400 {ONE}"]
    assert cells["16"] == ["1.333", "1 of 1 (100 %)", f"1.00 {ONE}", "0.000", f"+0.000 {ONE}"]
    assert cells["sagc"] == ["0.633", "1 of 1 (100 %)", f"0.47 {ONE}", "0.300", f"+0.300 {ONE}"]
    assert cells["sagc-robust"] == ["\N{EN DASH}"] * 5
    assert f"As good as sagc in no more time: static 4 in heldout (+0.000 {ONE}; time 0.50 {ONE})." in pareto
    assert "sagc-robust in no more time" not in pareto
    latex = (tmp_path / "pareto.tex").read_text()
    assert r"tiny & grpo & vanilla & 16 & 1 & 2.000 & 0.500 & no & 0.800 & yes \\" in latex
    assert pd.read_csv(tmp_path / "equal_cost.csv")["time_to_target_s"].tolist()[1:3] == [4800.0, 2280.0]
    assert pd.read_csv(tmp_path / "pareto.csv")["front_heldout"].tolist() == [True, True, False, False]


def test_errors_and_intervals_are_shown(tmp_path):
    runs = [make_run(group, level(0.5, 3600.0), seed=seed) for group in ("16", "sagc") for seed in (0, 1)]
    cost, pareto = read(runs, tmp_path)
    assert "20.000 \N{PLUS-MINUS SIGN} 0.000" in cost and "1.00 [1.00, 1.00], n = 2" in cost and "2 of 2" in cost
    assert "An arm has 2 seeds; intervals" in cost
    won = "static 16 in reward (+0.000 [+0.000, +0.000], n = 2; time 1.00 [1.00, 1.00], n = 2)"
    assert f"As good as sagc in no more time: {won}." in pareto


@pytest.mark.parametrize(
    ("runs", "said", "front"),
    [
        ([], "no run was found", "no run was found"),
        (
            [make_run("16", level(0.5, 1.0).head(0), planned=9)],
            "No run has finished training yet",
            "No run has finished",
        ),
        (
            [make_run("sagc", level(0.5, 1.0))],
            "no static arm, so there is no target",
            "no static arm to compare sagc with",
        ),
        ([make_run("16", level(NAN, 1.0).assign(reward=NAN))], "Static 16 has no reward at its end", "| 0.008 |"),
        ([make_run("16", level(0.5, 1.0))], "No arm has more than one seed", "No arm has more than one seed"),
    ],
    ids=["no run", "no step", "no static arm", "no reward", "one arm"],
)
def test_what_is_missing_is_said(tmp_path, runs, said, front):
    cost, pareto = read(runs, tmp_path)
    assert said in cost and front in pareto
    assert "nan" not in cost + pareto
