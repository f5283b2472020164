"""The `sagc` command: the same code path that the DAG uses.

Heavy libraries are imported by the command that needs them, so that `sagc --help` is instant. A user's mistake is one
sentence on standard error and exit status 2.
"""

import json
import sys
from pathlib import Path

import click

from sagc.errors import UserError
from sagc.system.command import Commands
from sagc.system.paths import PathArgument

DEFAULT_CONFIG = Path("config/config.yaml")
SIMULATION = Path("config/simulation.yaml")


config_option = click.option(
    "--config",
    "config_file",
    type=PathArgument(),
    default=DEFAULT_CONFIG,
    show_default=True,
    help="Config file.",
)
set_option = click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="Change a config key.")


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="sagc")
def main() -> None:
    """Straggler-aware group control for reinforcement learning of language models."""


@main.command()
@click.argument("run_dir", type=PathArgument(file_okay=False))
@config_option
@click.option("--model", help="Model, by its name in the config.  [default: the grid's first]")
@click.option("--algorithm", help="Algorithm, by its name in the config.  [default: the grid's first]")
@click.option("--stack", help="vanilla or openrlhf.  [default: the grid's first]")
@click.option(
    "--group-size", "group", help="A size, or a controller by its name in the config.  [default: the grid's first]"
)
@click.option("--seed", type=int, help="Seed of the run.  [default: the grid's first]")
@set_option
def train(run_dir: Path, config_file: Path, changes: tuple[str, ...], **names: str | int | None) -> None:
    """Train one run into RUN_DIR; a run that was interrupted goes on from its last checkpoint.

    An embedded model that is not there yet is made first, in the folder that the DAG uses too.

    \b
    sagc train results/try --group-size sagc-robust --seed 1
    sagc train results/try --algorithm dapo --set training.steps=20
    """
    from sagc.config.changes import choose_cell, load_changed
    from sagc.run.inputs import prompts_file, starting_model
    from sagc.run.train import check
    from sagc.run.train import train as train_run

    grid = load_changed(config_file, changes)
    run = grid.run(choose_cell(grid, **names))
    check(run, grid.logging)  # before minutes go into a warm start
    data = prompts_file(grid, run.cell.model)
    train_run(run, run_dir, starting_model(grid, run), data, grid.logging)


@main.command("train-job", hidden=True)
@click.argument("run_dir", type=PathArgument(file_okay=False))
@click.option("--resolved", "run_json", metavar="JSON", required=True, help="The run, resolved.")
@click.option("--model", metavar="PATH", required=True, help="Starting model.")
@click.option("--data", type=PathArgument(), required=True, help="Training prompts (JSON lines).")
@click.option("--logging", "logging_json", metavar="JSON", default="{}", help="Where scalars go beside the trace.")
def train_job(run_dir: Path, run_json: str, model: str, data: Path, logging_json: str) -> None:
    """Train a run that the DAG has resolved into RUN_DIR."""
    from sagc.config.reading import from_json
    from sagc.config.run import RunConfig
    from sagc.config.sections import LoggingConfig
    from sagc.run.train import train as train_run

    run, logging = from_json(RunConfig, run_json, "--resolved"), from_json(LoggingConfig, logging_json, "--logging")
    train_run(run, run_dir, model, data, logging, end_orphan=True)


@main.command()
@click.argument("run_dir", type=PathArgument(file_okay=False))
@config_option
@set_option
def evaluate(run_dir: Path, config_file: Path, changes: tuple[str, ...]) -> None:
    """Evaluate the trained model of RUN_DIR on the config's benchmarks and print the scores."""
    from sagc.config.changes import load_changed
    from sagc.evaluation.job import evaluate as evaluate_run
    from sagc.run.inputs import data_folder

    grid = load_changed(config_file, changes)
    click.echo(json.dumps(evaluate_run(run_dir, grid.evaluation, data_folder(grid)), indent=2))


@main.command("evaluate-job", hidden=True)
@click.argument("run_dir", type=PathArgument(file_okay=False))
@click.option("--evaluation", metavar="JSON", required=True, help="The evaluation, resolved.")
@click.option("--data", type=PathArgument(), required=True, help="Folder of the problems.")
def evaluate_job(run_dir: Path, evaluation: str, data: Path) -> None:
    """Evaluate the trained model of RUN_DIR as the DAG says."""
    from sagc.config.reading import from_json
    from sagc.config.sections import EvaluationConfig
    from sagc.evaluation.job import evaluate as evaluate_run

    chosen = from_json(EvaluationConfig, evaluation, "--evaluation")
    click.echo(json.dumps(evaluate_run(run_dir, chosen, data, end_orphan=True), indent=2))


@main.command()
@click.argument("results", type=PathArgument(file_okay=False))
def summarize(results: Path) -> None:
    """Write summary.json of every run in RESULTS, and the tables over them."""
    if not results.is_dir():
        raise UserError(f"results folder {results} does not exist")

    from analysis.tables.grid import summarize_results

    summarize_results(results)


@main.command()
@click.argument("results", type=PathArgument(file_okay=False))
@click.option("--every", type=click.FloatRange(min=0.1), default=2.0, show_default=True, help="Seconds between looks.")
def watch(results: Path, every: float) -> None:
    """Show the runs in RESULTS while they train: step, group size, dual variable, straggler rate, reward, time left.

    Ends when no run is at work, or with Ctrl-C. Where the output is no terminal it is shown once.
    """
    from analysis.watch import watch as watch_runs

    watch_runs(results, every, click.echo)


@main.command()
@click.argument("results", type=PathArgument(file_okay=False))
def report(results: Path) -> None:
    """Write one HTML page over the runs in RESULTS, finished or not: verdict, tables, figures, a page per run.

    It is RESULTS/report.html, which works offline; figures and tables are beside it.
    """
    from analysis.report.build import build_report

    click.echo(build_report(results))


@main.command()
@click.option("--config", "config_file", type=PathArgument(), default=SIMULATION, show_default=True)
@set_option
@click.option("--csv", type=PathArgument(dir_okay=False), help="Write every step of every arm there.")
def simulate(config_file: Path, changes: tuple[str, ...], csv: Path | None) -> None:
    """Simulate synchronous steps: what each arm's group sizes would cost, and its straggler rate.

    \b
    sagc simulate --set cluster.engines=8 --set prompts=128
    sagc simulate --set 'cluster.costs={type: fitted, runs: [results/tiny-qwen2/grpo/vanilla/16/seed0]}'
    """
    from analysis.tables.simulation import report
    from sagc.config.changes import read_changed
    from sagc.simulation.arms import simulate_arms
    from sagc.simulation.config import validate_simulation
    from sagc.system.files import write_atomically

    simulation = validate_simulation(read_changed(config_file, changes), source=str(config_file))
    steps, *costs = simulate_arms(simulation)
    if csv is not None:
        write_atomically(csv, steps.to_csv(index=False))
    click.echo(report(steps, *costs), nl=False)


@main.command()
@click.argument("logs", nargs=-1, required=True, type=PathArgument())
@click.option("--tau", type=float, help="Max / median length beyond which a group is an event.  [default: the run's]")
@click.option("--delta", type=float, help="Straggler rate that the controllers may spend.  [default: the library's]")
@click.option("--eta", type=float, help="Step size of sagc's dual ascent.  [default: the library's]")
@click.option("--tokenizer", metavar="NAME", help="The run's tokenizer, folder or Hub id, for logs that hold texts.")
@click.option("--max-tokens", type=click.IntRange(min=1), help="The run's limit on a response, if its log lacks it.")
@click.option("--csv", "csv", type=PathArgument(dir_okay=False), help="Write the numbers there, too.")
@click.option("--suggest", is_flag=True, help="Propose tau, delta and eta for a run with such lengths, and say why.")
@click.option("--steps", type=click.IntRange(min=1), help="Steps of that run.  [default: as the log's config says]")
def replay(
    logs: tuple[Path, ...],
    tau: float | None,
    delta: float | None,
    eta: float | None,
    tokenizer: str | None,
    max_tokens: int | None,
    csv: Path | None,
    suggest: bool,
    steps: int | None,
) -> None:
    """Estimate from LOGS of jobs, finished or not, what smaller groups and the controllers would have cost.

    A log is a run folder or its trace.jsonl, the folder of TRL's completions, verl's rollout_data_dir, or a CSV with
    step, group, length and perhaps reward. Logs of several sizes, given together, tell more about hours.

    \b
    sagc replay results/tiny-qwen2/grpo/vanilla/16/seed0 --delta 0.65
    sagc replay results/tiny-qwen2/grpo/vanilla/16/seed0 --suggest
    """
    from analysis.tables.replay import as_list, replay_text, write_csv
    from sagc.logs import read_log
    from sagc.replay.estimate import replay_all
    from sagc.replay.suggest import suggest as suggest_values

    if tau is not None and not tau > 1:
        raise UserError(f"--tau is {tau:g}; max / median is never below 1, so it is a number above 1")
    read = [read_log(path, tokenizer=tokenizer, limit=max_tokens) for path in logs]
    if suggest:
        if tau is not None or delta is not None or eta is not None or csv is not None:
            raise UserError("--suggest chooses tau, delta and eta itself, and writes no CSV")
        for number, log in enumerate(read):
            found = suggest_values(log, steps)
            click.echo("\n" * (number > 0) + f"{log.path}\n\n{found.config}\n{as_list(found.reasons)}")
        return
    if steps is not None:
        raise UserError("--steps belongs to --suggest; without it every step of a log is replayed")
    replays = replay_all(read, tau, delta, eta)
    for number, each in enumerate(replays):
        click.echo("\n" * (number > 0) + f"{each.log.path}\n\n{replay_text(each)}")
    if csv is not None:
        write_csv(replays, csv)


@main.command()
@click.argument("run_dir", type=PathArgument(file_okay=False))
@click.option("--yes", is_flag=True, help="Do not ask.")
def clean(run_dir: Path, yes: bool) -> None:
    """Remove what of the run in RUN_DIR can be made again: checkpoints, model, evaluation, summary; never the trace."""
    from sagc.run.clean import MADE_AGAIN, removable, remove, size

    paths = removable(run_dir)
    if not paths:
        click.echo(f"{run_dir}: nothing to remove")
        return
    for path in paths:
        click.echo(f"{size(path) / 1e6:10.1f} MB  {path}  ({MADE_AGAIN[path.name]})")
    if yes or click.confirm("Remove these?"):
        remove(run_dir)
    else:
        click.echo("nothing was removed")


@main.command()
@click.option("--config", "config_file", type=PathArgument(), help="Say also what this config lacks here.")
@set_option
def doctor(config_file: Path | None, changes: tuple[str, ...]) -> None:
    """Say what this machine has and which stacks can run on it.

    With --config: what its grid needs, and what of that is missing here; the exit status is then 1.
    """
    if config_file is None and changes:
        raise UserError("--set changes a config; name it with --config")
    from sagc.config.changes import load_changed
    from sagc.doctor.machine import examine
    from sagc.doctor.needs import needs

    grid = load_changed(config_file, changes) if config_file else None
    click.echo(examine(Path.cwd()))
    if grid is None:
        return
    click.echo(f"\n{config_file}: {len(grid.cells())} runs in {grid.results}")
    missing = 0
    for need in needs(grid):
        click.echo(need)
        missing += need.lack is not None
    click.echo(f"{missing or 'nothing'} missing")
    if missing:
        sys.exit(1)


if __name__ == "__main__":
    main()
