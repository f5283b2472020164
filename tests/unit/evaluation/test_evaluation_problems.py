"""The problems of a benchmark: their format, what is wrong with them, and where they come from."""

import json
from pathlib import Path

import pytest

from sagc.config.sections import BenchmarkConfig
from sagc.errors import UserError
from sagc.evaluation.problems import (
    BENCHMARKS,
    HubSource,
    Source,
    benchmark_files,
    benchmark_problems,
    load_problems,
    read_problems,
    read_source,
    task_file,
)

HUB = {"path": "some/where", "split": "test", "revision": "0" * 40, "count": 2}


def write(path, *lines):
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def problem_line(number, **more):
    return json.dumps({"id": f"p{number}", "problem": f"{number}x :", "answer": str(number), **more})


def test_problems_are_read_from_the_data_folder(tmp_path):
    write(tmp_path / "some.jsonl", problem_line(1, more=1), problem_line(2, id=7, answer=2.0))
    problems = load_problems(data_dir=str(tmp_path), file="some.jsonl", version=1.0)["test"]
    assert list(problems) == [
        {"id": "p1", "problem": "1x :", "answer": "1"},
        {"id": "7", "problem": "2x :", "answer": "2"},
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not a JSON object"),
        ("[]", "not a JSON object"),
        ('{"id": "p2", "problem": "2x :"}', "but here answer is None"),
        (problem_line(2, answer=["2"]), "but here answer is ['2']"),
        (problem_line(2, answer=True), "but here answer is True"),
        (problem_line(2, problem="  "), "but here problem is '  '"),
        (problem_line(1), "the id 'p1' occurs before"),
    ],
)
def test_a_line_that_is_no_problem_is_left_out_and_named(tmp_path, line, reason):
    write(tmp_path / "some.jsonl", problem_line(1), line, problem_line(3))
    problems, (left_out,) = read_problems(Source(file="some.jsonl"), str(tmp_path))
    assert [problem["id"] for problem in problems] == ["p1", "p3"]
    assert left_out.startswith(f"{tmp_path}/some.jsonl, line 2: ") and left_out.endswith(reason)
    loaded = load_problems(data_dir=str(tmp_path), file="some.jsonl")
    assert loaded["left_out"]["reason"] == [left_out] and len(loaded["test"]) == 2


@pytest.mark.parametrize(("lines", "message"), [([], "are empty"), (["{"], "hold no problem: .*line 1: not a JSON")])
def test_a_file_without_a_problem_is_refused(tmp_path, lines, message):
    write(tmp_path / "some.jsonl", *lines)
    with pytest.raises(UserError, match=rf"benchmark problems .*some.jsonl {message}"):
        read_problems(Source(file="some.jsonl"), str(tmp_path))


def test_missing_problems_are_named(tmp_path):
    with pytest.raises(UserError, match=r"some\.jsonl cannot be read: No such file"):
        read_problems(Source(file="some.jsonl"), str(tmp_path))


def test_choices_are_shuffled_by_the_question_alone(tmp_path):
    lines = [problem_line(n, distractors=["x", "y", "z"]) for n in range(40)]
    source = Source(file="some.jsonl", choices=True)
    write(tmp_path / "some.jsonl", *lines)
    problems, _ = read_problems(source, str(tmp_path))
    write(tmp_path / "some.jsonl", *reversed(lines))
    assert read_problems(source, str(tmp_path)) == (problems[::-1], [])
    for n, problem in enumerate(problems):
        assert sorted(problem["choices"]) == sorted(["x", "y", "z", str(n)])
        assert problem["choices"]["ABCD".index(problem["answer"])] == str(n)
    letters = [problem["answer"] for problem in problems]
    assert all(letters.count(letter) >= 4 for letter in "ABCD")


@pytest.mark.parametrize("distractors", [None, [], "x", ["x", ""], ["x", "x"], ["1", "x"], ["x", None]])
def test_a_problem_without_choices_is_left_out(tmp_path, distractors):
    lines = problem_line(1, distractors=distractors), problem_line(2, distractors=["x"])
    write(tmp_path / "some.jsonl", *lines)
    problems, (left_out,) = read_problems(Source(file="some.jsonl", choices=True), str(tmp_path))
    assert len(problems) == 1
    assert "some.jsonl, line 1: a problem with choices needs distractors" in left_out


def hub_rows(monkeypatch, rows):
    monkeypatch.setattr("sagc.evaluation.problems.read_hub_rows", lambda *arguments: rows)


def test_the_hubs_columns_become_ours(monkeypatch):
    rows = [{"Question": f"q{n}", "Correct": n + 0.0, "W1": "x", "W2": "y", "year": 2020 + n % 2} for n in range(4)]
    hub_rows(monkeypatch, rows)
    columns = {"problem": "Question", "answer": "Correct", "distractors": ("W1", "W2")}
    hub = HubSource(**HUB, columns=columns, only={"year": "2021"})
    problems, _ = read_problems(Source(file="some.jsonl", choices=True, hub=hub), None)
    assert [(problem["id"], problem["problem"]) for problem in problems] == [("1", "q1"), ("3", "q3")]
    assert [sorted(problem["choices"]) for problem in problems] == [["1", "x", "y"], ["3", "x", "y"]]


def test_another_number_of_problems_is_another_benchmark(monkeypatch):
    hub_rows(monkeypatch, [{"problem": "q", "answer": "1"}])
    with pytest.raises(UserError, match=r"data set some/where at 0{40} has 1 of the 2 problems"):
        read_problems(Source(file="some.jsonl", hub=HubSource(**HUB)), None)


def test_a_row_of_the_hub_that_is_no_problem_is_named(monkeypatch):
    hub_rows(monkeypatch, [{"problem": "q", "answer": "1"}, {"problem": "q", "answer": ""}])
    with pytest.raises(UserError, match=r"has 1 of the 2 problems; some/where, row 1: .*here answer is ''"):
        read_problems(Source(file="some.jsonl", hub=HubSource(**HUB)), None)


PAPER = {"aime_2023": 30, "aime_2024": 30, "aime_2025": 30, "amc_2023": 40, "gpqa_diamond": 198}


@pytest.mark.parametrize("task", PAPER)
def test_the_papers_benchmarks_come_from_a_pinned_revision_or_a_folder(task, tmp_path, monkeypatch):
    source = read_source(BENCHMARKS / f"{task}.yaml")
    assert source.hub.count == PAPER[task]
    assert len(source.hub.revision) == 40
    extra = {"distractors": ["x", "y", "z"]} if source.choices else {}
    write(tmp_path / f"{task}.jsonl", problem_line(1, **extra))
    (problem,) = benchmark_problems(BenchmarkConfig(task=task, data_dir=str(tmp_path)), Path("nowhere"))
    assert problem["problem"] == "1x :"
    monkeypatch.setattr("sagc.evaluation.problems.read_hub_rows", lambda *arguments: pytest.fail(f"{arguments}"))
    with pytest.raises(pytest.fail.Exception, match=source.hub.revision):
        benchmark_problems(BenchmarkConfig(task=task), tmp_path)


def test_a_task_without_a_hub_source_reads_the_embedded_problems(tmp_path):
    write(tmp_path / "heldout.jsonl", problem_line(3))
    assert benchmark_problems(BenchmarkConfig(task="tiny_heldout"), tmp_path)[0]["id"] == "p3"


def test_an_unknown_task_names_those_there_are():
    with pytest.raises(UserError, match=r"unknown benchmark task 'tiny_held'; .* are aime_2023, .*, tiny_heldout$"):
        task_file(BenchmarkConfig(task="tiny_held"), BENCHMARKS)


def test_a_task_file_with_a_wrong_source_is_named(tmp_path):
    (tmp_path / "some.yaml").write_text("task: some\ndataset_kwargs: {file: a.jsonl, hub: {path: x}}\n")
    with pytest.raises(UserError, match=r"some.yaml: dataset_kwargs.hub.split: Field required"):
        read_source(tmp_path / "some.yaml")


@pytest.mark.parametrize(
    ("text", "message"), [("a: [", "cannot be read: while parsing"), ("- a", "must be a mapping of keys to values")]
)
def test_a_task_file_that_is_none_is_named(tmp_path, text, message):
    (tmp_path / "some.yaml").write_text(text)
    with pytest.raises(UserError, match=rf"task file .*some.yaml {message}"):
        read_source(tmp_path / "some.yaml")


def test_the_files_of_a_benchmark_are_all_that_it_is_read_from(tmp_path):
    files = [path.name for path in benchmark_files(BenchmarkConfig(task="aime_2024"), tmp_path)]
    assert files == ["aime_2024.yaml", "_math.yaml", "_scores.yaml"]
    *_, problems = benchmark_files(BenchmarkConfig(task="aime_2024", data_dir="mine"), tmp_path)
    assert problems == Path("mine/aime_2024.jsonl")
    files = benchmark_files(BenchmarkConfig(task="tiny_harder"), tmp_path)
    assert [path.name for path in files] == ["tiny_harder.yaml", "tiny_heldout.yaml", "_scores.yaml", "harder.jsonl"]


@pytest.mark.parametrize("task", sorted(path.stem for path in BENCHMARKS.glob("[!_]*.yaml")))
def test_task_files_are_read_as_lm_eval_reads_them(task):
    from lm_eval.tasks._yaml_loader import load_yaml

    theirs = load_yaml(BENCHMARKS / f"{task}.yaml", resolve_func=False)
    assert Source.model_validate(theirs["dataset_kwargs"]) == read_source(BENCHMARKS / f"{task}.yaml")
    assert theirs["task"] == task
