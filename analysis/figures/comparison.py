"""Figures that compare the arms of a cell: reward and accuracy over time, the Pareto front and the idle fraction.

Of each there is the data, a tidy table, and the drawing of that table and of nothing else.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import textalloc
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures.style import (
    FAINT,
    GREY,
    NARROW,
    WIDE,
    arm_handles,
    arm_label,
    arm_style,
    new_figure,
    running_mean,
    share_axis,
    thin,
    time_unit,
)
from analysis.figures.training import begun, concat
from analysis.results.runs import RunResults
from analysis.tables.curves import accuracy_curve
from analysis.tables.equal_cost import equal_cost

REWARD = "training reward"  # takes the place of a benchmark where there is none


# Reward --------------------------------------------------------------------------------------------------------------


def reward_data(runs: list[RunResults]) -> pd.DataFrame:
    """Table: group, seed, step, elapsed_s, reward (mean over ten steps); without the steps that have no reward yet."""
    parts = []
    for run in begun(runs):
        rows = run.steps[["step", "elapsed_s"]].assign(reward=running_mean(run.steps["reward"]))
        rows = rows.dropna(subset="reward")
        if len(rows):
            parts.append(rows.assign(group=run.cell["group"], seed=run.cell["seed"]))
    return concat(parts, ["group", "seed", "step", "elapsed_s", "reward"])


def draw_reward(data: pd.DataFrame) -> Figure:
    """A line per run, with the arm's marker at its end."""
    figure, _ = new_figure(WIDE, 2.7, legend=arm_handles(data["group"].unique()))
    axes = figure.add_subplot()
    unit, seconds = time_unit(data["elapsed_s"].max())
    width = 1.4 if data.groupby("group")["seed"].nunique().max() == 1 else 0.9
    for (group, _), rows in data.groupby(["group", "seed"], sort=False):
        style, line = arm_style(group), thin(rows)
        axes.plot(
            *(line["elapsed_s"] / seconds, line["reward"]),
            **{"color": style.color, "linestyle": style.line, "linewidth": width},
            **{"marker": style.marker, "markevery": [-1]},
        )
    axes.set_xlim(left=0)
    axes.set(xlabel=f"training time ({unit})", ylabel="training reward")
    return figure


# Accuracy ------------------------------------------------------------------------------------------------------------


def accuracy_data(runs: list[RunResults]) -> pd.DataFrame:
    """Table: benchmark, group, step, seeds, elapsed_s, accuracy, accuracy_se.

    Means over an arm's seeds, of the models kept on the way and the last ones, on the first benchmark that there are
    any of; no rows where no run kept one. The error is over seeds, NaN with one.
    """
    names = dict.fromkeys(name for run in runs for name in (run.evaluation or {}).get("benchmarks", {}))
    for name in names:
        curves = [accuracy_curve(run, name).assign(group=run.cell["group"]) for run in runs]
        rows = concat([curve for curve in curves if len(curve)], ["step", "elapsed_s", "accuracy", "group"])
        if len(rows):
            arms = rows.groupby(["group", "step"], sort=False)
            table = arms.agg(seeds=("accuracy", "size"), elapsed_s=("elapsed_s", "mean"), accuracy=("accuracy", "mean"))
            return table.assign(accuracy_se=arms["accuracy"].sem()).reset_index().assign(benchmark=name)
    return pd.DataFrame(columns=["group", "step", "seeds", "elapsed_s", "accuracy", "accuracy_se", "benchmark"])


def draw_accuracy(data: pd.DataFrame) -> Figure:
    """A line per arm, with a marker and its standard error at every model."""
    figure, _ = new_figure(WIDE, 2.7, legend=arm_handles(data["group"].unique()))
    axes = figure.add_subplot()
    unit, seconds = time_unit(data["elapsed_s"].max())
    for group, rows in data.groupby("group", sort=False):
        style = arm_style(group)
        axes.errorbar(
            *(rows["elapsed_s"] / seconds, rows["accuracy"], rows["accuracy_se"].fillna(0)),
            **{"color": style.color, "linestyle": style.line, "linewidth": 1.2, "marker": style.marker},
            **{"markersize": 4, "elinewidth": 0.7},
        )
    axes.set_xlim(left=0)
    axes.set(xlabel=f"training time ({unit})", ylabel=f"accuracy on {data['benchmark'].iloc[0]}")
    return figure


# Pareto front --------------------------------------------------------------------------------------------------------


def pareto_data(runs: list[RunResults]) -> pd.DataFrame:
    """Table of the arms: group, seeds, measure, hours, hours_se, accuracy, accuracy_se, on_front, problems_se.

    They are those of `analysis.tables.equal_cost.equal_cost`. `measure` is the first benchmark of the cell, or the
    training reward at the end where no run is evaluated. `problems_se` is the mean over the arm's runs of their own
    accuracy's standard error over the benchmark's problems, as opposed to `accuracy_se`, which is over the seeds. An
    arm whose accuracy or hours are not known yet is in it with NaN; where no arm's are, there are no rows.
    """
    arms = equal_cost(runs)
    names = [name.removeprefix("front_") for name in arms.columns if name.startswith("front_")]
    measure = next((name for name in names if name != "reward"), "reward")
    column = measure if measure == "reward" else f"accuracy_{measure}"
    table = arms[["group", "seeds"]].assign(measure=REWARD if measure == "reward" else measure)
    table["hours"], table["hours_se"] = arms["wall_s"] / 3600, arms["wall_s_se"] / 3600
    table["accuracy"], table["accuracy_se"] = arms[column], arms[f"{column}_se"]
    table["on_front"] = arms[f"front_{measure}"]
    errors = [(run.cell["group"], (run.summary or {}).get(f"{column}_se")) for run in runs]
    over_problems = pd.DataFrame(errors, columns=["group", "se"]).astype({"se": float}).groupby("group")["se"].mean()
    table["problems_se"] = table["group"].map(over_problems)
    return table if _known(table).any() else table.iloc[:0]


def _known(table: pd.DataFrame) -> pd.Series:
    """The arms that have a point."""
    return table["hours"].notna() & table["accuracy"].notna()


def draw_pareto(data: pd.DataFrame) -> Figure:
    """A point with its name per arm, and the front as a step line: the best that can be had for so much time."""
    data = data[_known(data)]
    figure, _ = new_figure(NARROW, 2.7)
    axes = figure.add_subplot()
    unit, seconds = time_unit(3600 * data["hours"].max())
    times, errors = data["hours"] * 3600 / seconds, data["hours_se"].fillna(0) * 3600 / seconds
    bars = []  # an arm with one seed has none
    for group, x, y, dx, dy in zip(
        *(data["group"], times, data["accuracy"], errors, data["accuracy_se"].fillna(0)), strict=True
    ):
        style = arm_style(group)
        bars += [([x - dx, x + dx], [y, y]), ([x, x], [y - dy, y + dy])]
        axes.errorbar(
            *(x, y, dy or None, dx or None),
            **{"color": style.color, "marker": style.marker, "markersize": 6, "elinewidth": 0.8, "capsize": 2},
        )
    axes.margins(0.2)
    axes.autoscale_view()
    axes.autoscale(enable=False)
    on_front = data["on_front"].to_numpy(dtype=bool)
    front = _draw_front(axes, times[on_front].to_numpy(), data["accuracy"][on_front].to_numpy())
    measure = data["measure"].iloc[0]
    y = f"{measure} at the end" if measure == REWARD else f"accuracy on {measure}"
    axes.set(xlabel=f"training time ({unit})", ylabel=y)
    _name_points(axes, times, data["accuracy"], data["group"], [front, *bars])
    return figure


def _draw_front(axes: Axes, times: np.ndarray, accuracy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Draw the step line, and return where it runs: up at each arm of the front, and on to the right."""
    order = np.argsort(times, kind="stable")
    x = np.repeat([*times[order], axes.get_xlim()[1]], 2)[1:-1]
    y = np.repeat(accuracy[order], 2)
    axes.plot(x, y, color=FAINT, linewidth=1.2, zorder=0)
    return x, y


def _name_points(axes: Axes, x: pd.Series, y: pd.Series, groups: pd.Series, lines: list[tuple]) -> None:
    """Write each arm's name near its point, where it covers no point, name or line; a thin line joins a distant one."""
    x, y = x.to_numpy(), y.to_numpy()
    textalloc.allocate(
        *(axes, x, y, [arm_label(group) for group in groups], None, x, y),
        **{"x_lines": [np.asarray(line[0]) for line in lines], "y_lines": [np.asarray(line[1]) for line in lines]},
        **{"textsize": 8, "margin": 0.015, "min_distance": 0.03, "max_distance": 0.25, "linecolor": GREY},
        **{"linewidth": 0.4, "priority_strategy": "largest"},
    )


# Idle fraction -------------------------------------------------------------------------------------------------------


def idle_data(runs: list[RunResults]) -> pd.DataFrame:
    """Table: group, idle_fraction (ascending), share of the arm's steps, over all seeds, that had at most this."""
    parts = []
    steps = concat(
        [run.steps[["idle_fraction"]].assign(group=run.cell["group"]) for run in begun(runs)],
        ["group", "idle_fraction"],
    )
    for group, rows in steps.groupby("group", sort=False):
        values = np.sort(rows["idle_fraction"].to_numpy(dtype=float))
        share = np.arange(1, len(values) + 1) / len(values)
        parts.append(pd.DataFrame({"group": group, "idle_fraction": values, "share": share}))
    return concat(parts, ["group", "idle_fraction", "share"])


def draw_idle(data: pd.DataFrame) -> Figure:
    """The empirical distribution function of every arm, its median marked."""
    figure, _ = new_figure(NARROW, 2.7, legend=arm_handles(data["group"].unique()), abreast=3)
    axes = figure.add_subplot()
    for group, rows in data.groupby("group", sort=False):
        style, line = arm_style(group), thin(rows)
        x, y = [rows["idle_fraction"].iloc[0], *line["idle_fraction"]], [0, *line["share"]]
        axes.plot(
            *(x, y),
            **{"color": style.color, "linestyle": style.line, "drawstyle": "steps-post"},
            **{"marker": style.marker, "markevery": [int(np.searchsorted(y, 0.5))]},
        )
    share_axis(axes)
    axes.set(xlabel="idle fraction of a step", ylabel="share of steps at or below")
    return figure
