"""Makes a model's training prompts from the config's data, as JSON lines that both stacks read.

    python -m sagc.data.preparation --source JSON --out results/data/train/MODEL.jsonl

1. The template turns problems into prompts; existing prompts stay unchanged.
2. If the model has `chat`, a text prompt becomes a single user message.
3. Answers become text. A row without a problem or an answer is an error.
4. Repeats of a problem (see `sagc.data.normalise.normalise`) are dropped. If its answers differ, none of them can be
   trusted, so all its rows are dropped.

A record of the same name (.json) next to the prompts says what they were made from and how many rows were dropped.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from pydantic import Field

from sagc.config.grid import GridConfig
from sagc.config.reading import from_json
from sagc.config.sections import HubDataConfig, JsonlDataConfig, Strict
from sagc.data.hub import read_hub_rows
from sagc.data.normalise import normalise
from sagc.data.prompts import prompt_text
from sagc.errors import UserError
from sagc.system.command import Command
from sagc.system.files import write_atomically
from sagc.system.jsonl import as_text, read_rows


class PromptsSource(Strict):
    """Everything that determines the content of a file of training prompts."""

    data: JsonlDataConfig | HubDataConfig = Field(discriminator="type")
    chat: bool


def source_of(grid: GridConfig, model: str) -> PromptsSource:
    """What a model's training prompts are made from; only for data other than the embedded task's."""
    return PromptsSource(data=grid.data, chat=getattr(grid.models[model], "chat", False))


def update_prompts(source: PromptsSource, path: Path) -> dict[str, Any] | None:
    """Write the prompts unless they already exist from the same source; returns their record if they were written."""
    try:
        made = json.loads(_record_path(path).read_text(encoding="utf-8"))["source"]
    except (OSError, ValueError, KeyError, TypeError):
        made = None
    return None if path.exists() and made == _identity(source) else write_prompts(source, path)


def write_prompts(source: PromptsSource, path: Path) -> dict[str, Any]:
    """Write the prompts and, next to them, their record, which is returned.

    Each line has `prompt`, `answer` and `source_row`, the line of the file (from 1) or the row of the data set (from
    0); the user's own prompts keep their other columns.

    Returns
    -------
    dict
        source : the `PromptsSource`, and the SHA-256 of a local file.
        rows : rows read.
        prompts : prompts written.
        duplicates : rows dropped because they repeat a problem with the same answer.
        contradictions : rows dropped because their problem has several answers.

    Raises
    ------
    UserError
        If the data cannot be read, a row is not a problem or prompt, or no prompts are left.
    """
    identity = _identity(source)
    rows = list(_prompts(source))
    kept, counts = _without_duplicates(rows)
    if not kept:
        raise UserError(
            f"training data {source.data.path} leaves no prompts of {len(rows)} rows, of which "
            f"{counts['contradictions']} contradict each other"
        )
    record = {"source": identity, "rows": len(rows), "prompts": len(kept), **counts}
    _record_path(path).unlink(missing_ok=True)  # a record must never be next to prompts it does not describe
    write_atomically(path, "".join(json.dumps(row) + "\n" for row in kept))
    write_atomically(_record_path(path), json.dumps(record, indent=2) + "\n")
    return record


def summary(record: dict[str, Any]) -> str:
    """One line that sums up a record of `write_prompts`."""
    return (
        f"{record['prompts']} training prompts of {record['rows']} rows of {record['source']['data']['path']}: "
        f"dropped {record['duplicates']} duplicates and {record['contradictions']} rows whose answers contradict"
    )


def _record_path(path: Path) -> Path:
    return path.with_suffix(".json")


def _identity(source: PromptsSource) -> dict[str, Any]:
    """The source as JSON; a local file is identified by its content, a data set on the Hub by its revision."""
    identity = source.model_dump(mode="json")
    if source.data.type == "jsonl":
        try:
            identity["sha256"] = hashlib.sha256(Path(source.data.path).read_bytes()).hexdigest()
        except OSError as error:
            raise UserError(f"training data {source.data.path} cannot be read: {error.strerror}") from None
    return identity


# From rows to prompts ------------------------------------------------------------------------------------------------


def _prompts(source: PromptsSource) -> Iterator[tuple[str, dict[str, Any]]]:
    """For each row, its problem and its output line."""
    data, kind = source.data, None
    for place, number, row in _read(data):
        if data.template is None:
            prompt, answer, others = _own_prompt(place, row), _text(place, row, "answer"), row
            _check_columns(place, row)
            problem = prompt_text(prompt)
        else:
            problem, answer = (_text(place, row, column) for column in (data.columns.problem, data.columns.answer))
            prompt, others = data.template.replace("{problem}", problem), {}
        if source.chat and isinstance(prompt, str):
            prompt = [{"role": "user", "content": prompt}]
        kind = kind or type(prompt)
        if not isinstance(prompt, kind):
            raise UserError(f"{place}: prompts must be all text or all messages, but here they begin to mix")
        yield problem, {**others, "prompt": prompt, "answer": answer, "source_row": number}


def _read(data: JsonlDataConfig | HubDataConfig) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """For each row, its place (for error messages), its number, and the row."""
    if data.type == "jsonl":
        yield from read_rows(Path(data.path), "training data")
    else:
        for number, row in enumerate(read_hub_rows(data.path, data.name, data.split, data.revision)):
            yield f"data set {data.path}, row {number}", number, row


def _own_prompt(place: str, row: dict[str, Any]) -> str | list[dict[str, Any]]:
    prompt = row.get("prompt")
    messages = isinstance(prompt, list) and all(
        isinstance(message, dict) and "role" in message and isinstance(message.get("content"), str)
        for message in prompt
    )
    if not (isinstance(prompt, str) or messages) or not prompt_text(prompt).strip():
        raise UserError(f"{place}: needs a prompt, as text or as a list of messages with role and content")
    return prompt


def _check_columns(place: str, row: dict[str, Any]) -> None:
    """Refuse values that a table cannot hold, such as integers beyond 64 bits: the trainer puts the rows in one."""
    import pyarrow

    for column in row.keys() - {"answer"}:
        try:
            pyarrow.scalar(row[column])
        except (pyarrow.ArrowException, OverflowError) as error:
            reason = "an integer of more than 64 bits" if isinstance(error, OverflowError) else str(error)
            raise UserError(f"{place}: column {column!r} cannot be in a table: {reason}") from None


def _text(place: str, row: dict[str, Any], column: str) -> str:
    """The value of a column as text."""
    text = as_text(row.get(column))
    if not text:
        raise UserError(f"{place}: needs {column!r}, as text or a number; its columns are {', '.join(row) or 'none'}")
    return text


def _without_duplicates(rows: list[tuple[str, dict[str, Any]]]) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """The first line of every problem with a single answer, and how many lines were dropped."""
    groups = defaultdict(list)
    for problem, line in rows:
        groups[normalise(problem) or problem].append(line)
    agreed = [lines for lines in groups.values() if len({line["answer"] for line in lines}) == 1]
    agreeing = sum(map(len, agreed))
    counts = {"duplicates": agreeing - len(agreed), "contradictions": len(rows) - agreeing}
    return [lines[0] for lines in agreed], counts


@click.command(cls=Command)
@click.option("--source", required=True, metavar="JSON", help="What the prompts are made from.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The prompts, as JSON lines.")
def main(source: str, out: Path) -> None:
    """Write the training prompts of a model."""
    click.echo(summary(write_prompts(from_json(PromptsSource, source, "--source"), out)))


if __name__ == "__main__":
    main()
