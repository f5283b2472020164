"""One row per run for the tables, from its config.json, steps and eval/evaluation.json alone."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from analysis.cells import CELL
from sagc.errors import UserError
from sagc.lengths import idle_fraction
from sagc.run.folder import RunFolder

LAST_STEPS = 10  # `reward` is a mean over these last steps of training
TIMES = {"wall_s": "step_s", "rollout_s": "rollout_s", "train_s": "train_s", "sync_s": "sync_s"}
BENCHMARK_METRICS = {  # prefix of the column, before the benchmark's name -> metric
    "majority": "majority",
    "output_tokens": "output_tokens",
    "median_tokens": "output_tokens_median",
    "cut_off_rate": "cut_off_rate",
    "no_answer_rate": "no_answer_rate",
    "unchecked": "unchecked",
    "left_out": "left_out",
}


def summary_row(config: dict[str, Any], table: pd.DataFrame, evaluation: dict[str, Any]) -> dict[str, Any]:
    """The row of a run from its config.json, its steps (see `analysis.results.steps.Steps`) and its evaluation.

    Returns
    -------
    dict
        model, algorithm, stack, group, seed : the cell; `group` is text.
        steps : rollouts.
        straggler_rate : straggler events over groups generated, for the whole run. With dynamic sampling the number of
        groups varies between steps, so this is not the mean of the steps' rates.
        idle_fraction : share of decode slots that waited for the longest response of their round, for the whole run
        (see `sagc.lengths.idle_fraction`).
        mean_group_size : mean over steps.
        moves_per_step : changes of the group size per step.
        infeasible_steps : steps in which no ladder size fit the controller's delta and budget.
        filtered_share : share of the generated groups that dynamic sampling dropped.
        tokens : tokens generated.
        wall_s, rollout_s, train_s, sync_s : seconds; wall_s covers the whole steps, the others parts of them.
        processor_s : processor seconds of the steps, over all processes; None if a step has none.
        reward : mean outcome reward of the last ten steps; None if they have none.
        cut_off_rate : share of the training responses cut off by the length limit.
        accuracy_B, accuracy_B_se, pass_B, majority_B, output_tokens_B, median_tokens_B, cut_off_rate_B,
        no_answer_rate_B, unchecked_B, left_out_B : per benchmark B, see `sagc.evaluation.metrics.benchmark_metrics`;
        pass_B is pass@k and majority_B maj@k with all k responses.
    """
    run = config["run"]
    row = {name: run["cell"][name] for name in CELL} | {"group": str(run["cell"]["group"])}
    row |= training_columns(table, event=run["straggler"]["event"])
    for name, metrics in evaluation["benchmarks"].items():
        row |= _benchmark_columns(name, metrics)
    return row


def read_evaluation(place: RunFolder, run_hash: str) -> dict[str, Any]:
    """Contents of a run's eval/evaluation.json.

    Raises
    ------
    UserError
        If it is missing, not JSON, or from a run with another config hash.
    """
    path = place.evaluation / "evaluation.json"
    try:
        evaluation = json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise UserError(f"{place.path} is not evaluated yet: it has no eval/evaluation.json") from None
    except ValueError:
        raise UserError(f"{path} is not valid JSON; evaluate the run again") from None
    if evaluation["run_hash"] != run_hash:
        raise UserError(
            f"{path} is from another run (hash {evaluation['run_hash']}, this one is {run_hash}); evaluate it again"
        )
    return evaluation


def _benchmark_columns(name: str, metrics: dict[str, Any]) -> dict[str, Any]:
    columns = {f"accuracy_{name}": metrics["accuracy"], f"accuracy_{name}_se": metrics["accuracy_se"]}
    columns[f"pass_{name}"] = metrics["pass_at"][max(metrics["pass_at"], key=int)]
    return columns | {f"{column}_{name}": metrics[metric] for column, metric in BENCHMARK_METRICS.items()}


def training_columns(table: pd.DataFrame, event: str) -> dict[str, Any]:
    """The training columns for these steps; `event` is what the straggler rate counts, "group" or "step"."""
    groups, sizes = table["groups"].sum(), table["group_size"]
    rewards = table["reward"].tail(LAST_STEPS).dropna()
    return {
        "steps": len(table),
        "straggler_rate": float(table["straggler_events"].sum() / (groups if event == "group" else len(table))),
        "idle_fraction": float(idle_fraction(table["tokens"].sum(), table["slots"].sum())),
        "mean_group_size": float(sizes.mean()),
        "moves_per_step": float((sizes.diff().iloc[1:] != 0).sum() / len(sizes)),
        "infeasible_steps": int(table["infeasible"].sum()),
        "filtered_share": float(table["filtered_groups"].sum() / groups),
        "tokens": int(table["tokens"].sum()),
        **{name: float(table[of].sum()) for name, of in TIMES.items()},
        "processor_s": None if table["processor_s"].isna().any() else float(table["processor_s"].sum()),
        "reward": float(rewards.mean()) if len(rewards) else None,
        "cut_off_rate": float(table["truncated"].sum() / table["responses"].sum()),
    }
