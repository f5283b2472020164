"""What one parameter of the controllers changes: `python -m sagc.simulation.study.sensitivity PARAMETER --out FILE`."""

from __future__ import annotations

from pathlib import Path

import click
import pandas as pd

from sagc.controllers.protocol import without_warnings
from sagc.controllers.registry import CONTROLLED, known_to
from sagc.errors import UserError
from sagc.simulation.steps import simulate
from sagc.simulation.study.config import StudyConfig, build_arm, load_study
from sagc.simulation.study.measures import attainable, played_risk, track, true_risks
from sagc.simulation.study.play import sizes_of, time_to_recover
from sagc.simulation.totals import moves_per_100
from sagc.system.command import Command
from sagc.system.files import write_atomically


def vary(study: StudyConfig, parameter: str) -> pd.DataFrame:
    """A row per arm, value, workload and seed: distance, risk_distance, bias, moves and recovery (see `play`)."""
    rows = []
    for workload in study.sensitivity.workloads:
        case = study.workloads[workload]
        lengths, (cluster, _) = case.lengths.build(study.steps), study.cluster.build()
        for value in study.sensitivity.parameters[parameter]:
            changed = {"delta": case.delta, "tau": study.tau, parameter: value}
            delta, tau = changed["delta"], changed["tau"]
            risks = true_risks(lengths, study.steps, sizes_of(list(CONTROLLED), delta, tau), tau)
            for arm in (kind for kind in CONTROLLED if known_to(kind, **{parameter: value})):
                for seed in range(study.sensitivity.seeds):
                    controller = build_arm(arm, seed, **changed)
                    steps = simulate(controller, lengths, cluster, steps=study.steps, prompts=study.prompts, seed=seed)
                    row = {"parameter": parameter, "value": value, "workload": workload, "arm": arm, "seed": seed}
                    rows.append(row | control_of(steps, risks, delta, case.change))
    return pd.DataFrame(rows)


def control_of(steps: pd.DataFrame, risks: pd.DataFrame, delta: float, change: int | None) -> dict[str, float]:
    """`track`, moves per 100 steps and the time to recover of one run."""
    recovered = time_to_recover(change, played_risk(steps, risks), attainable(risks, delta))
    return track(steps, risks, delta) | {
        "moves": moves_per_100(steps["group_size"].to_numpy()),
        "recovery": recovered,
    }


@click.command(cls=Command)
@click.argument("parameter")
@click.option("--config", type=click.Path(path_type=Path), default=Path("config/study.yaml"), show_default=True)
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), required=True, help="The table, as CSV.")
@without_warnings()
def main(parameter: str, config: Path, out: Path) -> None:
    """Let the controllers play with other values of PARAMETER."""
    study = load_study(config)
    if parameter not in study.sensitivity.parameters:
        raise UserError(f"unknown parameter {parameter!r}; there are {', '.join(study.sensitivity.parameters)}")
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, vary(study, parameter).to_csv(index=False))


if __name__ == "__main__":
    main()
