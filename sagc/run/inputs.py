"""The starting model and prompts of a single run, made once if they are missing, in the same way as by the DAG."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
from filelock import FileLock

from sagc.config.grid import GridConfig
from sagc.config.run import RunConfig
from sagc.config.sections import WarmStartConfig
from sagc.data.prompts import embedded_folder, prompts_path
from sagc.errors import UserError


def starting_model(grid: GridConfig, run: RunConfig) -> str:
    """The starting model: the Hub id or folder of a pretrained model, or the folder of an embedded one.

    An embedded model is made if it is missing.

    Raises
    ------
    UserError
        If it cannot be made, or the folder holds something else.
    """
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
            f"{folder} was made with architecture, seed and steps {found}, but the config says {wanted}; "
            "remove it, or choose another results folder"
        )


def prompts_file(grid: GridConfig, model: str) -> Path:
    """The training prompts of a model, made if they are missing or the config's data has changed."""
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
    """Lets commands that start together make a shared folder or file only once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return FileLock(path.with_name(f".{path.name}.lock"))
