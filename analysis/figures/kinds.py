"""The figures of a results folder: per model, algorithm and stack one of each kind, as SVG, PNG and its data as CSV.

    python -m analysis.figures.kinds --out results/figures results

What is drawn is in the CSV, and each figure is drawn from that table alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click
import pandas as pd
from matplotlib.figure import Figure
from tqdm import tqdm

from analysis.cells import SECTION
from analysis.figures.comparison import (
    REWARD,
    accuracy_data,
    draw_accuracy,
    draw_idle,
    draw_pareto,
    draw_reward,
    idle_data,
    pareto_data,
    reward_data,
)
from analysis.figures.style import arm_label, figure_style, save_figure
from analysis.figures.training import (
    control_data,
    draw_control,
    draw_group_size,
    draw_lengths,
    draw_risk,
    group_size_data,
    lengths_data,
    risk_data,
)
from analysis.results.runs import RunResults, load_results
from sagc.errors import UserError
from sagc.system.command import Command

Section = tuple[str, str, str]


@dataclass(frozen=True)
class FigureFile:
    """A figure that was written, and what to say about it."""

    kind: str
    section: Section  # model, algorithm, stack
    title: str
    caption: str
    svg: Path
    png: Path
    csv: Path


@dataclass(frozen=True)
class Kind:
    """A kind of figure: how its data come from the runs of a cell, how they are drawn, and what they are called."""

    name: str
    title: str
    data: Callable[[list[RunResults]], pd.DataFrame]
    draw: Callable[[pd.DataFrame], Figure]
    caption: Callable[[pd.DataFrame], str]
    without: str | None  # why there is no figure where there are no data; None: it is for those who ask for its data


def write_figures(
    runs: list[RunResults], folder: Path, progress: Callable[[list], Iterable] = iter
) -> list[FigureFile]:
    """Write the figures of every cell (model, algorithm, stack) as FOLDER/{model}_{algorithm}_{stack}_{kind}.

    Parameters
    ----------
    runs : list of RunResults
        In the order that the arms shall have; finished or not.
    folder : Path
        Is made where it is missing. The same runs give the same files, byte by byte.
    progress : callable
        Takes the list of what there is to draw and hands its items on, such as tqdm.

    Returns
    -------
    list of FigureFile
        By cell and kind. A kind that a cell has no data for is not drawn; `missing_figures` says why.
    """
    folder, files = Path(folder), {}
    folder.mkdir(parents=True, exist_ok=True)
    with figure_style():
        for section, kind, own in progress(_jobs(runs)):
            data = kind.data(own)
            if len(data) == 0:
                continue
            title = f"{kind.title} ({', '.join(section)})"
            name = "_".join((*section, kind.name))
            while name in files:  # a_b, c and a, b_c are two cells
                name += "_"
            paths = save_figure(kind.draw(data), data, folder, name, title)
            files[name] = FigureFile(kind.name, section, title, kind.caption(data), *paths)
    return list(files.values())


def missing_figures(runs: list[RunResults]) -> list[str]:
    """A sentence for every figure that is not drawn for lack of data."""
    return [
        f"{'/'.join(section)}: no figure of {kind.title.lower()}, because {kind.without}"
        for section, kind, own in _jobs(runs)
        if kind.without and len(kind.data(own)) == 0
    ]


def _jobs(runs: list[RunResults]) -> list[tuple[Section, Kind, list[RunResults]]]:
    cells: dict[Section, list[RunResults]] = {}
    for run in runs:
        cells.setdefault(tuple(run.cell[name] for name in SECTION), []).append(run)
    return [(section, kind, own) for section, own in cells.items() for kind in KINDS]


# Captions ------------------------------------------------------------------------------------------------------------


def _control_caption(data: pd.DataFrame) -> str:
    return (
        "Group size G (responses per prompt), what the controller steers by (λ of sagc, the budget b of sagc-robust) "
        "and straggler rate (straggler groups over all groups; grey: per step, coloured: mean over the last 10 steps) "
        "over training steps. A controller that works keeps the mean at the target δ (dashed)."
    )


def _risk_caption(data: pd.DataFrame) -> str:
    return (
        "Straggler risk per group size, 0 to 1: what the controller believes after each step (coloured), and the exact "
        "rate that sub-groups of this size had in the same rollouts (grey, mean over the last 10 steps). A size above "
        "the one in use has no realised rate."
    )


def _lengths_caption(data: pd.DataFrame) -> str:
    seeds = data["seeds"].max()
    over = f" and up to {seeds} seeds" if seeds > 1 else ""
    return (
        f"Quantiles of the response lengths in tokens (log scale) over training steps, means over the last 10 "
        f"steps{over}. The wider the gap between median and maximum, the longer the others wait."
    )


def _reward_caption(data: pd.DataFrame) -> str:
    return (
        "Training reward (mean over the last 10 steps) against the time spent in training steps; a line per run, its "
        "end marked. Higher and further left is better."
    )


def _over_seeds(data: pd.DataFrame) -> str:
    seeds = data["seeds"].max()
    return f"mean over up to {seeds} seeds, bars are standard errors" if seeds > 1 else "one seed"


def _accuracy_caption(data: pd.DataFrame) -> str:
    return (
        f"Accuracy on {data['benchmark'].iloc[0]} of the models kept on the way and of the last one, against the time "
        f"spent in training steps ({_over_seeds(data)}). Higher and further left is better."
    )


def _pareto_caption(data: pd.DataFrame) -> str:
    measure = data["measure"].iloc[0]
    what = "Training reward (mean of the last 10 steps)" if measure == REWARD else f"Final accuracy on {measure}"
    noise = data["problems_se"].mean()
    limits = "" if pd.isna(noise) else f" Over its problems, each accuracy has a standard error of {noise:.3f}."
    front = _names(data.loc[data["on_front"], "group"])
    absent = data.loc[data["hours"].isna() | data["accuracy"].isna(), "group"]
    lacking = f" Not shown, for lack of a finished run with this measure: {_names(absent)}." if len(absent) else ""
    return (
        f"{what} against training time ({_over_seeds(data)}). On the Pareto front (grey line), where no "
        f"other arm is both as fast and as good: {front}.{limits}{lacking}"
    )


def _idle_caption(data: pd.DataFrame) -> str:
    return (
        "Share of the steps whose idle fraction (decode slots that waited for the longest response of their round, 0 "
        "to 1) was at most so large, over all seeds of an arm; the markers are at the median. Further left is better."
    )


def _group_size_caption(data: pd.DataFrame) -> str:
    return "How often the controllers used each group size: share of the training steps in percent, over all seeds."


def _names(groups: Iterable[str]) -> str:
    return ", ".join(arm_label(group) for group in groups)


NO_CONTROLLER = "no run with a controller has a step"
NO_STEP = "no run has a step"
KINDS = (
    Kind("reward", "Reward over time", reward_data, draw_reward, _reward_caption, "no step has a reward"),
    Kind("accuracy", "Accuracy over time", accuracy_data, draw_accuracy, _accuracy_caption, None),
    Kind("pareto", "Accuracy against time", pareto_data, draw_pareto, _pareto_caption, "no run is finished"),
    Kind("control", "Control", control_data, draw_control, _control_caption, NO_CONTROLLER),
    Kind("group_size", "Group sizes", group_size_data, draw_group_size, _group_size_caption, NO_CONTROLLER),
    Kind("risk", "Straggler risk", risk_data, draw_risk, _risk_caption, NO_CONTROLLER),
    Kind("lengths", "Response lengths", lengths_data, draw_lengths, _lengths_caption, NO_STEP),
    Kind("idle", "Idle fraction", idle_data, draw_idle, _idle_caption, NO_STEP),
)


@click.command(cls=Command)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder of the figures.")
@click.argument("results", type=click.Path(path_type=Path, file_okay=False))
def main(out: Path, results: Path) -> None:
    """Draw the figures of all runs below RESULTS, finished or not."""
    found = load_results(results)
    for problem in found.problems:
        click.echo(problem, err=True)
    if not found.runs:
        raise UserError(f"{results} holds no run")
    bar = partial(tqdm, desc="drawing", unit="figure", disable=not sys.stderr.isatty())
    files = write_figures(found.runs, out, progress=bar)
    for sentence in missing_figures(found.runs):
        click.echo(sentence, err=True)
    click.echo(f"{len(files)} figure{'' if len(files) == 1 else 's'}: {out}")


if __name__ == "__main__":
    main()
