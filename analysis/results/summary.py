"""One row per run: what the tables need, from the run's config.json, trace.jsonl and eval/evaluation.json alone.

    python -m analysis.results.summary results/tiny-qwen2/grpo/vanilla/16/seed0

writes summary.json into the run's folder.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import click
import pandas as pd

from analysis.cells import CELL
from analysis.results.folders import find_runs
from analysis.results.steps import step_row, steps_table
from sagc.errors import UserError
from sagc.lengths import idle_fraction
from sagc.run.folder import OLDER, RunFolder, is_older
from sagc.system.command import Command
from sagc.system.files import write_atomically
from sagc.trace import read_trace

LAST_STEPS = 10  # steps at the end of training over which `reward` is a mean
TIMES = {"wall_s": "step_s", "rollout_s": "rollout_s", "train_s": "train_s", "sync_s": "sync_s"}
BENCHMARK_METRICS = {  # column, before the name of the benchmark -> metric
    "majority": "majority",
    "output_tokens": "output_tokens",
    "median_tokens": "output_tokens_median",
    "cut_off_rate": "cut_off_rate",
    "no_answer_rate": "no_answer_rate",
    "unchecked": "unchecked",
    "left_out": "left_out",
}

log = logging.getLogger("sagc")


def summarize_run(folder: str | Path) -> dict[str, Any]:
    """The row of one run.

    Returns
    -------
    dict
        model, algorithm, stack, group, seed : the cell; `group` is text.
        steps : rollouts.
        straggler_rate : straggler events over the groups that were generated, of the whole run. Dynamic sampling makes
        steps of different numbers of groups, so it is not the mean of the steps' rates.
        idle_fraction : share of decode slots that waited for the longest response of their round, of the whole run
        (see `sagc.lengths.idle_fraction`).
        mean_group_size : mean over steps.
        moves_per_step : changes of the group size, over steps.
        infeasible_steps : steps in which no ladder size fitted the controller's delta and budget.
        filtered_share : share of the groups generated that dynamic sampling dropped.
        tokens : tokens generated.
        wall_s, rollout_s, train_s, sync_s : seconds; wall_s is the whole steps, of which the others are parts.
        processor_s : processor seconds of the steps, of all processes; None where a step has none.
        reward : mean over the last ten steps, of the outcome reward; None where no reward could be given.
        cut_off_rate : share of the training responses that the limit ended.
        accuracy_B, accuracy_B_se, pass_B, majority_B, output_tokens_B, median_tokens_B, cut_off_rate_B,
        no_answer_rate_B, unchecked_B, left_out_B : per benchmark B, see `sagc.evaluation.metrics.benchmark_metrics`;
        pass_B is pass@k and majority_B maj@k with all k responses.

    Raises
    ------
    UserError
        For a folder that is no run, a run that is not trained to its end, and an evaluation that is missing or of
        another run.
    """
    place = RunFolder(folder)
    config = place.read_config()
    if is_older(config):
        log.warning("%s is %s", place.path, OLDER)
    table = _read_complete(place, config["run"]["training"]["steps"])
    return summary_row(config, table, read_evaluation(place, config["hash"]))


def summary_row(config: dict[str, Any], table: pd.DataFrame, evaluation: dict[str, Any]) -> dict[str, Any]:
    """The row of a run (see `summarize_run`) from its config.json, its steps and its evaluation."""
    run = config["run"]
    row = {name: run["cell"][name] for name in CELL} | {"group": str(run["cell"]["group"])}
    row |= training_columns(table, event=run["straggler"]["event"])
    for name, metrics in evaluation["benchmarks"].items():
        row |= _benchmark_columns(name, metrics)
    return row


def write_summary(folder: str | Path) -> dict[str, Any]:
    """Write the run's summary.json and return its row; raises what `summarize_run` raises."""
    row = summarize_run(folder)
    write_atomically(RunFolder(folder).summary, json.dumps(row, indent=2, allow_nan=False) + "\n")
    return row


def summarize_results(results: str | Path) -> pd.DataFrame:
    """Summarize every run below a folder and write the tables over them into it, each as CSV and as Markdown.

    They are summary, a line per run; in tables/ those over arms (see `analysis.tables.arm_tables`); and output_lengths
    (see `analysis.tables.output_lengths.compare_lengths`). Runs that are not complete are left out, each with a
    warning. Returns the first of them.

    Raises
    ------
    UserError
        Where there is no complete run, or two of the same cell, and where output lengths cannot be compared.
    """
    from analysis.tables.arm_tables import write_arm_tables
    from analysis.tables.output_lengths import compare_lengths, write_lengths
    from analysis.tables.runs import add_ratios, read_summaries, write_tables

    results, summaries = Path(results), []
    folders, elsewhere = find_runs(results)
    for sentence in elsewhere:
        log.warning("%s", sentence)
    for folder in folders:
        try:
            write_summary(folder)
        except UserError as error:
            log.warning("left out: %s", error)
        else:
            summaries.append(RunFolder(folder).summary)
    if not summaries:
        raise UserError(f"{results} holds no complete run")
    frame = add_ratios(read_summaries(summaries))
    write_tables(frame, results / "summary.csv", results / "summary.md")
    write_arm_tables(frame, results / "tables")
    lengths = compare_lengths(path.parent for path in summaries)
    write_lengths(lengths, *(results / f"output_lengths.{suffix}" for suffix in ("csv", "md", "tex")))
    click.echo(f"{len(frame)} run{'s' if len(frame) > 1 else ''}: {results / 'summary.md'}")
    return frame


def read_evaluation(place: RunFolder, run_hash: str) -> dict[str, Any]:
    """The content of a run's eval/evaluation.json.

    Raises UserError where it is missing, not JSON, or of another run than that of this config hash.
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
            f"{path} is of another run (hash {evaluation['run_hash']}, this one is {run_hash}); evaluate it again"
        )
    return evaluation


def _benchmark_columns(name: str, metrics: dict[str, Any]) -> dict[str, Any]:
    columns = {f"accuracy_{name}": metrics["accuracy"], f"accuracy_{name}_se": metrics["accuracy_se"]}
    columns[f"pass_{name}"] = metrics["pass_at"][max(metrics["pass_at"], key=int)]
    return columns | {f"{column}_{name}": metrics[metric] for column, metric in BENCHMARK_METRICS.items()}


def training_columns(table: pd.DataFrame, event: str) -> dict[str, Any]:
    """The columns of training, of the steps there are; `event` is what the straggler rate counts, a group or a step."""
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


def _read_complete(place: RunFolder, steps: int) -> pd.DataFrame:
    try:
        table = steps_table(map(step_row, read_trace(place.trace)))
    except OSError:
        raise UserError(f"{place.path} has no trace.jsonl; train it first") from None
    except ValueError as error:
        raise UserError(str(error)) from None
    if table["step"].tolist() != list(range(1, steps + 1)):
        raise UserError(f"{place.trace} does not hold the steps 1 to {steps} in order; train the run to its end first")
    return table


@click.command(cls=Command)
@click.argument("run_dir", type=click.Path(path_type=Path, file_okay=False))
def main(run_dir: Path) -> None:
    """Write summary.json of the run in RUN_DIR."""
    write_summary(run_dir)


if __name__ == "__main__":
    main()
