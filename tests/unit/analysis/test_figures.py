"""The figures: numbers by hand, one style per arm, the same bytes every time, and runs that lack things."""

import math
import re
from collections import Counter
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from matplotlib.colors import to_hex
from matplotlib.image import imread

from analysis.figures import kinds as figures
from analysis.figures.comparison import (
    accuracy_data,
    draw_accuracy,
    draw_idle,
    draw_pareto,
    draw_reward,
    idle_data,
    pareto_data,
    reward_data,
)
from analysis.figures.kinds import KINDS, missing_figures, write_figures
from analysis.figures.style import ARMS, MOST_POINTS, arm_style, figure_style, thin, time_unit
from analysis.figures.training import (
    control_data,
    draw_control,
    draw_group_size,
    draw_risk,
    group_size_data,
    lengths_data,
    risk_data,
)
from analysis.results.runs import Results, RunResults
from sagc.run.folder import RunFolder

ALL = ["reward", "pareto", "control", "group_size", "risk", "lengths", "idle"]
LENGTHS = {"q10": 10, "q25": 20, "median_length": 30, "q75": 40, "q90": 50, "q99": 60, "max_length": 70}
COMMENT = re.compile("<!-- (.*?) -->")


def run(
    group="16", seed=0, steps=3, cell=("tiny", "grpo", "vanilla"), ladder=None, delta=None, planned=None, **columns
):
    """A run whose steps take 60 s each; `columns` replaces columns of its steps."""
    own = {"sagc": [4, 8, 16], "sagc-robust": [4, 6, 8, 12, 16]}.get(group, [])
    ladder = own if ladder is None else ladder
    at = np.arange(1, steps + 1)
    values = {
        "step": at,
        "group_size": np.full(steps, ladder[0] if ladder else int(group)),
        "straggler_rate": np.linspace(0.2, 0.8, steps),
        "idle_fraction": np.linspace(0.5, 0.9, steps),
        "reward": np.linspace(0.4, 0.6, steps),
        "elapsed_s": 60.0 * at,
        "dual_variable": np.linspace(0, 2, steps) if group == "sagc" else np.full(steps, math.nan),
        "budget": np.linspace(0.5, 0.6, steps) if group == "sagc-robust" else np.full(steps, math.nan),
        **{name: np.full(steps, float(tokens)) for name, tokens in LENGTHS.items()},
        **columns,
    }
    risks = pd.DataFrame(0.5, index=pd.Index(at, name="step"), columns=ladder, dtype=float)
    names = ("model", "algorithm", "stack", "group", "seed")
    return RunResults(
        name="/".join((*cell, group, f"seed{seed}")),
        folder=RunFolder("nowhere"),
        cell=dict(zip(names, (*cell, group, seed), strict=True)),
        config={"run": {"controller": {"tau": 2.0, "event": "group"} | ({} if delta is None else {"delta": delta})}},
        planned_steps=steps if planned is None else planned,
        steps=pd.DataFrame(values),
        risks=risks,
        realised=risks[ladder[:1]].reindex(columns=ladder),
    )


def evaluated(accuracy, group, **arguments):
    made = run(group, **arguments)
    made.summary = {"accuracy_heldout": accuracy, "accuracy_heldout_se": 0.01, "output_tokens_heldout": 30.0}
    return made


def grid():
    """A cell with every arm."""
    accuracies = {"4": 0.5, "8": 0.7, "16": 0.8, "sagc": 0.75, "sagc-robust": 0.72}
    return [
        evaluated(accuracy, group, steps=12, elapsed_s=np.arange(1, 13) * 60.0 * (place + 1))
        for place, (group, accuracy) in enumerate(accuracies.items())
    ]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return write_figures(grid(), tmp_path_factory.mktemp("figures"))


# Data ----------------------------------------------------------------------------------------------------------------


def quantity(data, name):
    return data.loc[data["quantity"] == name, "value"].tolist()


def test_control_by_hand():
    rates = [0.0] * 5 + [1.0] * 7
    sizes = [4, 8, 16] * 4
    data = control_data([run("16"), run("sagc", steps=12, delta=0.65, straggler_rate=rates, group_size=sizes)])
    assert set(data["group"]) == {"sagc"}
    assert quantity(data, "group_size") == sizes
    assert quantity(data, "straggler_rate") == rates
    # The first steps have fewer than ten behind them; the last has steps 3 to 12, of which 3 are 0.
    assert quantity(data, "straggler_rate_mean")[4:6] == [0.0, pytest.approx(1 / 6)]
    assert quantity(data, "straggler_rate_mean")[-1] == pytest.approx(0.7)
    assert quantity(data, "delta") == [0.65] * 12
    assert quantity(data, "dual_variable")[-1] == 2.0 and quantity(data, "budget") == []


def test_control_of_the_robust_controller_has_its_budget():
    data = control_data([run("sagc-robust", steps=2, delta=0.4)])
    assert quantity(data, "budget") == [0.5, 0.6] and quantity(data, "dual_variable") == []
    assert quantity(data, "delta") == [0.4, 0.4]


def test_a_run_of_an_older_version_gets_no_target_that_was_not_its_own():
    other = run("sagc", steps=2)
    other.config = {"run": {"controller": {"gamma": 1}}}
    data = control_data([other])
    assert np.isnan(quantity(data, "delta")).all()
    with figure_style():
        assert len(draw_control(data).axes) == 3


def test_risk_by_hand():
    one = run("sagc", steps=3, ladder=[4, 8])
    one.risks = pd.DataFrame({4: [0.1, 0.2, 0.3], 8: [0.4, 0.5, 0.6]}, index=pd.Index([1, 2, 3], name="step"))
    one.realised = pd.DataFrame({4: [0.0, 0.5, 1.0], 8: [math.nan, 0.8, math.nan]}, index=one.risks.index)
    data = risk_data([run("16"), one]).set_index(["size", "step"])
    assert data["believed"].loc[8].tolist() == [0.4, 0.5, 0.6]
    assert data["realised"].loc[4].tolist() == [0.0, 0.25, 0.5]
    assert math.isnan(data["realised"].loc[8, 1]) and data["realised"].loc[8].tolist()[1:] == [0.8, 0.8]


def test_lengths_are_means_over_ten_steps_and_the_seeds():
    one = run("8", seed=0, steps=12, max_length=[0.0, 0.0] + [100.0] * 10)
    two = run("8", seed=1, steps=2, max_length=[50.0, 70.0])
    data = lengths_data([one, two]).set_index(["quantile", "step"])
    assert data.loc[(0.5, 1), "tokens"] == 30.0
    assert data.loc[(1.0, 2), ["tokens", "seeds"]].tolist() == [30.0, 2]  # (0 + 60) / 2
    assert data.loc[(1.0, 12), ["tokens", "seeds"]].tolist() == [100.0, 1]
    assert sorted(set(data.index.get_level_values("quantile"))) == [0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0]


def test_reward_leaves_out_what_is_not_there():
    data = reward_data([run("4", steps=4, reward=[math.nan, 0.5, math.nan, 0.7]), run("8", reward=[math.nan] * 3)])
    assert data["step"].tolist() == [2, 3, 4]
    assert data["reward"].tolist() == [0.5, 0.5, 0.6]
    assert data["elapsed_s"].tolist() == [120.0, 180.0, 240.0]


def test_pareto_by_hand():
    runs = [
        evaluated(0.6, "4", seed=0, steps=60),
        evaluated(0.8, "4", seed=1, steps=120),
        evaluated(0.5, "8", steps=120),
        evaluated(0.9, "16", steps=240),
        run("sagc", steps=10, planned=60),
        run("sagc-robust", steps=0),
    ]
    data = pareto_data(runs).set_index("group")
    assert data.loc["4", ["hours", "accuracy"]].tolist() == [1.5, 0.7]
    assert data.loc["4", ["hours_se", "accuracy_se"]].tolist() == [0.5, pytest.approx(0.1)]
    assert data.loc["16", "hours"] == 4.0 and math.isnan(data.loc["16", "accuracy_se"])
    assert data["on_front"].tolist() == [True, False, True, False, False]
    assert data.loc["4", "problems_se"] == 0.01 and set(data["measure"]) == {"heldout"}
    assert data.loc[["sagc", "sagc-robust"], ["hours", "accuracy"]].isna().all(axis=None)


def test_without_an_evaluation_the_reward_at_the_end_decides():
    data = pareto_data([run("4", steps=12, reward=[9.0, 9.0] + [0.5] * 10), run("16", steps=12)])
    assert data["measure"].tolist() == ["training reward"] * 2
    assert data["accuracy"].iloc[0] == pytest.approx(0.5)


def test_idle_is_the_distribution_over_the_steps_of_all_seeds():
    data = idle_data([run("4", steps=2, idle_fraction=[0.9, 0.5]), run("4", seed=1, steps=2, idle_fraction=[0.7, 0.5])])
    assert data["idle_fraction"].tolist() == [0.5, 0.5, 0.7, 0.9]
    assert data["share"].tolist() == [0.25, 0.5, 0.75, 1.0]


def test_group_sizes_count_steps_of_all_seeds_and_unused_sizes():
    data = group_size_data([run("16"), run("sagc", steps=3, group_size=[4, 4, 8]), run("sagc", 1, 1, group_size=[8])])
    assert data["group_size"].tolist() == [4, 8, 16]
    assert data["steps"].tolist() == [2, 2, 0]
    assert data["share"].tolist() == [0.5, 0.5, 0.0]


def test_thinning_keeps_the_last():
    kept = thin(pd.DataFrame({"step": range(1, 1001)}))["step"].tolist()
    assert len(kept) == MOST_POINTS and kept[-1] == 1000 and set(np.diff(kept)) == {4}
    assert len(thin(pd.DataFrame({"step": range(MOST_POINTS)}))) == MOST_POINTS


@pytest.mark.parametrize("seconds, unit", [(119, "seconds"), (120, "minutes"), (7199, "minutes"), (7200, "hours")])
def test_unit_of_time(seconds, unit):
    assert time_unit(seconds)[0] == unit


# Drawing -------------------------------------------------------------------------------------------------------------


def test_an_arm_looks_the_same_everywhere():
    runs = grid()
    with figure_style():
        reward, idle = draw_reward(reward_data(runs)).axes[0], draw_idle(idle_data(runs)).axes[0]
        pareto, bars = draw_pareto(pareto_data(runs)).axes[0], draw_group_size(group_size_data(runs)).axes[0]
        control = draw_control(control_data(runs)).axes
    for group, over_time, distribution in zip(ARMS, reward.lines, idle.lines, strict=True):
        style = ARMS[group]
        assert over_time.get_color() == distribution.get_color() == style.color
        assert over_time.get_marker() == distribution.get_marker() == style.marker
        assert style.marker in [line.get_marker() for line in pareto.lines if line.get_color() == style.color]
    assert [to_hex(bar.patches[0].get_facecolor()).upper() for bar in bars.containers] == ["#D55E00", "#009E73"]
    assert [control[0].lines[0].get_color(), control[3].lines[0].get_color()] == ["#D55E00", "#009E73"]


def test_styles_of_other_sizes_differ():
    sizes = ["2", "4", "6", "8", "12", "16", "24", "32", "64", "sagc", "sagc-robust"]
    assert len({arm_style(size) for size in sizes}) == len(sizes)


def test_names_of_points_cover_neither_points_nor_each_other():
    accuracies = {"4": 0.730, "8": 0.7295, "16": 0.745, "sagc": 0.729, "sagc-robust": 0.7285}
    minutes = {"4": 1.3, "8": 1.8, "16": 4.0, "sagc": 2.0, "sagc-robust": 1.5}
    runs = [evaluated(accuracies[g], g, steps=1, elapsed_s=[60 * minutes[g]]) for g in accuracies]
    with figure_style():
        figure = draw_pareto(pareto_data(runs))
    axes = figure.axes[0]
    figure.draw_without_rendering()
    names = [name.get_window_extent() for name in axes.texts]
    points = axes.transData.transform([(minutes[g], accuracies[g]) for g in accuracies])
    assert sorted(name.get_text() for name in axes.texts) == sorted(
        ["static 4", "static 8", "static 16", "sagc", "sagc-robust"]
    )
    for place, name in enumerate(names):
        assert name.count_overlaps(names[place + 1 :]) == 0
        assert not any(name.contains(*point) for point in points)


def test_labels_stay_in_the_figure_and_off_the_ticks():
    accuracies = {"4": 0.71, "8": 0.7101, "16": 0.7099, "sagc": 0.7102, "sagc-robust": 0.71}  # ticks of five decimals
    runs = [evaluated(accuracy, group) for group, accuracy in accuracies.items()]
    for kind in KINDS[:1] + KINDS[2:]:
        with figure_style():
            figure = kind.draw(kind.data(runs))
            figure.draw_without_rendering()
        drawn, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
        assert drawn.x0 >= 0 and drawn.y0 >= 0 and drawn.x1 <= width and drawn.y1 <= height, kind.name
        for axes in figure.axes:
            low, high = axes.get_ylim()
            ticks = [
                tick.get_window_extent() for tick in axes.get_yticklabels() if low <= tick.get_position()[1] <= high
            ]
            label = axes.yaxis.label.get_window_extent()
            assert not axes.get_ylabel() or label.count_overlaps(ticks) == 0, kind.name


def test_the_front_is_a_step_line():
    runs = [evaluated(a, g, steps=n, planned=n) for a, g, n in ((0.5, "4", 10), (0.9, "16", 30), (0.4, "8", 20))]
    with figure_style():
        axes = draw_pareto(pareto_data(runs)).axes[0]
    front = next(line for line in axes.lines if line.get_zorder() == 0)
    right = axes.get_xlim()[1]
    assert front.get_xdata().tolist() == pytest.approx([10, 30, 30, right])
    assert front.get_ydata().tolist() == [0.5, 0.5, 0.9, 0.9]


def test_ladders_share_columns_where_they_fit():
    with figure_style():
        axes = draw_risk(risk_data([run("sagc"), run("sagc-robust")])).axes
    places = {(one.get_title(), round(one.get_position().x0, 3)) for one in axes}
    assert len(axes) == 8 and len(places) == 5


def keeping(made, accuracies, last):
    """The run with the accuracies of the models kept after steps 1, 2, ..., and of its last one."""
    kept = {str(step): {"heldout": {"accuracy": value}} for step, value in enumerate(accuracies, start=1)}
    made.evaluation = {"benchmarks": {"heldout": {"accuracy": last}}, "kept": kept}
    return made


def test_accuracy_over_time_by_hand():
    runs = [keeping(evaluated(0.8, "16", seed=seed), [0.4, 0.6], 0.8 + seed / 10) for seed in (0, 1)]
    runs += [keeping(run("4", elapsed_s=[10.0, 20.0, 30.0]), [0.2], 0.3), run("sagc"), evaluated(0.9, "8")]
    runs += [keeping(run("sagc-robust", planned=9), [0.2], 0.3)]  # trained anew
    data = accuracy_data(runs).set_index(["group", "step"])
    assert list(data.index) == [("16", 1), ("16", 2), ("16", 3), ("4", 1), ("4", 3)]
    assert set(data["benchmark"]) == {"heldout"}
    last = data.loc[("16", 3)]
    assert (last["seeds"], last["elapsed_s"], last["accuracy"]) == (2, 180.0, pytest.approx(0.85))
    assert last["accuracy_se"] == pytest.approx(0.05)
    assert data.loc[("4", 3), "elapsed_s"] == 30.0 and math.isnan(data.loc[("4", 3), "accuracy_se"])
    with figure_style():
        (axes,) = draw_accuracy(data.reset_index()).axes
    assert axes.get_ylabel() == "accuracy on heldout" and axes.get_xlabel() == "training time (minutes)"


def test_accuracy_over_time_is_drawn_where_models_were_kept_and_not_missed_elsewhere(tmp_path):
    runs = [keeping(evaluated(0.8, "16"), [0.4], 0.8)]
    assert "accuracy" in [file.kind for file in write_figures(runs, tmp_path)]
    assert not [sentence for sentence in missing_figures([evaluated(0.8, "16")]) if "accuracy over" in sentence]


# Files ---------------------------------------------------------------------------------------------------------------


def test_every_kind_is_written_and_reproduces_its_data(written):
    assert [file.kind for file in written] == ALL
    by_kind = {kind.name: kind for kind in KINDS}
    for file in written:
        assert file.section == ("tiny", "grpo", "vanilla")
        assert [path.name for path in (file.svg, file.png, file.csv)] == [
            f"tiny_grpo_vanilla_{file.kind}.{ending}" for ending in ("svg", "png", "csv")
        ]
        data = by_kind[file.kind].data(grid())
        read = pd.read_csv(file.csv, dtype={"group": str})
        pd.testing.assert_frame_equal(read, data.reset_index(drop=True), check_dtype=False)


def test_pictures_are_not_blank(written):
    for file in written:
        picture = imread(file.png)
        assert picture.shape[1] in (525, 1050)  # 3.5 and 7 inches
        assert 0.005 < np.mean(picture[..., :3].min(axis=-1) < 0.9) < 0.6


def test_svg_says_what_it_shows(written):
    expected = {
        "reward": ["static 4", "sagc-robust", "training time (minutes)", "training reward"],
        "pareto": ["static 16", "sagc", "training time (minutes)", "accuracy on heldout"],
        "control": ["sagc, seed 0", "group size G", "dual variable λ", "budget b", "straggler rate", "target δ"],
        "group_size": ["sagc", "share of steps (%)", "group size G"],
        "risk": ["belief of sagc", "G = 12", "step"],
        "lengths": ["static 8", "length (tokens)", "median", "maximum"],
        "idle": ["static 4", "idle fraction of a step"],
    }
    for file in written:
        text = file.svg.read_text(encoding="utf-8")
        root = ElementTree.fromstring(text)
        assert root.find("{http://www.w3.org/2000/svg}title").text == file.title
        assert set(expected[file.kind]) <= {part for comment in COMMENT.findall(text) for part in comment.split("\n")}
        assert "<style" not in text and "<image" not in text and "<text" not in text


def test_ids_are_unique_in_a_page_with_all_figures(written):
    page = "".join(file.svg.read_text(encoding="utf-8") for file in written)
    ids = Counter(re.findall(r' id="([^"]+)"', page))
    referred = set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', page))
    assert max(ids.values()) == 1
    assert {one or other for one, other in referred} == set(ids)


def test_the_same_data_give_the_same_bytes(written, tmp_path):
    with matplotlib.rc_context({"lines.linewidth": 9, "axes.grid": True, "svg.fonttype": "none"}):
        again = write_figures(grid(), tmp_path)
    for one, other in zip(written, again, strict=True):
        for name in ("svg", "png", "csv"):
            assert getattr(one, name).read_bytes() == getattr(other, name).read_bytes()
    assert len(list(tmp_path.iterdir())) == 3 * len(ALL)


def test_names_with_dots_and_underscores(tmp_path):
    cells = [("a_b", "c", "vanilla"), ("a", "b_c", "vanilla"), ("Qwen2.5-3B", "grpo", "openrlhf")]
    files = [file for file in write_figures([run("4", cell=cell) for cell in cells], tmp_path) if file.kind == "idle"]
    assert [file.svg.name for file in files] == [
        "a_b_c_vanilla_idle.svg",
        "a_b_c_vanilla_idle_.svg",
        "Qwen2.5-3B_grpo_openrlhf_idle.svg",
    ]


# Runs that lack things -----------------------------------------------------------------------------------------------

NO_CONTROLLER = ["control", "group_size", "risk"]


@pytest.mark.parametrize(
    "runs, missing",
    [
        ([], None),
        ([run("4", steps=0), run("sagc", steps=0)], ALL),
        ([run("4", steps=0), run("sagc", steps=1)], []),
        ([run("4")], NO_CONTROLLER),
        ([run("sagc")], []),
        ([run("sagc", reward=[math.nan] * 3)], ["reward", "pareto"]),
        ([run("16", planned=60)], ["pareto", *NO_CONTROLLER]),
        ([run("sagc", ladder=[3, 4, 5, 6, 7, 8, 9, 10]), run("sagc-robust"), run("12")], []),
        ([run("4", steps=3, step=[1, 2, 2])], NO_CONTROLLER),
    ],
    ids="nothing,no steps,one step,static,one arm,no rewards,unfinished,other ladder,repeated step".split(","),
)
def test_what_is_not_there_is_not_drawn_but_said(runs, missing, tmp_path):
    files = write_figures(runs, tmp_path)
    expected = [] if missing is None else [kind for kind in ALL if kind not in missing]
    assert [file.kind for file in files] == expected
    sentences = missing_figures(runs)
    assert len(sentences) == len(missing or [])
    assert all(sentence.startswith("tiny/grpo/vanilla: no figure of ") for sentence in sentences)


def test_arms_without_a_point_are_named(tmp_path):
    runs = [evaluated(0.5, "4"), run("sagc", steps=0), run("sagc-robust", planned=60)]
    caption = next(file.caption for file in write_figures(runs, tmp_path) if file.kind == "pareto")
    assert caption.endswith("Not shown, for lack of a finished run with this measure: sagc, sagc-robust.")


def test_a_thousand_steps_stay_small(tmp_path):
    generator = np.random.default_rng(0)
    noise = {name: generator.random(1000) for name in ("straggler_rate", "reward", "idle_fraction")}
    noise |= {name: tokens + 10 * generator.random(1000) for name, tokens in LENGTHS.items()}
    runs = [run(group, steps=1000, **noise) for group in ARMS]
    for file in write_figures(runs, tmp_path):
        assert file.svg.stat().st_size < 250_000, file.kind
    for axes in draw_reward(reward_data(runs)).axes:
        assert all(len(line.get_xdata()) <= MOST_POINTS for line in axes.lines)


# Command -------------------------------------------------------------------------------------------------------------


def test_command(tmp_path, monkeypatch):
    results = Results([run("4")], ["this run is odd"])
    monkeypatch.setattr(figures, "load_results", lambda folder: results)
    done = CliRunner().invoke(figures.main, ["--out", str(tmp_path / "figures"), str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "this run is odd" in done.stderr and "no figure of control" in done.stderr
    assert done.stdout == f"4 figures: {tmp_path / 'figures'}\n"
    assert len(list((tmp_path / "figures").glob("*.svg"))) == 4


@pytest.mark.parametrize("folder, message", [("empty", "holds no run"), ("none", "does not exist")])
def test_command_refuses_a_folder_without_runs(folder, message, tmp_path):
    (tmp_path / "empty").mkdir()
    done = CliRunner().invoke(figures.main, ["--out", str(tmp_path / "out"), str(tmp_path / folder)])
    assert done.exit_code == 2 and message in done.output
    assert not (tmp_path / "out").exists()
