"""The tables: order, ratios, and a Markdown file that says what it shows."""

import pandas as pd

from analysis.cells import natural_order
from analysis.tables.runs import MISSING, add_ratios, runs_table


def row(group, seed=0, wall=10.0, model="tiny", **changes):
    values = {
        "model": model,
        "algorithm": "grpo",
        "stack": "vanilla",
        "group": group,
        "seed": seed,
        "steps": 60,
        "straggler_rate": 0.8416,
        "idle_fraction": 0.5,
        "mean_group_size": 7.96,
        "moves_per_step": 0.1,
        "infeasible_steps": 0,
        "filtered_share": 0.0,
        "tokens": 380000,
        "wall_s": wall,
        "rollout_s": wall * 0.75,
        "train_s": wall * 0.25,
        "sync_s": 0.0,
        "processor_s": wall / 1.25,
        "reward": 0.6543,
        "cut_off_rate": 0.0012,
        "accuracy_heldout": 0.6118,
        "accuracy_heldout_se": 0.0104,
        "output_tokens_heldout": 35.53,
        "cut_off_rate_heldout": 0.0,
    }
    return {**values, **changes}


def to_markdown(frame):
    return runs_table(frame).markdown()


def test_natural_order():
    groups = ["sagc-robust", "16", "sagc", "8", "4"]
    rows = [row(group, seed=seed, model=model) for group in groups for seed in (10, 2) for model in ("b", "a")]
    frame = pd.DataFrame(sorted(rows, key=natural_order))
    assert frame["model"].tolist() == ["a"] * 10 + ["b"] * 10
    assert frame["group"].tolist()[:10:2] == ["4", "8", "16", "sagc", "sagc-robust"]
    assert frame["seed"].tolist()[:4] == [2, 10, 2, 10]


def test_ratios_are_to_the_same_seed_and_model():
    frame = pd.DataFrame(
        [
            row("4", wall=5.0, tokens=95000),
            row("16", wall=20.0),
            row("4", seed=1, wall=5.0),
            row("16", seed=1, wall=10.0),
            row("4", model="other"),
        ]
    )
    ratios = add_ratios(frame)
    assert ratios["wall_vs_static16"].tolist()[:4] == [0.25, 1.0, 0.5, 1.0]
    assert ratios["rollout_vs_static16"].tolist()[:4] == [0.25, 1.0, 0.5, 1.0]
    assert ratios["tokens_vs_static16"].tolist()[:4] == [0.25, 1.0, 1.0, 1.0]
    assert ratios.loc[4, ["wall_vs_static16", "rollout_vs_static16", "tokens_vs_static16"]].isna().all()


def test_markdown_of_a_run():
    text = to_markdown(add_ratios(pd.DataFrame([row("8", wall=50.4), row("16", wall=100.2)])))
    assert "## tiny, grpo, vanilla\n" in text
    titles, _, line, _ = (line for line in text.splitlines() if line.startswith("|"))
    cells = dict(zip(split(titles), split(line), strict=True))
    assert cells == {
        "group": "8",
        "seed": "0",
        "steps": "60",
        "stragglers %": "84.2",
        "idle %": "50.0",
        "mean G": "8.0",
        "moves": "0.10",
        "tokens, k": "380",
        "wall, s": "50",
        "rollout, s": "38",
        "train, s": "13",
        "processor, s": "40",
        "wall / 16": "0.50",
        "tokens / 16": "1.00",
        "reward": "0.654",
        "cut off %": "0.1",
        "heldout": "0.612 ± 0.010",
        "heldout, tokens": "35.5",
    }
    for title in cells:
        assert f"- **{title}**: " in text


def test_an_idle_fraction_that_is_a_bound_is_marked():
    plain = [row("4", filtered_share=0.2), row("4", stack="openrlhf", algorithm="grpo")]
    assert "upper bound" not in to_markdown(add_ratios(pd.DataFrame(plain)))
    bound = row("4", stack="openrlhf", algorithm="dapo", filtered_share=0.2)
    text = to_markdown(add_ratios(pd.DataFrame([*plain, bound])))
    assert text.count("50.0*") == 1 and "upper bound" in text


def split(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_what_is_missing_is_a_dash():
    other = row("8", accuracy_harder=0.5, accuracy_harder_se=None, output_tokens_harder=9.0, reward=None)
    frame = add_ratios(pd.DataFrame([row("4"), other]))
    four, eight = [line for line in to_markdown(frame).splitlines() if line.startswith("|")][2:]
    assert split(four)[12:14] == [MISSING, MISSING]
    assert split(four)[-2:] == [MISSING, MISSING]
    assert split(eight)[14] == MISSING
    assert split(eight)[-2:] == ["0.500", "9.0"]


def test_a_section_per_model_algorithm_and_stack():
    frame = add_ratios(pd.DataFrame([row("4"), row("16"), row("4", model="z")]))
    text = to_markdown(frame)
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## tiny, grpo, vanilla",
        "## z, grpo, vanilla",
        "## Columns",
    ]


def test_one_seed_is_said():
    text = to_markdown(add_ratios(pd.DataFrame([row("4"), row("16")])))
    assert "2 runs, one per line" in text
    assert "Each arm has one seed, so no interval over seeds can be given" in text


def test_several_seeds_are_counted():
    frame = add_ratios(pd.DataFrame([row("4"), row("16"), row("16", seed=1)]))
    assert "Each arm has 1 to 2 seeds; ±" in to_markdown(frame)
    assert "no interval over seeds" not in to_markdown(frame)


def test_the_csv_has_every_column(tmp_path):
    frame = add_ratios(pd.DataFrame([row("4"), row("sagc")]))
    runs_table(frame).write(tmp_path / "out" / "a", csv=frame, latex=False)
    again = pd.read_csv(tmp_path / "out" / "a.csv", dtype={"group": str})
    assert again.columns.tolist() == [*row("4"), "wall_vs_static16", "rollout_vs_static16", "tokens_vs_static16"]
    assert again["group"].tolist() == ["4", "sagc"]
    assert again["straggler_rate"].tolist() == [0.8416, 0.8416]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a.csv", "a.md"]


def test_a_run_that_shared_the_machine_is_said_in_the_table():
    alone, beside = row("16", wall=10.0), row("sagc", wall=20.0, processor_s=6.0)
    table = to_markdown(add_ratios(pd.DataFrame([alone, beside])))
    assert "tiny/grpo/vanilla: wall clocks cannot be compared" in table
    table = to_markdown(add_ratios(pd.DataFrame([alone, row("sagc", wall=6.0)])))
    assert "compare" not in table


def test_runs_of_an_older_version_have_no_processor_time():
    rows = [row("16"), row("sagc")]
    frame = pd.DataFrame(rows).assign(processor_s=float("nan"))
    assert "2 of 2 runs have no processor time" in to_markdown(add_ratios(frame))
