"""Logs of finished and running jobs, of this project and of others, in one form.

`read_log` knows trace.jsonl of this project, the completions that TRL logs, the rollout dumps of verl, and a plain CSV.
What a format cannot give is in the notes of the `Log`.
"""

from __future__ import annotations

from pathlib import Path

from sagc.errors import UserError
from sagc.logs import completions, dumps, traces
from sagc.logs import csv_files as tables
from sagc.logs.form import Log, LoggedStep

__all__ = ["Log", "LoggedStep", "read_log"]

KNOWN = (
    "trace.jsonl of this project, TRL's completions (completions_*.parquet), verl's rollout dumps (STEP.jsonl), "
    "or a .csv with step, group, length and perhaps reward"
)
OPENRLHF = (
    "{path} is a log of OpenRLHF, which holds mean lengths only; read the trace.jsonl of the openrlhf stack "
    "(openrlhf_patch/README.md) in its place, or a CSV of step, group, length"
)


def read_log(path: str | Path, *, tokenizer: str | None = None, limit: int | None = None) -> Log:
    """Read the log of one job, whatever wrote it.

    Parameters
    ----------
    path : path
        A file or a folder: a run folder, TRL's output_dir or its completions/, verl's rollout_data_dir, a CSV.
    tokenizer : str, optional
        Folder or Hub id of the run's tokenizer, for logs that hold texts.
    limit : int, optional
        Most tokens that a response may have. A trace has it in config.json.

    Raises
    ------
    UserError
        For a log that is none of these, or holds no step or what no rollout can be; the message is one sentence.
    """
    path = Path(path)
    if not path.exists():
        raise UserError(f"{path} does not exist")
    log = _read_folder(path, tokenizer, limit) if path.is_dir() else _read_file(path, tokenizer, limit)
    if not log.steps:
        raise UserError(f"{path} holds no whole step")
    return log


def _read_folder(path: Path, tokenizer: str | None, limit: int | None) -> Log:
    if (path / traces.NAME).exists():
        return traces.read(path / traces.NAME, limit)
    for folder in (path, path / "completions"):
        if files := sorted(folder.glob(completions.PATTERN)):
            return completions.read(path, files, tokenizer, limit)
    if files := [file for file in path.glob("*.jsonl") if dumps.NAME.fullmatch(file.name)]:
        return dumps.read(path, files, tokenizer, limit)
    if any(path.rglob("events.out.tfevents.*")) or (path / "openrlhf.log").exists():
        raise UserError(OPENRLHF.format(path=path))
    raise UserError(f"{path} holds no log that can be replayed; these can: {KNOWN}")


def _read_file(path: Path, tokenizer: str | None, limit: int | None) -> Log:
    if dumps.NAME.fullmatch(path.name):
        return dumps.read(path, [path], tokenizer, limit)
    if path.suffix == ".jsonl":
        return traces.read(path, limit)
    if path.suffix == ".parquet":
        return completions.read(path, [path], tokenizer, limit)
    if ".csv" in path.suffixes[-2:]:
        return tables.read(path, limit)
    if path.name.startswith("events.out.tfevents") or path.suffix == ".log":
        raise UserError(OPENRLHF.format(path=path))
    raise UserError(f"{path} is of an unknown format; these can be replayed: {KNOWN}")
