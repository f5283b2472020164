"""Other parameters of sagc-robust on all workloads: `python -m sagc.simulation.study.variants --out FOLDER`.

variants.csv has a row per variant, number of prompts and workload, variants.md one per variant and number of prompts.
"""

from __future__ import annotations

from pathlib import Path

import click
import pandas as pd

from analysis.tables.table import Column, decimals, legend, markdown_table
from sagc.controllers.protocol import without_warnings
from sagc.simulation.steps import simulate
from sagc.simulation.study.config import StudyConfig, build_arm, load_study
from sagc.simulation.study.measures import true_risks
from sagc.simulation.study.play import sizes_of
from sagc.simulation.study.sensitivity import control_of
from sagc.system.command import Command
from sagc.system.files import write_atomically

ARM = "sagc-robust"
KEYS = ["variant", "prompts"]


def variants(study: StudyConfig) -> pd.DataFrame:
    """Means over the seeds of distance, risk_distance, bias, moves and recovery; stationary: whether lengths are."""
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
    keys = [*KEYS, "workload", "stationary"]
    return pd.DataFrame(rows).drop(columns="seed").groupby(keys, sort=False).mean().reset_index()


def summarize(found: pd.DataFrame) -> pd.DataFrame:
    """A row per variant and number of prompts: mean distance, and the worst workload's bias, moves and recovery."""
    groups = found.groupby(KEYS, sort=False)
    still = found[found["stationary"]].groupby(KEYS, sort=False)
    columns = {"distance": groups["distance"].mean(), "bias": groups["bias"].max()}
    columns |= {"moves": still["moves"].max(), "recovery": groups["recovery"].max()}
    return pd.DataFrame(columns).reset_index().sort_values(["prompts"], kind="stable")


READ = [
    Column("prompts", "per step", lambda row: str(row["prompts"])),
    Column("sagc-robust", "its parameters", lambda row: row["variant"]),
    Column(
        "distance",
        "of the rolling rate from its aim, mean over the workloads",
        decimals("distance", 3),
    ),
    Column("bias", "of the mean rate where delta is feasible; the worst workload", decimals("bias", 3)),
    Column("moves", "changes of G per 100 steps; the worst of the stationary workloads", decimals("moves", 1)),
    Column("recovery", "steps after a change; the worst workload", decimals("recovery", 1)),
]


@click.command(cls=Command)
@click.option("--config", type=click.Path(path_type=Path), default=Path("config/study.yaml"), show_default=True)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder of the tables.")
@without_warnings()
def main(config: Path, out: Path) -> None:
    """Let variants of sagc-robust play all workloads."""
    study = load_study(config)
    found = variants(study)
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(out / "variants.csv", found.to_csv(index=False))
    head = f"Means over {study.variants.seeds} seeds of {study.steps} steps.\n"
    write_atomically(out / "variants.md", "\n".join([head, markdown_table(summarize(found), READ), legend(READ)]))


if __name__ == "__main__":
    main()
