"""The `sagc` command: the same code path that the DAG uses.

Heavy libraries are imported by the command that needs them, so that `sagc --help` is instant. A user's mistake is one
sentence on standard error and exit status 2.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import yaml
from filelock import FileLock
from pydantic import ValidationError

from sagc.config.grid import GridConfig, validate_grid
from sagc.config.reading import describe, from_json, read_yaml
from sagc.config.run import Cell, RunConfig
from sagc.config.sections import EvaluationConfig, LoggingConfig, WarmStartConfig
from sagc.data.prompts import embedded_folder, prompts_path
from sagc.errors import UserError
from sagc.system.command import Commands
from sagc.system.files import write_atomically
from sagc.system.paths import PathArgument

if TYPE_CHECKING:
    from sagc.logs import Log

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
@click.option("--group-size", help="A size, or a controller by its name in the config.  [default: the grid's first]")
@click.option("--seed", type=int, help="Seed of the run.  [default: the grid's first]")
@set_option
@click.option("--resolved", metavar="JSON", help="The run itself, resolved: what the DAG passes instead of all above.")
@click.option("--model-path", metavar="PATH", help="Starting model, with --resolved.")
@click.option("--data", type=PathArgument(), help="Training prompts (JSON lines), with --resolved.")
@click.option("--logging", metavar="JSON", help="Where scalars go beside the trace, with --resolved.")
def train(
    run_dir: Path,
    config_file: Path,
    model: str | None,
    algorithm: str | None,
    stack: str | None,
    group_size: str | None,
    seed: int | None,
    changes: tuple[str, ...],
    resolved: str | None,
    model_path: str | None,
    data: Path | None,
    logging: str | None,
) -> None:
    """Train one run into RUN_DIR; a run that was interrupted goes on from its last checkpoint.

    An embedded model that is not there yet is made first, in the folder that the DAG uses too.

    \b
    sagc train results/try --group-size sagc-robust --seed 1
    sagc train results/try --algorithm dapo --set training.steps=20
    """
    if resolved is not None:
        if model_path is None or data is None:
            raise UserError("--resolved needs --model-path and --data")
        run = from_json(RunConfig, resolved, "--resolved")
        wanted = from_json(LoggingConfig, logging or "{}", "--logging")
    else:
        if model_path is not None or data is not None or logging is not None:
            raise UserError("--model-path, --data and --logging need --resolved; without it the config says them")
        grid = load_changed(config_file, changes)
        run = grid.run(choose_cell(grid, model, algorithm, stack, group_size, seed))
        wanted = grid.logging
        from sagc.run.train import check

        check(run, wanted)  # before minutes go into a warm start
        data = prompts_file(grid, run.cell.model)
        model_path = starting_model(grid, run)

    from sagc.run.train import train as train_run

    train_run(run, run_dir, model_path, data, wanted, end_orphan=resolved is not None)


@main.command()
@click.argument("run_dir", type=PathArgument(file_okay=False))
@config_option
@set_option
@click.option("--evaluation", metavar="JSON", help="The evaluation, resolved: what the DAG passes instead of --config.")
@click.option("--data", type=PathArgument(), help="Folder of the problems, with --evaluation.")
def evaluate(
    run_dir: Path, config_file: Path, changes: tuple[str, ...], evaluation: str | None, data: Path | None
) -> None:
    """Evaluate the trained model of RUN_DIR on the config's benchmarks and print the scores."""
    if (evaluation is None) != (data is None):
        raise UserError("--evaluation and --data belong together; give both or neither")
    if evaluation is not None:
        chosen = from_json(EvaluationConfig, evaluation, "--evaluation")
    else:
        grid = load_changed(config_file, changes)
        chosen, data = grid.evaluation, data_folder(grid)

    from sagc.evaluation.job import evaluate as evaluate_run

    click.echo(json.dumps(evaluate_run(run_dir, chosen, data, end_orphan=evaluation is not None), indent=2))


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
    from sagc.simulation.config import validate_simulation

    simulation = validate_simulation(read_changed(config_file, changes), source=str(config_file))

    from analysis.tables.simulation import report
    from sagc.simulation.arms import simulate_arms

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
    from sagc.logs import read_log

    if tau is not None and not tau > 1:
        raise UserError(f"--tau is {tau:g}; max / median is never below 1, so it is a number above 1")
    read = [read_log(path, tokenizer=tokenizer, limit=max_tokens) for path in logs]
    if suggest:
        if tau is not None or delta is not None or eta is not None or csv is not None:
            raise UserError("--suggest chooses tau, delta and eta itself, and writes no CSV")
        _suggest(read, steps)
        return
    if steps is not None:
        raise UserError("--steps belongs to --suggest; without it every step of a log is replayed")
    from analysis.tables.replay import replay_text, write_csv
    from sagc.replay.estimate import replay_all

    replays = replay_all(read, tau, delta, eta)
    for number, each in enumerate(replays):
        click.echo("\n" * (number > 0) + f"{each.log.path}\n\n{replay_text(each)}")
    if csv is not None:
        write_csv(replays, csv)


def _suggest(logs: list["Log"], steps: int | None) -> None:
    from analysis.tables.replay import as_list
    from sagc.replay.suggest import suggest

    for number, log in enumerate(logs):
        found = suggest(log, steps)
        click.echo("\n" * (number > 0) + f"{log.path}\n\n{found.config}\n{as_list(found.reasons)}")


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
    grid = load_changed(config_file, changes) if config_file else None
    from sagc.doctor.machine import examine

    click.echo(examine(Path.cwd()))
    if grid is not None:
        _say_what_is_missing(grid, config_file)


def _say_what_is_missing(grid: GridConfig, config_file: Path) -> None:
    from sagc.doctor.needs import needs

    click.echo(f"\n{config_file}: {len(grid.cells())} runs in {grid.results}")
    missing = 0
    for need in needs(grid):
        click.echo(need)
        missing += need.lack is not None
    click.echo(f"{missing or 'nothing'} missing")
    if missing:
        sys.exit(1)


def load_changed(path: Path, changes: tuple[str, ...]) -> GridConfig:
    """The grid of a config file with `key=value` changes applied to it, validated.

    Raises UserError: one sentence.
    """
    return validate_grid(read_changed(path, changes), source=str(path))


def read_changed(path: Path, changes: tuple[str, ...]) -> dict[str, Any]:
    """The content of a config file with `key=value` changes applied to it.

    Values are read as YAML and keys may be nested with dots. Raises UserError: one sentence.
    """
    if not path.exists():
        raise UserError(f"config file {path} does not exist; run in the project's folder, or name one with --config")
    raw = read_yaml(path)
    for change in changes:
        key, equals, text = change.partition("=")
        if not (key and equals):
            raise UserError(f"--set {change!r} is not of the form key=value")
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError:
            raise UserError(f"--set {key}: {text!r} is not valid YAML") from None
        *parents, last = key.split(".")
        section = raw
        for name in parents:
            section = section.setdefault(name, {}) if isinstance(section, dict) else None
        if not isinstance(section, dict):
            raise UserError(f"--set {key}: {'.'.join(parents) or path} is not a section of the config")
        section[last] = value
    return raw


def choose_cell(
    grid: GridConfig,
    model: str | None,
    algorithm: str | None,
    stack: str | None,
    group: str | None,
    seed: int | None,
) -> Cell:
    """The run by its names; where one is not given, the first of the grid's (or of its first extra run)."""
    first = grid.cells()[0]
    given = {"model": model, "algorithm": algorithm, "stack": stack, "group": group, "seed": seed}
    names = first.model_dump() | {key: value for key, value in given.items() if value is not None}
    try:
        return Cell(**names)
    except ValidationError as error:
        raise UserError(describe(error, Cell)) from None


def starting_model(grid: GridConfig, run: RunConfig) -> str:
    """Where the run starts: the Hub id or folder of a pretrained model, or an embedded one, made if it is missing."""
    if run.model.type == "pretrained":
        return run.model.path
    folder = Path(grid.results) / "models" / run.cell.model
    architecture, warm_start = run.model.architecture, run.model.warm_start
    with _lock(folder):
        if not folder.exists():
            click.echo(f"Making the embedded model {run.cell.model} in {folder} (once, some minutes)", err=True)
            command = [sys.executable, "-m", "sagc.tiny.warm_start", "--architecture", architecture]
            command += ["--out", str(folder), "--seed", str(warm_start.seed), "--steps", str(warm_start.steps)]
            if subprocess.run(command, stdout=subprocess.DEVNULL).returncode:
                raise UserError(f"the embedded model {run.cell.model} could not be made in {folder} (see above)")
        _check_warm_start(folder, architecture, warm_start)
    return str(folder)


def _check_warm_start(folder: Path, architecture: str, warm_start: WarmStartConfig) -> None:
    try:
        made = json.loads((folder / "warm_start.json").read_text(encoding="utf-8"))
        found = (made["architecture"], made["seed"], made["settings"]["steps"])
    except (OSError, ValueError, KeyError):
        raise UserError(f"{folder} is not an embedded model; remove it, and it is made again") from None
    wanted = (architecture, warm_start.seed, warm_start.steps)
    if found != wanted:
        raise UserError(
            f"{folder} was made with architecture, seed and steps {found}, and the config says {wanted}; "
            "remove it, or choose another results folder"
        )


def prompts_file(grid: GridConfig, model: str) -> Path:
    """The training prompts of a model, made where they are missing or the config's data has changed."""
    path = prompts_path(grid, model)
    if grid.data.type == "tiny":
        data_folder(grid)
        return path
    from sagc.data.preparation import source_of, summary, update_prompts

    with _lock(path):
        if record := update_prompts(source_of(grid, model), path):
            click.echo(f"{path}: {summary(record)}", err=True)
    return path


def data_folder(grid: GridConfig) -> Path:
    """The folder of the embedded task's problems, written if it is missing."""
    folder = embedded_folder(grid)
    with _lock(folder):
        if not folder.exists():
            from sagc.tiny.data import write_datasets

            write_datasets(folder, grid.problems_seed)
    return folder


def _lock(path: Path) -> FileLock:
    """Two commands that start together make a shared folder or file once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return FileLock(path.with_name(f".{path.name}.lock"))


if __name__ == "__main__":
    main()
