"""Where a changing group size pays, and by what: `python -m sagc.simulation.study.savings TAIL --out FILE`."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np
import pandas as pd

from sagc.errors import UserError
from sagc.simulation.steps import simulate
from sagc.simulation.study.config import StudyConfig, build_arm, load_study
from sagc.system.command import Command
from sagc.system.files import write_atomically

CHANGING = "sagc-robust"


def savings(study: StudyConfig, tail: str) -> pd.DataFrame:
    """Hours of `sagc-robust` against static sizes, on lengths of this tail, by prompts per engine and KV cache.

    Returns
    -------
    DataFrame
        A row per cell.
        tail, prompts_per_engine, kv_tokens : the cell; kv_tokens is NaN for no limit.
        static, mean_group_size : the size compared with, and the mean of the changing one.
        saved : share of the static arm's hours that the changing one saves at equal steps.
        barrier, rows, train : what of that are fewer iterations, fewer rows (and less prefill) in them, and shorter
            updates; they add up to it.
        saved_per_sample : share of the static arm's hours per sample that the changing one saves.
        saved_by_changing : share of the hours that it saves against a static size of the same mean, between whose
            neighbours among the static arms hours are linear.
        barrier_share : of the static arm's hours.
        preempted : sequences thrown out of the KV cache per sample of the static arm.
    """
    rows = []
    for kv_tokens in study.savings.kv_tokens:
        for prompts in study.savings.prompts_per_engine:
            arms = _play(study, tail, prompts, kv_tokens)
            rows.append({"tail": tail, "prompts_per_engine": prompts, "kv_tokens": kv_tokens} | compare(arms))
    return pd.DataFrame(rows)


def compare(arms: dict[int | str, pd.DataFrame]) -> dict[str, float]:
    """The columns of `savings` beside the cell, from the steps of the arms; the last static arm is compared with."""
    sizes = [arm for arm in arms if arm != CHANGING]
    own, static = arms[CHANGING], arms[sizes[-1]]
    total = static["step_s"].sum()
    spent = {"barrier": ["barrier_s"], "rows": ["rows_s", "prefill_s"], "train": ["train_s"]}
    parts = {name: float((static[of].sum() - own[of].sum()).sum()) / total for name, of in spent.items()}
    per_sample = [steps["step_s"].sum() / steps["samples"].sum() for steps in (own, static)]
    alike = np.interp(own["group_size"].mean(), sizes, [arms[size]["step_s"].sum() for size in sizes])
    return {
        "static": sizes[-1],
        "mean_group_size": own["group_size"].mean(),
        "saved": 1 - own["step_s"].sum() / total,
        **parts,
        "saved_per_sample": 1 - per_sample[0] / per_sample[1],
        "saved_by_changing": 1 - own["step_s"].sum() / alike,
        "barrier_share": static["barrier_s"].sum() / total,
        "preempted": static["preemptions"].sum() / static["samples"].sum(),
    }


def _play(study: StudyConfig, tail: str, prompts: int, kv_tokens: int | None) -> dict[int | str, pd.DataFrame]:
    case = study.savings
    lengths = case.tails[tail].build(case.steps)
    machines = study.cluster.model_copy(update={"engines": case.engines, "kv_tokens": kv_tokens})
    cluster, _ = machines.build()
    count = {"steps": case.steps, "prompts": prompts * case.engines}
    arms = [*case.static, CHANGING]
    controllers = {arm: build_arm(arm, 0, delta=case.delta, tau=study.tau) for arm in arms}
    return {arm: simulate(controller, lengths, cluster, **count) for arm, controller in controllers.items()}


@click.command(cls=Command)
@click.argument("tail")
@click.option("--config", type=click.Path(path_type=Path), default=Path("config/study.yaml"), show_default=True)
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), required=True, help="The table, as CSV.")
def main(tail: str, config: Path, out: Path) -> None:
    """Compare a changing size with static ones on lengths of this TAIL."""
    study = load_study(config)
    if tail not in study.savings.tails:
        raise UserError(f"unknown tail {tail!r}; there are {', '.join(study.savings.tails)}")
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, savings(study, tail).to_csv(index=False))


if __name__ == "__main__":
    main()
