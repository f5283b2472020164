"""The arms on one workload, all seeds: `python -m sagc.simulation.study.play WORKLOAD --out FOLDER`.

FOLDER/runs.csv has a row per arm and seed, FOLDER/steps.csv one per arm and step, with means over the seeds.
"""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np
import pandas as pd

from sagc.controllers.protocol import without_warnings
from sagc.errors import UserError
from sagc.simulation.steps import simulate
from sagc.simulation.study.config import StudyConfig, build_arm, load_study
from sagc.simulation.study.measures import attainable, played_risk, recovery, track, true_risks
from sagc.simulation.totals import summarize_steps
from sagc.system.command import Command
from sagc.system.files import write_atomically


def play(study: StudyConfig, workload: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """(runs, steps) of a workload.

    Returns
    -------
    runs : DataFrame
        A row per arm and seed: workload, arm, seed, delta, and what `sagc.simulation.totals.summarize_steps` and
        `sagc.simulation.study.measures.track` give; recovery in steps, NaN where the workload has no change.
    steps : DataFrame
        A row per arm and step: means over the seeds of straggler_rate, risk (of the size played) and log2_size; and
        the rate that is attainable.
    """
    case = study.workloads[workload]
    lengths, (cluster, _) = case.lengths.build(study.steps), study.cluster.build()
    risks = true_risks(lengths, study.steps, sizes_of(study.arms, case.delta, study.tau), study.tau)
    aim = attainable(risks, case.delta)
    runs, series = [], []
    for arm in study.arms:
        for seed in range(study.seeds):
            controller = build_arm(arm, seed, delta=case.delta, tau=study.tau)
            steps = simulate(controller, lengths, cluster, steps=study.steps, prompts=study.prompts, seed=seed)
            risk = played_risk(steps, risks)
            runs.append(
                {"workload": workload, "arm": str(arm), "seed": seed, "delta": case.delta}
                | summarize_steps(steps)
                | track(steps, risks, case.delta)
                | {"recovery": time_to_recover(case.change, risk, aim)}
            )
            own = steps[["step", "straggler_rate"]].assign(arm=str(arm), log2_size=np.log2(steps["group_size"]))
            series.append(own.assign(risk=risk.to_numpy(), attainable=aim.to_numpy()))
    means = pd.concat(series).groupby(["arm", "step"], sort=False).mean().reset_index()
    return pd.DataFrame(runs), means.assign(workload=workload, delta=case.delta)


def sizes_of(arms: list[int | str], delta: float, tau: float, **parameters) -> list[int]:
    """Every size that the arms may play, in increasing order."""
    return sorted({size for arm in arms for size in build_arm(arm, 0, delta=delta, tau=tau, **parameters).ladder})


def time_to_recover(change: int | None, risk: pd.Series, aim: pd.Series) -> float:
    """`sagc.simulation.study.measures.recovery` towards what is attainable at the end; NaN where there is no change."""
    return np.nan if change is None else recovery(risk, change + 1, aim.iloc[-1])


@click.command(cls=Command)
@click.argument("workload")
@click.option("--config", type=click.Path(path_type=Path), default=Path("config/study.yaml"), show_default=True)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder of the tables.")
@without_warnings()
def main(workload: str, config: Path, out: Path) -> None:
    """Let every arm play WORKLOAD."""
    study = load_study(config)
    if workload not in study.workloads:
        raise UserError(f"unknown workload {workload!r}; workloads are {', '.join(study.workloads)}")
    runs, steps = play(study, workload)
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(out / "runs.csv", runs.to_csv(index=False))
    write_atomically(out / "steps.csv", steps.to_csv(index=False))


if __name__ == "__main__":
    main()
