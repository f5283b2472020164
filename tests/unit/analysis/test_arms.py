"""Arms over their seeds: against numbers by hand, and the tables to read and to print."""

import math

import pandas as pd
import pytest

from analysis.statistics import INTERVAL
from analysis.tables.arm_tables import accuracy_table, efficiency_table
from analysis.tables.arms import summarize_arms
from analysis.tables.clocks import uneven_clocks
from analysis.tables.runs import benchmarks
from analysis.tables.table import MISSING
from tests.unit.analysis.test_tables import row

T1 = 12.706205  # 97.5 % quantile of Student's t with one degree of freedom


def arms(*rows) -> dict[str, dict]:
    frame = summarize_arms(pd.DataFrame(rows))
    return {arm["group"]: arm for arm in frame.to_dict(orient="records")}


def test_means_and_errors_by_hand():
    found = arms(row("16", seed=0, wall=10.0), row("16", seed=1, wall=14.0), row("sagc", seed=0, wall=6.0))
    assert (found["16"]["seeds"], found["16"]["wall_s"], found["16"]["wall_s_se"]) == (2, 12.0, 2.0)
    assert (found["sagc"]["seeds"], found["sagc"]["wall_s"]) == (1, 6.0)
    assert math.isnan(found["sagc"]["wall_s_se"])


def test_comparisons_are_over_common_seeds():
    found = arms(
        row("16", seed=0, wall=10.0, accuracy_heldout=0.7),
        row("16", seed=1, wall=20.0, accuracy_heldout=0.8),
        row("16", seed=2, wall=99.0, accuracy_heldout=0.1),
        row("sagc", seed=0, wall=6.0, accuracy_heldout=0.6),
        row("sagc", seed=1, wall=6.0, accuracy_heldout=0.9),
        row("sagc", seed=3, wall=99.0, accuracy_heldout=0.1),
    )["sagc"]
    # Ratios 6 / 10 and 6 / 20: the mean of their logarithms has an error of half of ln 2.
    middle, reach = 0.18**0.5, 2 ** (T1 / 2)
    wall = [found[f"wall_s_vs_static16{part}"] for part in INTERVAL]
    assert wall == pytest.approx([middle, middle / reach, middle * reach, 2])
    accuracy = [found[f"accuracy_heldout_vs_static16{part}"] for part in INTERVAL]
    assert accuracy == pytest.approx([0.0, -T1 * 0.1, T1 * 0.1, 2])


def test_one_seed_has_no_interval():
    found = arms(row("16", wall=10.0), row("sagc", wall=6.0))["sagc"]
    assert found["wall_s_vs_static16"] == pytest.approx(0.6) and found["wall_s_vs_static16_n"] == 1
    assert math.isnan(found["wall_s_vs_static16_low"]) and math.isnan(found["reward_vs_static16_high"])


def test_the_best_static_arm_is_the_most_accurate_and_then_the_cheapest():
    rows = [row("4", wall=1.0, accuracy_heldout=0.7), row("8", wall=2.0, accuracy_heldout=0.8)]
    rows += [row("16", wall=4.0, accuracy_heldout=0.8), row("sagc", wall=3.0, accuracy_heldout=0.9)]
    found = arms(*rows)
    assert {arm["best_static"] for arm in found.values()} == {"8"}
    assert found["sagc"]["wall_s_vs_best_static"] == pytest.approx(1.5)
    assert found["sagc"]["accuracy_heldout_vs_best_static"] == pytest.approx(0.1)


def test_without_benchmarks_the_reward_decides():
    plain = [{k: v for k, v in row(g, reward=r).items() if "heldout" not in k} for g, r in (("4", 0.9), ("16", 0.8))]
    assert arms(*plain)["16"]["best_static"] == "4"


def test_without_a_static_arm_there_is_nothing_to_compare_with():
    found = arms(row("sagc"), row("sagc-robust"))["sagc"]
    assert found["best_static"] is None
    assert math.isnan(found["tokens_vs_static16"]) and math.isnan(found["tokens_vs_best_static"])


def test_every_cell_is_compared_with_its_own_arms():
    frame = summarize_arms(pd.DataFrame([row("16", wall=8.0), row("16", wall=2.0, model="b"), row("4", model="b")]))
    assert frame["wall_s_vs_static16"].tolist() == pytest.approx([1.0, 1.0, 5.0])


def write_arm_tables(runs, folder):
    found = summarize_arms(runs)
    efficiency_table(found, uneven_clocks(runs).values()).write(folder / "efficiency")
    found.to_csv(folder / "arms.csv", index=False)
    accuracy_table(found, benchmarks(runs)).write(folder / "accuracy")


def test_the_tables_say_what_they_show(tmp_path):
    rows = [row(group, seed=seed, wall=3600.0 / (seed + 1)) for group in ("16", "sagc") for seed in (0, 1)]
    write_arm_tables(pd.DataFrame(rows), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "accuracy.md",
        "accuracy.tex",
        "arms.csv",
        "efficiency.md",
        "efficiency.tex",
    ]
    efficiency = (tmp_path / "efficiency.md").read_text()
    assert "0.750 \N{PLUS-MINUS SIGN} 0.250" in efficiency  # hours: 1 and a half
    assert "1.00 [1.00, 1.00], n = 2" in efficiency and "geometric mean of the ratios per seed" in efficiency
    assert "Each arm has 2 seeds. Intervals" in efficiency and "The best static arm is 16." in efficiency
    assert "+0.000 [+0.000, +0.000], n = 2" in (tmp_path / "accuracy.md").read_text()
    latex = (tmp_path / "efficiency.tex").read_text()
    assert r"0.750 $\pm$ 0.250" in latex and r"stragglers \%" in latex and latex.count("\\\\\n") == 3
    assert len(pd.read_csv(tmp_path / "arms.csv")) == 2


def test_an_idle_fraction_that_is_a_bound_is_marked(tmp_path):
    """Of OpenRLHF where dynamic sampling dropped groups, and of nothing else."""
    others = [row("16", filtered_share=0.2), row("16", stack="openrlhf", algorithm="grpo", filtered_share=0.0)]
    write_arm_tables(pd.DataFrame(others), tmp_path)
    assert "50.0*" not in (tmp_path / "efficiency.md").read_text()
    assert "upper bound" not in (tmp_path / "efficiency.md").read_text()
    write_arm_tables(
        pd.DataFrame([*others, row("16", stack="openrlhf", algorithm="dapo", filtered_share=0.2)]), tmp_path
    )
    for kind in ("md", "tex"):
        text = (tmp_path / f"efficiency.{kind}").read_text()
        assert text.count("50.0*") == 1 and "upper bound" in text
    assert "upper bound" not in (tmp_path / "accuracy.md").read_text()


def test_one_seed_is_said_and_its_interval_is_a_dash(tmp_path):
    write_arm_tables(pd.DataFrame([row("16"), row("sagc-robust")]), tmp_path / "tables")
    text = (tmp_path / "tables" / "efficiency.md").read_text()
    assert "Each arm has one seed, so no" in text and "1.00 [\N{EN DASH}], n = 1" in text


def test_hours_that_do_not_compare_are_said_where_they_are_shown(tmp_path):
    rows = [row("16", wall=10.0), row("sagc", wall=20.0, processor_s=4.0)]
    write_arm_tables(pd.DataFrame(rows), tmp_path)
    efficiency = (tmp_path / "efficiency.md").read_text()
    assert "tiny/grpo/vanilla: wall clocks cannot be compared" in efficiency
    assert f"| 0.50 [{MISSING}], n = 1 |" in efficiency, "of the processor time of 16"
    assert "wall clock" not in (tmp_path / "accuracy.md").read_text()
