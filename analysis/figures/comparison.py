"""Figures that compare the arms of a cell: reward and accuracy over time, the Pareto front and the idle fraction.

Of each there is the data, a tidy table, and the drawing of that table and of nothing else.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.figure import Figure
from matplotlib.path import Path as MatplotlibPath
from matplotlib.text import Annotation
from matplotlib.transforms import Bbox

from analysis.figures.style import (
    FAINT,
    NARROW,
    WIDE,
    Sheet,
    arm_handles,
    arm_label,
    arm_style,
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
    sheet = Sheet(WIDE, 2.2, legend=arm_handles(data["group"].unique()), titled=False)
    axes = sheet.panel()
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
    sheet.label(axes, x=f"training time ({unit})", y="training reward")
    return sheet.figure


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
    sheet = Sheet(WIDE, 2.2, legend=arm_handles(data["group"].unique()), titled=False)
    axes = sheet.panel()
    unit, seconds = time_unit(data["elapsed_s"].max())
    for group, rows in data.groupby("group", sort=False):
        style = arm_style(group)
        axes.errorbar(
            *(rows["elapsed_s"] / seconds, rows["accuracy"], rows["accuracy_se"].fillna(0)),
            **{"color": style.color, "linestyle": style.line, "linewidth": 1.2, "marker": style.marker},
            **{"markersize": 4, "elinewidth": 0.7},
        )
    axes.set_xlim(left=0)
    sheet.label(axes, x=f"training time ({unit})", y=f"accuracy on {data['benchmark'].iloc[0]}")
    return sheet.figure


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
    sheet = Sheet(NARROW, 2.2, titled=False)
    axes = sheet.panel()
    unit, seconds = time_unit(3600 * data["hours"].max())
    times, errors = data["hours"] * 3600 / seconds, data["hours_se"].fillna(0) * 3600 / seconds
    bars = []  # an arm with one seed has none
    for group, x, y, dx, dy in zip(
        *(data["group"], times, data["accuracy"], errors, data["accuracy_se"].fillna(0)), strict=True
    ):
        style = arm_style(group)
        bars += [MatplotlibPath([(x - dx, y), (x + dx, y)]), MatplotlibPath([(x, y - dy), (x, y + dy)])]
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
    sheet.label(axes, x=f"training time ({unit})", y=y)
    _name_points(axes, times, data["accuracy"], data["group"], [front, *bars])
    return sheet.figure


def _draw_front(axes: Axes, times: np.ndarray, accuracy: np.ndarray) -> MatplotlibPath:
    """Draw the step line, and return where it runs: up at each arm of the front, and on to the right."""
    order = np.argsort(times, kind="stable")
    x = np.repeat([*times[order], axes.get_xlim()[1]], 2)[1:-1]
    y = np.repeat(accuracy[order], 2)
    axes.plot(x, y, color=FAINT, linewidth=1.2, zorder=0)
    return MatplotlibPath(np.column_stack([x, y]))


def _name_points(axes: Axes, x: pd.Series, y: pd.Series, groups: pd.Series, lines: list[MatplotlibPath]) -> None:
    """Write each arm's name beside its point, where it covers no other point or name, and no line."""
    renderer = FigureCanvasAgg(axes.figure).get_renderer()
    centres = axes.transData.transform(np.column_stack([x, y]))
    half = 5 * axes.figure.dpi / 72
    taken = [Bbox([centre - half, centre + half]) for centre in centres]
    lines = [line.transformed(axes.transData) for line in lines]
    frame = axes.get_window_extent(renderer)
    for at_x, at_y, group in zip(x, y, groups, strict=True):
        name = axes.annotate(arm_label(group), (at_x, at_y), (0, 0), textcoords="offset points")
        extent, side = min(_places(name, renderer), key=lambda place: _cost(place[0], taken, lines, frame))
        _move(name, *side)
        taken.append(extent)


def _places(name: Annotation, renderer: RendererAgg) -> list[tuple[Bbox, tuple[float, float, str, str]]]:
    """Where a name may stand, best first: its extent in pixels, and offsets in points with the alignments."""
    sides = [(7, 0, "left", "center"), (-7, 0, "right", "center"), (0, 7, "center", "bottom"), (0, -7, "center", "top")]
    sides += [(x, y, "left" if x > 0 else "right", "bottom" if y > 0 else "top") for x in (5, -5) for y in (5, -5)]
    sides += [(x, y, "center", "bottom" if y > 0 else "top") for x, y in ((0, 18), (0, -18))]
    places = []
    for side in sides:
        _move(name, *side)
        places.append((name.get_window_extent(renderer), side))
    return places


def _move(name: Annotation, x: float, y: float, horizontal: str, vertical: str) -> None:
    name.set_position((x, y))
    name.set(horizontalalignment=horizontal, verticalalignment=vertical)


def _cost(extent: Bbox, taken: list[Bbox], lines: list[MatplotlibPath], frame: Bbox) -> int:
    """How much a name would cover: points and names count most; outside the axes counts, too."""
    outside = not (frame.x0 <= extent.x0 and extent.x1 <= frame.x1 and frame.y0 <= extent.y0 and extent.y1 <= frame.y1)
    crossed = sum(line.intersects_bbox(extent, filled=False) for line in lines)
    return 2 * extent.count_overlaps(taken) + 2 * outside + crossed


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
    sheet = Sheet(NARROW, 2.2, legend=arm_handles(data["group"].unique()), abreast=3, titled=False)
    axes = sheet.panel()
    for group, rows in data.groupby("group", sort=False):
        style, line = arm_style(group), thin(rows)
        x, y = [rows["idle_fraction"].iloc[0], *line["idle_fraction"]], [0, *line["share"]]
        axes.plot(
            *(x, y),
            **{"color": style.color, "linestyle": style.line, "drawstyle": "steps-post"},
            **{"marker": style.marker, "markevery": [int(np.searchsorted(y, 0.5))]},
        )
    share_axis(axes)
    sheet.label(axes, x="idle fraction of a step", y="share of steps at or below")
    return sheet.figure
