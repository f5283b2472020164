"""The study: its measures against cases by hand, and a small one of its own from the config to the figures."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from analysis.study import calibration as calibration_table
from analysis.study import figures, tabulate
from sagc.config.grid import validate_grid
from sagc.config.reading import read_yaml
from sagc.errors import UserError
from sagc.simulation.lengths import LognormalLengths, Shape
from sagc.simulation.study import calibration, play, savings, variants
from sagc.simulation.study import sensitivity as vary
from sagc.simulation.study.config import load_study, validate_study
from sagc.simulation.study.measures import attainable, noise_floor, recovery, track, true_risks
from sagc.simulation.totals import moves_per_100, summarize_steps
from tests.made_results import make_run


def steps_of(sizes, rates, seconds=3600.0) -> pd.DataFrame:
    columns = {"step": range(1, len(sizes) + 1), "group_size": sizes, "straggler_rate": rates, "step_s": seconds}
    samples = 100 * np.array(sizes)
    columns |= {"samples": samples, "tokens": 5 * samples, "max_length": 10, "idle_fraction": 0.5, "preemptions": 1}
    return pd.DataFrame(columns).assign(barrier_s=1800.0, rows_s=900.0)


# Measures ------------------------------------------------------------------------------------------------------------


def test_what_steps_add_up_to():
    steps = steps_of([4, 4, 8, 16, 16], [0.0, 0.5, 0.5, 1.0, 1.0]).assign(max_length=[10, 10, 20, 10, 10])
    found = summarize_steps(steps)
    assert found == pytest.approx(
        {
            "straggler_rate": 0.6,
            "idle_fraction": 1 - 24_000 / (2 * 4_000 + 16_000 + 2 * 16_000),  # not the mean of the steps, 0.55
            "mean_group_size": 9.6,
            "mean_log2": (2 + 2 + 3 + 4 + 4) / 5,
            "mean_inverse": (2 / 4 + 1 / 8 + 2 / 16) / 5,
            "moves": 100 * 2 / 4,
            "samples": 4800,
            "preemptions": 5,
            "hours": 5.0,
            "hours_per_sample": 5 / 4800 * 1e5,
            "barrier_share": 0.5,
            "rows_share": 0.25,
        }
    )
    assert moves_per_100(np.array([4])) == 0


def test_the_attainable_rate_is_delta_cut_to_the_risks():
    risks = pd.DataFrame({4: [0.1, 0.5, 0.1], 16: [0.3, 0.9, 0.8]}, index=[1, 2, 3])
    assert attainable(risks, 0.4).tolist() == [0.3, 0.5, 0.4]


def test_distances_by_hand():
    """Size 4 for 50 steps, then 8; delta between their risks."""
    steps = steps_of([4] * 50 + [8] * 50, [0.3] * 100)
    risks = pd.DataFrame({4: [0.2] * 100, 8: [0.6] * 100}, index=range(1, 101))
    found = track(steps, risks, delta=0.5)
    assert found["distance"] == pytest.approx(0.2)
    assert found["bias"] == pytest.approx(0.2)
    # Windows that end at steps 60 to 100: 8 in 10, 11, ..., 20 of 20 steps, then always.
    by_window = [abs((8 * 0 + 0.2 * (20 - n) + 0.6 * n) / 20 - 0.5) for n in [*range(10, 20), *[20] * 31]]
    assert found["risk_distance"] == pytest.approx(np.mean(by_window))


def test_bias_is_of_the_steps_at_which_delta_is_feasible():
    steps = steps_of([4] * 100, [0.9] * 80 + [0.4] * 20)
    risks = pd.DataFrame({4: [0.9] * 80 + [0.3] * 20, 8: [0.95] * 80 + [0.7] * 20}, index=range(1, 101))
    assert track(steps, risks, delta=0.5)["bias"] == pytest.approx(0.1)
    assert math.isnan(track(steps, risks, delta=0.2)["bias"])


def test_recovery_looks_ahead():
    """A size that is played once in passing is no recovery."""
    risk = pd.Series([0.9] * 5 + [0.1, 0.5, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1] + [0.45] * 20, index=range(1, 35))
    # From step 13 on there are two of 0.1 and eight of 0.45 ahead: 0.38; a step earlier it is 0.345.
    assert recovery(risk, 6, aim=0.48) == 13 - 6
    assert recovery(risk, 6, aim=0.8) == 29  # never, in the 29 steps there are


def test_the_floor_is_what_a_perfect_controller_has():
    rates = np.random.default_rng(0).binomial(16, 0.5, size=(4000, 20)) / 16
    assert noise_floor(0.5, 16) == pytest.approx(np.abs(rates.mean(axis=1) - 0.5).mean(), rel=0.05)


def test_true_risks_are_those_of_many_rollouts():
    lengths = LognormalLengths(((0, Shape(response_spread=0.4)), (30, Shape(response_spread=0.8))))
    risks = true_risks(lengths, 31, [4, 8], tau=2.0)
    assert risks.index.tolist() == list(range(1, 32)) and risks.notna().all(axis=None)
    for step, size in ((1, 4), (31, 8)):
        groups = lengths.sample(5, step - 1, 20_000, size)
        rate = np.mean(groups.max(axis=1) > 2 * np.median(groups, axis=1))
        assert risks.loc[step, size] == pytest.approx(rate, abs=0.015)
    assert risks[8].is_monotonic_increasing


def test_savings_by_hand():
    small, large = (steps_of([size] * 4, [0.5] * 4, seconds=seconds) for size, seconds in ((4, 100.0), (16, 400.0)))
    parts = {"barrier_s": 60.0, "rows_s": 30.0, "prefill_s": 0.0, "train_s": 10.0}
    small, large = small.assign(**parts), large.assign(**{name: 4 * value for name, value in parts.items()})
    half = pd.concat([small[:2], large[:2]])
    found = savings.compare({4: small, 16: large, "sagc-robust": half})
    assert found["saved"] == pytest.approx(0.375)
    assert [found[part] for part in ("barrier", "rows", "train")] == pytest.approx([0.225, 0.1125, 0.0375])
    assert found["saved_per_sample"] == pytest.approx(0)  # all take as long for a sample
    assert found["saved_by_changing"] == pytest.approx(0)


def played(workload="stationary", **measures) -> pd.DataFrame:
    """Runs of both arms: per measure their values, a seed each, those of sagc-robust first."""
    rest = ("bias", "recovery", "moves", *tabulate.MARGINS)
    arms = []
    for place, arm in enumerate(("sagc-robust", "sagc")):
        values = {name: measures[name][place] if name in measures else 1.0 for name in rest}
        seeds = range(len(next(iter(measures.values()))[0]))
        arms.append(pd.DataFrame({"workload": workload, "arm": arm, "seed": seeds, **values}))
    return pd.concat(arms, ignore_index=True)


def judged(runs) -> pd.DataFrame:
    return tabulate.verdict(runs, ["stationary"]).set_index("criterion")


def test_the_verdict_by_hand():
    runs = played(
        bias=([0.02, 0.06], [0.9, 0.9]),
        recovery=([10.0, 12.0], [9.0, 13.0]),
        moves=([9.0, 9.0], [40.0, 40.0]),
        distance=([0.1, 0.2], [0.05, 0.1]),
        hours=([2.01, 2.01], [2.0, 2.0]),
    )
    found = judged(runs)
    bias = found.loc["mean rate within 0.03 of delta where delta is feasible"]
    # Standard deviation 0.02 root 2, over root 2 seeds: an error of 0.02.
    assert [bias["value"], bias["bound"], bias["met"]] == pytest.approx([0.04, 0.08, False])
    recovers = found.loc["recovers within 15 steps", ["value", "worst", "bound", "met"]].tolist()
    assert recovers == pytest.approx([11.0, 12.0, 13.0, True])
    assert found.loc["moves at most 10 times per 100 steps when stationary", "met"]
    distance = found.loc["no worse than sagc in the distance from delta"]
    assert [distance["value"], distance["bound"]] == pytest.approx([0.075, 0.125])
    assert [distance["limit"], distance["met"]] == [0.005, False]
    hours = found.loc["no worse than sagc in hours of all steps"]  # 0.5 % more, 1 % allowed
    assert [hours["value"], hours["limit"], hours["met"]] == pytest.approx([0.01, 0.02, True])


def test_noise_is_no_worse_than_nothing():
    """Differences of mean 0 that are all over the place say nothing about a margin of 0.005."""
    noise = np.array([0.1, -0.1, 0.2, -0.2, 0.05, -0.05])
    found = judged(played(distance=(0.3 + noise, np.full(6, 0.3)), recovery=(10 + 100 * noise, np.full(6, 10.0))))
    distance = found.loc["no worse than sagc in the distance from delta"]
    assert distance["value"] == pytest.approx(0) and not distance["met"] and distance["bound"] > 0.1
    assert not found.loc["no worse than sagc in steps to recover", "met"]
    assert not found.loc["recovers within 15 steps", "met"]  # 10 on average, 8 either way


def test_a_small_difference_that_is_clear_is_no_worse():
    found = judged(played(distance=([0.302, 0.303, 0.301], [0.3, 0.3, 0.3])))
    distance = found.loc["no worse than sagc in the distance from delta"]
    assert distance["value"] == pytest.approx(0.002) and distance["met"]


def test_one_seed_meets_no_criterion():
    """There is no error to add, and not none of it."""
    found = judged(played(distance=([0.1], [0.9])))
    assert not found["met"].any() and found["bound"].isna().all()


# A small study -------------------------------------------------------------------------------------------------------


def call(command, *arguments) -> None:
    result = CliRunner().invoke(command.main, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output


def test_a_small_study(small_study, tmp_path):
    results, config = tmp_path / "study", ["--config", small_study]
    runs = [results / "workloads" / name / "runs.csv" for name in ("stationary", "change")]
    for path in runs:
        call(play, path.parent.name, *config, "--out", path.parent)
    call(vary, "eta", *config, "--out", results / "sensitivity" / "eta.csv")
    call(variants, *config, "--out", results / "variants.csv")
    for tail in ("light", "medium", "heavy"):
        call(savings, tail, *config, "--out", results / "savings" / f"{tail}.csv")
    call(tabulate, *config, "--out", results, "--variants", results / "variants.csv", *runs)
    call(figures, *config, "--out", results / "figures", results)
    table, judged = (pd.read_csv(results / f"{name}.csv") for name in ("table", "verdict"))
    assert table[["workload", "arm"]].to_numpy().tolist() == [
        [workload, arm] for workload in ("stationary", "change") for arm in ("8", "sagc", "sagc-robust")
    ]
    text = (results / "verdict.md").read_text()
    assert len(judged) == 11 and "mean + 2 se" in text and "in hours of all steps: 1 % of sagc's" in text
    assert {path.stem for path in (results / "figures").glob("*.svg")} == {"control", "sensitivity", "savings"}
    first = {path.name: path.read_bytes() for path in results.rglob("*.csv")}
    call(play, "change", *config, "--out", runs[1].parent)
    assert first[runs[1].name] == runs[1].read_bytes()  # the same seeds, the same runs


def test_calibration_against_runs(tmp_path, raw_grid):
    """Seconds of the made runs are those of positions and trained tokens exactly, and a bit for the weight sync."""
    for group in ("4", "16", "sagc"):
        folder = make_run(tmp_path / "results", group)
        grid = validate_grid(raw_grid("grpo", int(group) if group.isdigit() else group, prompts_per_step=8))
        config = json.loads((folder / "config.json").read_text())
        run = grid.run(grid.cells()[0]).model_dump(mode="json")
        (folder / "config.json").write_text(json.dumps(config | {"run": run}))
    call(calibration, "--out", tmp_path / "calibration.csv", tmp_path / "results")
    call(calibration_table, tmp_path / "calibration.csv")
    assert "| simulated G |" in (tmp_path / "calibration.md").read_text()
    found = pd.read_csv(tmp_path / "calibration.csv").set_index("group")
    assert found.index.tolist() == ["16", "4", "sagc"]
    assert found[["own_median", "own_total"]].abs().to_numpy().max() < 0.05
    assert found["other_median"].isna().tolist() == [True, True, False]
    assert found.loc["sagc", "other_median"] < 1e-6
    assert found["simulated"].abs().max() < 0.3  # lengths drawn from few groups, and another path of the controller
    assert found.loc["16", "simulated_size"] == 16
    (folder / "config.json").write_text("{}")
    refused = CliRunner().invoke(calibration.main, ["--out", str(tmp_path / "again.csv"), str(tmp_path / "results")])
    assert refused.exit_code == 2 and refused.output.count("\n") == 1


def test_mistakes_in_the_study_are_one_sentence(small_study, project, tmp_path):
    refused = CliRunner().invoke(play.main, ["odd", "--config", str(small_study), "--out", str(tmp_path)])
    assert refused.exit_code == 2
    assert refused.output == "Error: unknown workload 'odd'; workloads are stationary, change\n"
    raw = read_yaml(small_study)
    with pytest.raises(UserError, match=r"sensitivity.workloads has odd, which workloads lacks"):
        validate_study(raw | {"sensitivity": raw["sensitivity"] | {"workloads": ["odd"]}}, "study.yaml")
    assert load_study(project / "config" / "study.yaml").seeds == 20
