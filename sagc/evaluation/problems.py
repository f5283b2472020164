"""The problems of a benchmark: from a JSON lines file, or from the Hub.

Every problem has the texts `id`, `problem` and `answer`. A multiple-choice problem also has `distractors`, the wrong
choices; all are shuffled into `choices` by the id alone, and `answer` becomes the letter of the right one. A line that
is not a problem is left out and reported.
"""

from __future__ import annotations

import random
import string
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import Field, ValidationError

from sagc.config.sections import BenchmarkConfig, Strict
from sagc.data.hub import read_hub_rows
from sagc.errors import UserError
from sagc.system.jsonl import as_text, read_lines

if TYPE_CHECKING:
    from datasets import Dataset

BENCHMARKS = Path(__file__).resolve().parents[2] / "config" / "benchmarks"
TEXT_FIELDS = ("id", "problem", "answer")


class HubColumns(Strict):
    """The columns of a data set on the Hub that hold the fields of a problem."""

    id: str | None = None  # None: the number of the row
    problem: str = "problem"
    answer: str = "answer"
    distractors: tuple[str, ...] = ()


class HubSource(Strict):
    """Where a benchmark is on the Hub: `dataset_kwargs.hub` of its task file."""

    path: str
    name: str | None = None
    split: str
    revision: str
    columns: HubColumns = HubColumns()
    only: dict[str, str] = Field({})  # column -> text that it must contain
    count: int = Field(ge=1)  # number of problems; any other number means that this is not the benchmark


class Source(Strict):
    """`dataset_kwargs` of a task file."""

    file: str
    choices: bool = False
    hub: HubSource | None = None


def load_problems(data_dir: str | None = None, **source: Any) -> dict[str, Dataset]:
    """lm-eval's `custom_dataset`: the problems as split `test`, and the reasons for lines left out as `left_out`.

    Parameters
    ----------
    data_dir : str, optional
        Folder of the JSON lines file; if None, the problems come from the Hub.
    **source
        `Source`, and lm-eval's own metadata.

    Raises
    ------
    UserError
        If the problems are not available, or none of them can be read.
    """
    from datasets import Dataset

    known = {key: value for key, value in source.items() if key in Source.model_fields}
    problems, left_out = read_problems(Source.model_validate(known), data_dir)
    return {"test": Dataset.from_list(problems), "left_out": Dataset.from_dict({"reason": left_out})}


def benchmark_problems(
    benchmark: BenchmarkConfig, data_dir: Path, benchmarks_dir: Path = BENCHMARKS
) -> list[dict[str, Any]]:
    """The problems of a benchmark, as the evaluation uses them.

    `data_dir` is the folder of the embedded task's problems (see `problems_folder`).

    Raises
    ------
    UserError
        If the task file or the problems are not available or cannot be read.
    """
    source = read_source(task_file(benchmark, benchmarks_dir))
    return read_problems(source, problems_folder(benchmark, source, data_dir))[0]


def problems_folder(benchmark: BenchmarkConfig, source: Source, data_dir: Path) -> str | None:
    """Folder of the JSON lines: the benchmark's own, else None for a Hub benchmark, else the embedded task's."""
    if benchmark.data_dir is not None:
        return benchmark.data_dir
    return None if source.hub else str(data_dir)


def benchmark_files(benchmark: BenchmarkConfig, data_dir: Path, benchmarks_dir: Path = BENCHMARKS) -> list[Path]:
    """The files that a benchmark is read from: its task file, those that it includes, and its local problems."""
    path = task_file(benchmark, benchmarks_dir)
    source = read_source(path)
    folder = problems_folder(benchmark, source, data_dir)
    return [*_with_included(path), *([Path(folder) / source.file] if folder else [])]


def task_file(benchmark: BenchmarkConfig, folder: Path) -> Path:
    """The lm-eval task file of a benchmark. Raises UserError if there is none."""
    path = folder / f"{benchmark.task}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in folder.glob("[!_]*.yaml"))) or "none"
        raise UserError(f"unknown benchmark task {benchmark.task!r}; tasks in {folder} are {known}")
    return path


def read_source(path: Path) -> Source:
    """`dataset_kwargs` of a task file. Raises UserError if they do not match `Source`."""
    content = {}
    for file in reversed(_with_included(path)):
        content |= _read_task(file)
    try:
        return Source.model_validate(content.get("dataset_kwargs"))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, ("dataset_kwargs", *first["loc"])))
        raise UserError(f"task file {path}: {key}: {first['msg']}") from None


class _TaskLoader(yaml.SafeLoader):
    """Reads lm-eval's task files with their functions as text; lm-eval's own reader takes seconds to import."""


_TaskLoader.add_constructor("!function", lambda loader, node: loader.construct_scalar(node))


def _read_task(path: Path) -> dict[str, Any]:
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), _TaskLoader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"task file {path} cannot be read: {str(error).splitlines()[0]}") from None
    if not isinstance(content, dict):
        raise UserError(f"task file {path} must be a mapping of keys to values")
    return content


def _with_included(path: Path) -> list[Path]:
    """A task file and those that it includes, each before what it includes."""
    include = _read_task(path).get("include")
    return [path, *_with_included(path.parent / include)] if include else [path]


def read_problems(source: Source, data_dir: str | None) -> tuple[list[dict[str, Any]], list[str]]:
    """The problems of a source in order, and a sentence for each line that is not a problem.

    Raises
    ------
    UserError
        If the file cannot be read or holds no problem, or a Hub data set does not have the problems expected.
    """
    if data_dir is None:
        return _from_the_hub(source.hub, source.choices)
    path = Path(data_dir) / source.file
    rows = ((place, row) for place, _, row in read_lines(path, "benchmark problems"))
    problems, left_out = _problems(rows, source.choices)
    if not problems:
        raise UserError(f"benchmark problems {path} hold no problem: {left_out[0]}")
    return problems, left_out


def _from_the_hub(hub: HubSource, choices: bool) -> tuple[list[dict[str, Any]], list[str]]:
    rows = read_hub_rows(hub.path, hub.name, hub.split, hub.revision)
    kept = [(n, row) for n, row in enumerate(rows) if all(text in str(row.get(c)) for c, text in hub.only.items())]
    problems, left_out = _problems(((f"{hub.path}, row {n}", _fields(hub.columns, n, row)) for n, row in kept), choices)
    if len(problems) != hub.count:
        why = "".join(f"; {reason}" for reason in left_out[:1])
        raise UserError(f"data set {hub.path} at {hub.revision} has {len(problems)} of the {hub.count} problems{why}")
    return problems, left_out


def _fields(columns: HubColumns, number: int, row: dict[str, Any]) -> dict[str, Any]:
    fields = {"id": number if columns.id is None else row.get(columns.id)}
    fields |= {"problem": row.get(columns.problem), "answer": row.get(columns.answer)}
    return fields | {"distractors": [row.get(column) for column in columns.distractors]}


def _problems(
    rows: Iterable[tuple[str, dict[str, Any] | str]], choices: bool
) -> tuple[list[dict[str, Any]], list[str]]:
    problems: dict[str, dict[str, Any]] = {}
    left_out = []
    for place, row in rows:
        problem = row if isinstance(row, str) else _problem(row, choices)
        if isinstance(problem, str):
            left_out.append(f"{place}: {problem}")
        elif problem["id"] in problems:
            left_out.append(f"{place}: the id {problem['id']!r} occurs before")
        else:
            problems[problem["id"]] = problem
    return list(problems.values()), left_out


def _problem(row: dict[str, Any], choices: bool) -> dict[str, Any] | str:
    """The problem of a row, or what it lacks."""
    problem = {field: as_text(row.get(field)) for field in TEXT_FIELDS}
    if missing := [field for field in TEXT_FIELDS if not problem[field]]:
        needed = f"a problem needs {', '.join(TEXT_FIELDS)} as texts or numbers"
        return f"{needed}, but here {missing[0]} is {row.get(missing[0])!r}"
    return _with_choices(problem, row.get("distractors")) if choices else problem


def _with_choices(problem: dict[str, Any], distractors: Any) -> dict[str, Any] | str:
    wrong = [as_text(text) for text in distractors] if isinstance(distractors, list) else []
    choices = [problem["answer"], *wrong]
    if not wrong or not all(choices) or len(set(choices)) < len(choices) or len(choices) > len(string.ascii_uppercase):
        return "a problem with choices needs distractors, a list of texts that differ from its answer"
    random.Random(problem["id"]).shuffle(choices)
    return {**problem, "answer": string.ascii_uppercase[choices.index(problem["answer"])], "choices": choices}
