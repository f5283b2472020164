"""Figures of what happened in training: control, risk, response lengths and group sizes.

Of each there is the data, a tidy table, and the drawing of that table and of nothing else.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, LogLocator, NullLocator, ScalarFormatter

from analysis.figures.style import (
    FAINT,
    GREY,
    NARROW,
    WIDE,
    arm_handles,
    arm_label,
    arm_style,
    draw_line,
    new_figure,
    running_mean,
    share_axis,
    step_axis,
    thin,
)
from analysis.results.runs import RunResults

QUANTILES = {"q10": 0.1, "q25": 0.25, "median_length": 0.5, "q75": 0.75, "q90": 0.9, "q99": 0.99, "max_length": 1.0}
DUAL = {"dual_variable": "dual variable λ", "budget": "budget b"}


def begun(runs: list[RunResults]) -> list[RunResults]:
    """The runs that have a step."""
    return [run for run in runs if len(run.steps)]


def controlled(runs: list[RunResults]) -> list[RunResults]:
    """Those of them whose group size a controller chose."""
    return [run for run in begun(runs) if not run.cell["group"].isdigit()]


def concat(parts: list[pd.DataFrame], columns: list[str]) -> pd.DataFrame:
    """The parts one below the other; a table without rows where there are none."""
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


# Control -------------------------------------------------------------------------------------------------------------


def control_data(runs: list[RunResults]) -> pd.DataFrame:
    """Long table: group, seed, step, quantity, value.

    Quantities are group_size, dual_variable or budget, straggler_rate, straggler_rate_mean (over ten steps) and delta.
    """
    parts = []
    for run in controlled(runs):
        steps = run.steps
        dual = "budget" if steps["budget"].notna().any() else "dual_variable"
        rate = steps["straggler_rate"]
        values = {"group_size": steps["group_size"], dual: steps[dual], "straggler_rate": rate}
        values |= {"straggler_rate_mean": running_mean(rate), "delta": _delta(run)}
        wide = pd.DataFrame({"step": steps["step"], **values}).astype(float).astype({"step": int})
        long = wide.melt("step", var_name="quantity")
        parts.append(long.assign(group=run.cell["group"], seed=run.cell["seed"]))
    return concat(parts, ["group", "seed", "step", "quantity", "value"])


def _delta(run: RunResults) -> float:
    """The straggler rate that the run was to have; NaN where an older version did not write it down."""
    return float(run.config["run"].get("controller", {}).get("delta", math.nan))


def draw_control(data: pd.DataFrame) -> Figure:
    """A column per run, at most three abreast; below each other its group size, dual variable and straggler rate."""
    runs = list(data.groupby(["group", "seed"], sort=False))
    columns = min(3, len(runs))
    legend = [
        Line2D([], [], color=FAINT, linewidth=0.8, label="per step"),
        Line2D([], [], color=GREY, linewidth=1.6, label="mean over 10 steps"),
        Line2D([], [], color="black", linestyle="dashed", linewidth=0.9, label="target δ"),
    ]
    width, abreast = (WIDE, 3) if columns > 1 else (NARROW, 2)
    figure, grid = new_figure(width, 1.2, 3 * math.ceil(len(runs) / columns), columns, legend, abreast)
    sizes = sorted(data.loc[data["quantity"] == "group_size", "value"].unique())
    for place, ((group, seed), rows) in enumerate(runs):
        band, column = divmod(place, columns)
        panels = [figure.add_subplot(grid[3 * band + row, column]) for row in range(3)]
        of = {name: part.set_index("step")["value"] for name, part in rows.groupby("quantity", sort=False)}
        _draw_run(panels, of, sizes, arm_style(group).color)
        panels[0].set_title(f"{group}, seed {seed}", fontweight="bold")
        if column == 0:
            panels[0].set_ylabel("group size G")
            panels[2].set_ylabel("straggler rate")
        for axes in panels:
            step_axis(axes, data["step"].max(), labelled=axes is panels[2])
    figure.align_ylabels()
    return figure


def _draw_run(panels: list[Axes], of: dict[str, pd.Series], sizes: list[float], color: str) -> None:
    """One run: its group sizes, its dual variable or budget, and its straggler rate, from top to bottom."""
    top, middle, bottom = panels
    dual = next(name for name in DUAL if name in of)
    _draw_sizes(top, of["group_size"], sizes, color)
    draw_line(middle, of[dual], color=color)
    middle.set_ylabel(DUAL[dual])
    if dual == "budget":
        _draw_target(middle, of["delta"])
    else:
        middle.set_ylim(0, 1.05 * max(of[dual].max(), 0.1))
    draw_line(bottom, of["straggler_rate"], color=FAINT, linewidth=0.6)
    draw_line(bottom, of["straggler_rate_mean"], color=color, linewidth=1.6)
    share_axis(bottom)
    _draw_target(bottom, of["delta"])


def _draw_sizes(axes: Axes, played: pd.Series, sizes: list[float], color: str) -> None:
    changes = played[(played != played.shift()) | (played.index == played.index[-1])]
    width, marker = 1.2 if len(changes) < 100 else 0.5, "." if len(changes) == 1 else None
    style = {"color": color, "linewidth": width, "marker": marker, "drawstyle": "steps-post"}
    axes.plot(changes.index, changes.to_numpy(), **style)
    axes.set_yscale("log", base=2)
    axes.set_ylim(sizes[0] / 1.25, sizes[-1] * 1.25)
    axes.yaxis.set_major_locator(FixedLocator(sizes, nbins=4))
    axes.yaxis.set_major_formatter(ScalarFormatter())
    axes.yaxis.set_minor_locator(NullLocator())


def _draw_target(axes: Axes, delta: pd.Series) -> None:
    if delta.notna().any():
        axes.axhline(delta.iloc[-1], color="black", linestyle="dashed", linewidth=0.9)


# Risk ----------------------------------------------------------------------------------------------------------------


def risk_data(runs: list[RunResults]) -> pd.DataFrame:
    """Long table: group, seed, step, size, believed, realised (mean over ten steps)."""
    parts = []
    for run in controlled(runs):
        if run.risks.empty:
            continue
        believed = run.risks.rename_axis(index="step", columns="size").stack().rename("believed")
        realised = running_mean(run.realised.reindex_like(run.risks))
        realised = realised.rename_axis(index="step", columns="size").stack().rename("realised")
        both = believed.to_frame().join(realised).reset_index()
        parts.append(both.assign(group=run.cell["group"], seed=run.cell["seed"]))
    return concat(parts, ["group", "seed", "step", "size", "believed", "realised"])


def draw_risk(data: pd.DataFrame) -> Figure:
    """A row of panels per run, one panel per size of the ladder; the sizes in columns where there are few enough."""
    sizes = sorted(data["size"].unique())
    columns, panels, row = min(6, len(sizes)), [], 0
    for _, rows in data.groupby(["group", "seed"], sort=False):
        own = sorted(rows["size"].unique())
        order = sizes if len(sizes) <= columns else own
        for size in own:
            line, column = divmod(order.index(size), columns)
            panels.append((row + line, column, size == own[0], rows[rows["size"] == size].set_index("step")))
        row = panels[-1][0] + 1
    legend = [Line2D([], [], color=arm_style(g).color, linewidth=1.6, label=f"belief of {g}") for g in _groups(data)]
    legend.append(Line2D([], [], color=GREY, linewidth=0.8, label="realised, mean over 10 steps"))
    width, abreast = (WIDE, 3) if columns > 2 else (NARROW, 1)
    figure, grid = new_figure(width, 1.4, row, columns, legend, abreast)
    lowest = {column: row for row, column, *_ in sorted(panels, key=lambda panel: panel[:2])}
    for row, column, first, rows in panels:
        axes = figure.add_subplot(grid[row, column])
        _draw_belief(axes, rows, first)
        step_axis(axes, data["step"].max(), labelled=row == lowest[column])
    return figure


def _draw_belief(axes: Axes, rows: pd.DataFrame, first: bool) -> None:
    """One size of one run; the y axis of the run's first panel says which run."""
    group, seed, size = rows[["group", "seed", "size"]].iloc[0]
    draw_line(axes, rows["realised"], color=GREY, linewidth=0.8)
    draw_line(axes, rows["believed"], color=arm_style(group).color, linewidth=1.6)
    share_axis(axes)
    axes.tick_params(axis="y", labelleft=first)
    axes.set_title(f"G = {size}")
    if first:
        axes.set_ylabel(f"{group}, seed {seed}\nstraggler risk")


def _groups(data: pd.DataFrame) -> list[str]:
    return list(data["group"].unique())


# Lengths -------------------------------------------------------------------------------------------------------------


def lengths_data(runs: list[RunResults]) -> pd.DataFrame:
    """Long table: group, step, quantile (1 is the maximum), tokens (mean over ten steps and the seeds), seeds."""
    parts = []
    for run in begun(runs):
        wide = running_mean(run.steps[list(QUANTILES)]).rename(columns=QUANTILES)
        long = wide.assign(step=run.steps["step"]).melt("step", var_name="quantile", value_name="tokens")
        parts.append(long.assign(group=run.cell["group"]))
    long = concat(parts, ["group", "step", "quantile", "tokens"]).astype({"quantile": float, "tokens": float})
    means = long.groupby(["group", "step", "quantile"], sort=False)["tokens"].agg(tokens="mean", seeds="size")
    return means.reset_index()


def draw_lengths(data: pd.DataFrame) -> Figure:
    """A panel per arm, with bands between quantiles and lines for the median, 99 % and the maximum."""
    groups = _groups(data)
    columns = min(3, len(groups))
    legend = [
        Line2D([], [], color=GREY, linestyle="dotted", label="maximum"),
        Line2D([], [], color=GREY, linestyle="dashed", linewidth=0.9, label="99 %"),
        Patch(color=GREY, alpha=0.2, linewidth=0, label="10 to 90 %"),
        Patch(color=GREY, alpha=0.5, linewidth=0, label="25 to 75 %"),
        Line2D([], [], color=GREY, linewidth=1.6, label="median"),
    ]
    width, abreast = (WIDE, 5) if columns > 1 else (NARROW, 3)
    figure, grid = new_figure(width, 1.85, math.ceil(len(groups) / columns), columns, legend, abreast)
    tokens = data["tokens"].min() / 1.15, data["tokens"].max() * 1.15
    for place, group in enumerate(groups):
        axes = figure.add_subplot(grid[divmod(place, columns)])
        first = place % columns == 0
        _draw_quantiles(axes, data[data["group"] == group], arm_style(group).color, tokens)
        axes.tick_params(axis="y", labelleft=first)
        axes.set_ylabel("length (tokens)" if first else "")
        axes.set_title(arm_label(group), fontweight="bold")
        step_axis(axes, data["step"].max(), labelled=place + columns >= len(groups))
    return figure


def _draw_quantiles(axes: Axes, rows: pd.DataFrame, color: str, limits: tuple[float, float]) -> None:
    of = thin(rows.pivot(index="step", columns="quantile", values="tokens").sort_index())
    for low, high, alpha in ((0.1, 0.9, 0.2), (0.25, 0.75, 0.4)):
        axes.fill_between(of.index, of[low], of[high], color=color, alpha=alpha, linewidth=0)
    for quantile, line, width in ((1.0, "dotted", 1.2), (0.99, "dashed", 0.9), (0.5, "solid", 1.6)):
        draw_line(axes, of[quantile], color=color, linestyle=line, linewidth=width)
    axes.set_yscale("log")
    axes.set_ylim(limits)
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(ScalarFormatter())
    axes.yaxis.set_minor_locator(NullLocator())


# Group sizes ---------------------------------------------------------------------------------------------------------


def group_size_data(runs: list[RunResults]) -> pd.DataFrame:
    """Long table: group, group_size, steps, share of the arm's steps; the ladder's sizes are in it with 0 steps."""
    played = concat(
        [run.steps[["group_size"]].assign(group=run.cell["group"]) for run in controlled(runs)], ["group", "group_size"]
    )
    parts = []
    for group, rows in played.groupby("group", sort=False):
        ladder = {int(size) for run in controlled(runs) if run.cell["group"] == group for size in run.risks.columns}
        sizes = sorted(ladder | set(rows["group_size"].astype(int)))
        steps = rows["group_size"].value_counts().reindex(sizes, fill_value=0)
        parts.append(pd.DataFrame({"group": group, "group_size": sizes, "steps": steps.to_numpy()}))
        parts[-1]["share"] = parts[-1]["steps"] / len(rows)
    return concat(parts, ["group", "group_size", "steps", "share"])


def draw_group_size(data: pd.DataFrame) -> Figure:
    """Bars per size, one for each arm that has the size on its ladder, with the share in percent above."""
    groups, sizes = _groups(data), sorted(data["group_size"].unique())
    width = NARROW if len(sizes) * len(groups) <= 12 else WIDE
    figure, _ = new_figure(width, 2.15, legend=arm_handles(groups, line=False))
    axes = figure.add_subplot()
    for group, rows in data.groupby("group", sort=False):
        at = [_bar(data, groups, sizes, group, size) for size in rows["group_size"]]
        bars = axes.bar(at, 100 * rows["share"], width=0.8 / len(groups), color=arm_style(group).color)
        axes.bar_label(bars, [f"{100 * share:.0f}" for share in rows["share"]], padding=1)
    axes.set_xticks(np.arange(len(sizes)), [str(size) for size in sizes])
    axes.tick_params(axis="x", length=0)
    axes.set_yticks([])  # the bars say it
    axes.spines["left"].set_visible(False)
    axes.set_ylim(0, 112 * data["share"].max())
    axes.set(xlabel="group size G", ylabel="share of steps (%)")
    return figure


def _bar(data: pd.DataFrame, groups: list[str], sizes: list[int], group: str, size: int) -> float:
    """Where the bar of an arm stands: around the size's place, beside those of the other arms with this size."""
    have = set(data.loc[data["group_size"] == size, "group"])
    beside = [each for each in groups if each in have]
    return sizes.index(size) + (beside.index(group) - (len(beside) - 1) / 2) * 0.84 / len(groups)
