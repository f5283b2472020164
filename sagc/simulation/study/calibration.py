"""How far simulated seconds are from real ones: `python -m sagc.simulation.study.calibration --out FILE RESULTS`.

FILE, a CSV, has a row per run of RESULTS; `analysis.study.calibration` makes it readable. Costs are fitted to steps
that are not compared: to the odd ones of the same run, and to the other runs of the cell named in FITTED. A run without
dynamic sampling is also simulated as a whole, with lengths of the cell's largest static run and a controller of its
own.
"""

from __future__ import annotations

import math
from collections import defaultdict
from pathlib import Path

import click
import pandas as pd
from pydantic import ValidationError

from sagc.config.reading import describe
from sagc.config.run import RunConfig
from sagc.errors import UserError
from sagc.run.folder import RunFolder
from sagc.run.folders import find_runs
from sagc.simulation.calibration import held_out_misfit, misfit, read_runs
from sagc.simulation.lengths import TraceLengths
from sagc.simulation.step_time import StepTime, fit_step_time
from sagc.simulation.steps import Cluster, simulate
from sagc.system.command import Command
from sagc.system.files import write_atomically

FITTED = ("4", "16")  # static sizes of a cell that the others' costs are fitted to, where they are there


def calibration(results: Path) -> pd.DataFrame:
    """One row per run.

    Returns
    -------
    DataFrame
        model, algorithm, stack, group, seed : the run.
        steps, seconds : of its trace, whole steps.
        own_median, own_total : misfit for its even steps, of costs fitted to its odd ones
        (`sagc.simulation.calibration`).
        other_median, other_total : misfit for all its steps, of costs fitted to the runs of FITTED; NaN for these.
        simulated : (simulated - real) / real of the seconds of a whole simulated run with the costs of FITTED.
        rate, simulated_rate, size, simulated_size : mean straggler rate and group size of both.
    """
    cells = defaultdict(dict)
    for folder in find_runs(results)[0]:
        try:
            run = RunConfig.model_validate(RunFolder(folder).read_config().get("run"))
        except ValidationError as error:
            raise UserError(f"{folder}/config.json: {describe(error, RunConfig)}") from None
        cell = run.cell
        cells[cell.model, cell.algorithm, cell.stack, cell.seed][str(cell.group)] = folder, run
    if not cells:
        raise UserError(f"{results} holds no run")
    rows = []
    for arms in cells.values():
        traces = {group: read_runs([folder]) for group, (folder, _) in arms.items()}
        fitted = [group for group in FITTED if group in arms]
        records = [record for group in fitted for record in traces[group][0][0]]
        costs = fit_step_time(records, traces[fitted[0]][1]) if fitted else None
        for group, (_, run) in arms.items():
            row = {**run.cell.model_dump(), "group": group}
            longest = traces[fitted[-1]][0] if fitted else None
            rows.append(row | _compare(run, *traces[group], None if group in fitted else costs, costs, longest))
    return pd.DataFrame(rows)


def _compare(run: RunConfig, traces, batching: str, others: StepTime | None, costs: StepTime | None, longest) -> dict:
    (trace,) = traces
    seconds = sum(record.rollout_s + record.train_s + record.sync_s for record in trace)
    own, other = held_out_misfit(traces, batching), misfit(others, trace) if others else None
    row = {
        "steps": len(trace),
        "seconds": seconds,
        "own_median": own.median,
        "own_total": own.total,
        "other_median": other.median if other else math.nan,
        "other_total": other.total if other else math.nan,
        "rate": sum(record.straggler_rate for record in trace) / len(trace),
        "size": sum(record.group_size for record in trace) / len(trace),
    }
    if costs is None or run.algorithm.dynamic_sampling is not None:
        return row
    lengths, prompts = TraceLengths(longest, len(trace)), run.training.prompts_per_step
    steps = simulate(run.build_controller(), lengths, Cluster(costs), steps=len(trace), prompts=prompts)
    return row | {
        "simulated": steps["step_s"].sum() / seconds - 1,
        "simulated_rate": steps["straggler_rate"].mean(),
        "simulated_size": steps["group_size"].mean(),
    }


@click.command(cls=Command)
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), required=True, help="The table, as CSV.")
@click.argument("results", type=click.Path(path_type=Path, exists=True, file_okay=False))
def main(out: Path, results: Path) -> None:
    """Compare simulated seconds with those of the runs in RESULTS."""
    found = calibration(results)
    write_atomically(out, found.to_csv(index=False))
    click.echo(f"{len(found)} runs: {out}")


if __name__ == "__main__":
    main()
