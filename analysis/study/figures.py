"""The study's figures: `python -m analysis.study.figures --out FOLDER RESULTS`; each drawn from the CSV next to it."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from analysis.figures.style import (
    FAINT,
    GREY,
    WIDE,
    arm_handles,
    arm_style,
    draw_line,
    figure_style,
    new_figure,
    save_figure,
    share_axis,
    step_axis,
)
from sagc.simulation.study.config import StudyConfig, load_study
from sagc.simulation.study.measures import WINDOW
from sagc.system.command import Command

NAMES = {"tau": "tau", "delta": "delta", "eta": "eta", "rho": "rho", "integral_gain": "k_i", "hysteresis": "h"}
PARTS = {"barrier": ("iterations", "#0072B2"), "rows": ("rows", "#56B4E9"), "train": ("updates", "#999999")}
CHANGING, PER_SAMPLE = "#009E73", "#D55E00"


def control_data(steps: pd.DataFrame) -> pd.DataFrame:
    """workload, arm, step; means over the seeds: rate (of the last steps), log2_size; attainable, delta."""
    parts = []
    for _, own in steps.groupby(["workload", "arm"], sort=False):
        rate = own["straggler_rate"].rolling(WINDOW, min_periods=1).mean()
        parts.append(own[["workload", "arm", "step", "log2_size", "attainable", "delta"]].assign(rate=rate))
    return pd.concat(parts, ignore_index=True)


def draw_control(data: pd.DataFrame) -> Figure:
    """Rate in the upper row and size in the lower one, a column per workload."""
    workloads, arms = data["workload"].unique(), data["arm"].unique()
    figure, grid = new_figure(WIDE, 1.4, 2, len(workloads), arm_handles(arms))
    for column, workload in enumerate(workloads):
        top, bottom = (figure.add_subplot(grid[row, column]) for row in range(2))
        own = data[data["workload"] == workload]
        aim = own[own["arm"] == arms[0]].set_index("step")
        top.axhline(aim["delta"].iloc[0], color=GREY, linestyle=(0, (2, 2)), linewidth=0.8)
        for arm in arms:
            lines = own[own["arm"] == arm].set_index("step")
            style = arm_style(arm)
            for axes, values in ((top, lines["rate"]), (bottom, lines["log2_size"])):
                draw_line(axes, values, color=style.color, linestyle=style.line)
        share_axis(top)
        bottom.set_ylim(1.9, 4.1)
        bottom.yaxis.set_major_locator(FixedLocator(np.log2([4, 8, 16])))
        bottom.yaxis.set_major_formatter(FuncFormatter(lambda log2, _: f"{2**log2:.0f}"))
        for axes in (top, bottom):
            axes.tick_params(axis="y", labelleft=column == 0)
            step_axis(axes, int(data["step"].max()), labelled=axes is bottom)
        top.set(title=workload.replace("_", " "), ylabel="" if column else "straggler rate")
        bottom.set_ylabel("" if column else "G")
    figure.align_ylabels()
    return figure


def sensitivity_data(varied: pd.DataFrame) -> pd.DataFrame:
    """parameter, value, arm, measure, result: distance over all workloads, moves when stationary, steps to recover."""
    keys = ["parameter", "value", "arm"]
    of = {
        "distance": varied,
        "moves": varied[varied["workload"] == "stationary"],
        "recovery": varied[varied["recovery"].notna()],
    }
    parts = [
        rows.groupby(keys, sort=False)[measure].mean().rename("result").reset_index().assign(measure=measure)
        for measure, rows in of.items()
    ]
    return pd.concat(parts, ignore_index=True)[[*keys, "measure", "result"]]


def draw_sensitivity(data: pd.DataFrame) -> Figure:
    """A row per measure, a column per parameter; the values are evenly spaced, the default's is marked."""
    titles = {"distance": "distance\nfrom delta", "moves": "moves per\n100 steps", "recovery": "steps to\nrecover"}
    parameters, arms = data["parameter"].unique(), data["arm"].unique()
    figure, grid = new_figure(WIDE, 1.15, 3, len(parameters), arm_handles(arms))
    for row, (measure, title) in enumerate(titles.items()):
        highest = data.loc[data["measure"] == measure, "result"].max()
        for column, parameter in enumerate(parameters):
            axes = figure.add_subplot(grid[row, column])
            own = data[(data["parameter"] == parameter) & (data["measure"] == measure)]
            values = sorted(data.loc[data["parameter"] == parameter, "value"].unique())
            for arm, line in own.groupby("arm", sort=False):
                style, x = arm_style(arm), [values.index(value) for value in line["value"]]
                axes.plot(x, line["result"], color=style.color, linestyle=style.line, marker=style.marker, markersize=3)
            axes.set_xlim(-0.4, len(values) - 0.6)
            axes.xaxis.set_major_locator(FixedLocator(range(0, len(values), 2)))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _, values=values: f"{values[round(at)]:g}"))
            axes.set_ylim(0, highest * 1.06)
            axes.tick_params(labelbottom=row == 2, labelleft=column == 0)
            axes.set(ylabel="" if column else title, title="" if row else NAMES[parameter])
    figure.align_ylabels()
    return figure


def draw_savings(data: pd.DataFrame) -> Figure:
    """A row per KV cache, a column per tail: hours saved at equal steps, by part; per sample; by changing alone."""
    tails, caches = data["tail"].unique(), data["kv_tokens"].unique()
    handles = [Patch(color=color, linewidth=0, label=f"saved at equal steps: {name}") for name, color in PARTS.values()]
    handles += [
        Line2D([], [], color=PER_SAMPLE, marker="o", markersize=3, label="saved per sample"),
        Line2D([], [], color=CHANGING, marker="D", markersize=3, label="saved against the same mean G"),
    ]
    figure, grid = new_figure(WIDE, 1.35, len(caches), len(tails), handles, abreast=3)
    lowest, highest = data["saved_per_sample"].min() - 0.05, max(0.3, data["saved"].max() + 0.05)
    for row, cache in enumerate(caches):
        for column, tail in enumerate(tails):
            axes = figure.add_subplot(grid[row, column])
            there = data["kv_tokens"].isna() if pd.isna(cache) else data["kv_tokens"] == cache
            own = data[(data["tail"] == tail) & there].reset_index(drop=True)
            base = np.zeros(len(own))
            for part, (_, color) in PARTS.items():
                axes.bar(own.index, own[part], 0.6, bottom=base, color=color, linewidth=0)
                base = base + own[part].to_numpy()
            axes.plot(own.index, own["saved_per_sample"], color=PER_SAMPLE, marker="o", markersize=3)
            axes.plot(own.index, own["saved_by_changing"], color=CHANGING, marker="D", markersize=3)
            axes.axhline(0, color=FAINT, linewidth=0.6)
            axes.set_ylim(lowest, highest)
            axes.xaxis.set_major_locator(FixedLocator(own.index))
            axes.xaxis.set_minor_locator(NullLocator())
            axes.set_xticklabels([f"{prompts}" for prompts in own["prompts_per_engine"]])
            axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.0f}"))
            axes.tick_params(labelbottom=row == len(caches) - 1, labelleft=column == 0)
            name = "no KV limit" if pd.isna(cache) else f"KV {cache / 1000:.0f}k tokens"
            axes.set(
                xlabel="prompts per engine" if row == len(caches) - 1 else "",
                ylabel="" if column else f"{name}\nhours saved, %",
                title="" if row else f"{tail} tail",
            )
    figure.align_ylabels()
    return figure


def write_figures(study: StudyConfig, results: Path, out: Path) -> None:
    """Write control, sensitivity and savings as SVG, PNG and CSV, from the study's tables."""
    steps = _read(results / "workloads" / workload / "steps.csv" for workload in study.workloads)
    varied = _read(results / "sensitivity" / f"{parameter}.csv" for parameter in study.sensitivity.parameters)
    saved = _read(results / "savings" / f"{tail}.csv" for tail in study.savings.tails)
    out.mkdir(parents=True, exist_ok=True)
    control, sensitivity = control_data(steps), sensitivity_data(varied)
    with figure_style():
        save_figure(draw_control(control), control, out, "control", "Straggler rate and group size")
        save_figure(draw_sensitivity(sensitivity), sensitivity, out, "sensitivity", "Sensitivity to the parameters")
        save_figure(draw_savings(saved), saved, out, "savings", "Where a changing group size pays")


def _read(paths) -> pd.DataFrame:
    return pd.concat([pd.read_csv(path, dtype={"arm": str}) for path in paths], ignore_index=True)


@click.command(cls=Command)
@click.option("--config", type=click.Path(path_type=Path), default=Path("config/study.yaml"), show_default=True)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder for the figures.")
@click.argument("results", type=click.Path(path_type=Path, exists=True, file_okay=False))
def main(config: Path, out: Path, results: Path) -> None:
    """Draw the figures of the study in RESULTS."""
    write_figures(load_study(config), results, out)


if __name__ == "__main__":
    main()
