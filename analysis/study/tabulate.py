"""The study's table and verdict: `python -m analysis.study.tabulate --out FOLDER RUNS...`, RUNS written by `play`.

table.csv and table.md have a row per workload and arm, verdict.csv and verdict.md one per criterion and workload, and
variants.md one per variant of sagc-robust and number of prompts.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import click
import pandas as pd

from analysis.study.variants import variants_table
from analysis.tables.table import Column, Table, decimals, group_column, with_error
from sagc.simulation.study.config import load_study
from sagc.simulation.study.measures import AHEAD, BURN_IN, CLOSE, WINDOW, noise_floor
from sagc.system.command import Command

OURS, THEIRS = "sagc-robust", "sagc"
MEASURES = ("straggler_rate", "distance", "risk_distance", "bias", "recovery")
MEANS = ("moves", "mean_log2", "mean_inverse", "hours", "hours_per_sample")
BOUND_SE = 2.0  # number of standard errors over the seeds, added to a mean before it is compared with a limit


@dataclass(frozen=True)
class Margin:
    """By how much `sagc-robust` may be worse than `sagc` and still count as no worse, and why."""

    what: str
    amount: float
    reason: str
    relative: bool = False  # amount is a share of the mean of `sagc`

    @property
    def text(self) -> str:
        return f"{100 * self.amount:g} % of sagc's" if self.relative else f"{self.amount:g}"


LIMITS = {  # measure -> (what is required of sagc-robust, limit)
    "bias": ("mean rate within 0.03 of delta where delta is feasible", 0.03),
    "recovery": ("recovers within 15 steps", 15.0),
    "moves": ("moves at most 10 times per 100 steps when stationary", 10.0),
}
MARGINS = {  # measure in which sagc-robust must be no worse than sagc
    "distance": Margin("in the distance from delta", 0.005, "about a quarter of what noise alone causes"),
    "recovery": Margin("in steps to recover", 3.0, "a fifth of the steps that a recovery may take"),
    "hours": Margin(
        "in hours of all steps", 0.01, "a tenth of how much repetitions of a run on one machine differ", True
    ),
    "hours_per_sample": Margin("in hours per 100 000 samples", 0.01, "as for the hours of all steps", True),
}


def table(runs: pd.DataFrame) -> pd.DataFrame:
    """One row per workload and arm: means over the seeds, and standard errors X_se for each X in MEASURES."""
    groups = runs.groupby(["workload", "arm"], sort=False)
    means = groups[[*MEASURES, *MEANS, "delta"]].mean()
    errors = groups[list(MEASURES)].sem().add_suffix("_se")
    return means.join(errors).join(groups["seed"].count().rename("seeds")).reset_index()


def verdict(runs: pd.DataFrame, stationary: Collection[str]) -> pd.DataFrame:
    """The criteria per workload; the one on moves only for stationary workloads.

    Returns
    -------
    DataFrame
        criterion, workload; value : mean over the seeds of the criterion's measure, or of the difference sagc-robust -
        sagc, paired by seed; worst : largest value of a seed; bound : value plus BOUND_SE standard errors, NaN for
        a single seed; limit : the criterion's limit, or the margin of the difference; met : whether bound is below
        limit, so that no criterion is met by noise.
    """
    rows = []
    for workload, own in runs.groupby("workload", sort=False):
        ours, theirs = (own[own["arm"] == arm].set_index("seed") for arm in (OURS, THEIRS))
        for measure, (sentence, limit) in LIMITS.items():
            values = ours[measure].dropna()
            if len(values) and (measure != "moves" or workload in stationary):
                rows.append(_row(sentence, workload, values, limit))
        for measure, margin in MARGINS.items():
            difference = (ours[measure] - theirs[measure]).dropna()
            if len(difference):
                limit = margin.amount * (theirs.loc[difference.index, measure].mean() if margin.relative else 1.0)
                rows.append(_row(f"no worse than sagc {margin.what}", workload, difference, limit))
    return pd.DataFrame(rows).sort_values("criterion", kind="stable", ignore_index=True)


def _row(criterion: str, workload: str, values: pd.Series, limit: float) -> dict:
    value, bound = values.mean(), values.mean() + BOUND_SE * values.sem()
    row = {"criterion": criterion, "workload": workload, "value": value, "worst": values.max(), "bound": bound}
    return row | {"limit": limit, "met": bool(bound < limit)}


ARM_COLUMNS = [
    Column("workload", "what the lengths do", lambda row: row["workload"]),
    group_column("arm"),
    Column("rate", "straggler rate, mean over all steps", decimals("straggler_rate", 3)),
    Column(
        "distance",
        f"of the rate over {WINDOW} steps from the attainable rate nearest delta, mean of windows after step {BURN_IN}",
        with_error("distance", 3),
    ),
    Column(
        "of risk",
        "the same for the true risk of the sizes played, which has no noise",
        decimals("risk_distance", 3),
    ),
    Column(
        "bias",
        f"|mean rate - delta| of a seed over the steps after {BURN_IN} at which delta is feasible",
        with_error("bias", 3),
    ),
    Column(
        "recovery",
        f"steps from the change until the mean risk of the next {AHEAD} is within {CLOSE} of the aim, or all steps",
        with_error("recovery", 1),
    ),
    Column("moves", "changes of G per 100 steps", decimals("moves", 1)),
    Column("log2 G", "mean", decimals("mean_log2", 2)),
    Column("1/G", "mean", decimals("mean_inverse", 3)),
    Column("hours", "of all steps", decimals("hours", 2)),
    Column("per 100k", "hours per 100 000 samples", decimals("hours_per_sample", 2)),
]
VERDICT_COLUMNS = [
    Column("criterion", "what is required of sagc-robust", lambda row: row["criterion"]),
    Column("workload", "on which", lambda row: row["workload"]),
    Column("mean", "over the seeds; in a comparison, of sagc-robust minus sagc, paired by seed", decimals("value", 3)),
    Column("worst seed", "the largest", decimals("worst", 3)),
    Column(f"mean + {BOUND_SE:g} se", f"the mean plus {BOUND_SE:g} standard errors", decimals("bound", 3)),
    Column("limit", "of the criterion; in a comparison, the margin", decimals("limit", 3)),
    Column("met", f"whether mean + {BOUND_SE:g} se is below the limit", lambda row: "yes" if row["met"] else "NO"),
]


@click.command(cls=Command)
@click.option("--config", type=click.Path(path_type=Path), default=Path("config/study.yaml"), show_default=True)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder for the tables.")
@click.option("--variants", "varied", type=click.Path(path_type=Path, exists=True), required=True, help="variants.csv.")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, dir_okay=False))
def main(config: Path, out: Path, varied: Path, runs: tuple[Path, ...]) -> None:
    """Write the table over all RUNS and the verdict."""
    study = load_study(config)
    played = pd.concat([pd.read_csv(path, dtype={"arm": str}) for path in runs], ignore_index=True)
    floor = ", ".join(
        f"{noise_floor(delta, study.prompts):.3f} at delta {delta:g}" for delta in sorted(played["delta"].unique())
    )
    head = (
        f"{study.seeds} seeds of {study.steps} steps with {study.prompts} prompts. At a size whose risk is delta, "
        f"noise in the rates alone causes a distance of {floor}."
    )
    stationary = [name for name, workload in study.workloads.items() if len(workload.lengths.points) == 1]
    found, judged = table(played), verdict(played, stationary)
    margins = "".join(f"- {margin.what}: {margin.text}, {margin.reason}.\n" for margin in MARGINS.values())
    margins = (
        f'## Margins\n\n"No worse than sagc" means worse by less than this, {BOUND_SE:g} standard errors included:\n\n'
        f"{margins}"
    )
    for name, frame, columns, more in (
        ("table", found, ARM_COLUMNS, []),
        ("verdict", judged, VERDICT_COLUMNS, [margins]),
    ):
        Table(columns, frame, notes=[head], closing=more).write(out / name, csv=frame, latex=False)
    variants_table(pd.read_csv(varied), study).write(out / "variants", latex=False)
    click.echo(f"{judged['met'].sum()} of {len(judged)} criteria met, see {out / 'verdict.md'}")


if __name__ == "__main__":
    main()
