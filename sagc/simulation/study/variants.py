"""Other parameters of sagc-robust on all workloads: `python -m sagc.simulation.study.variants --out FILE`."""

from __future__ import annotations

from pathlib import Path

import click
import pandas as pd

from sagc.controllers.protocol import without_warnings
from sagc.simulation.steps import simulate
from sagc.simulation.study.config import StudyConfig, build_arm, load_study
from sagc.simulation.study.measures import true_risks
from sagc.simulation.study.play import sizes_of
from sagc.simulation.study.sensitivity import control_of
from sagc.system.command import Command
from sagc.system.files import write_atomically

ARM = "sagc-robust"


def variants(study: StudyConfig) -> pd.DataFrame:
    """A row per variant, number of prompts and workload: means over the seeds of what `control_of` measures.

    The column stationary says whether the lengths are.
    """
    rows = []
    for workload, case in study.workloads.items():
        lengths, (cluster, _) = case.lengths.build(study.steps), study.cluster.build()
        for variant, parameters in study.variants.parameters.items():
            sizes = sizes_of([ARM], case.delta, study.tau, **parameters)
            risks = true_risks(lengths, study.steps, sizes, study.tau)
            for prompts in study.variants.prompts:
                for seed in range(study.variants.seeds):
                    controller = build_arm(ARM, seed, delta=case.delta, tau=study.tau, **parameters)
                    steps = simulate(controller, lengths, cluster, steps=study.steps, prompts=prompts, seed=seed)
                    row = {"variant": variant, "prompts": prompts, "workload": workload, "seed": seed}
                    row["stationary"] = len(case.lengths.points) == 1
                    rows.append(row | control_of(steps, risks, case.delta, case.change))
    keys = ["variant", "prompts", "workload", "stationary"]
    return pd.DataFrame(rows).drop(columns="seed").groupby(keys, sort=False).mean().reset_index()


@click.command(cls=Command)
@click.option("--config", type=click.Path(path_type=Path), default=Path("config/study.yaml"), show_default=True)
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), required=True, help="The table, as CSV.")
@without_warnings()
def main(config: Path, out: Path) -> None:
    """Let variants of sagc-robust play all workloads."""
    write_atomically(out, variants(load_study(config)).to_csv(index=False))


if __name__ == "__main__":
    main()
