"""Odd JSON lines, in every kind of file that users give: read as they are meant, or one sentence with file and line."""

import json
from pathlib import Path
from typing import ClassVar

import pytest
from click.testing import CliRunner

from sagc import cli
from sagc.data import preparation as training_data
from sagc.data.prompts import read_prompts
from sagc.errors import UserError
from sagc.evaluation import overlap
from sagc.evaluation.problems import Source, read_problems
from sagc.system.jsonl import MAX_DEPTH, as_text, parse_object
from sagc.tiny.tokenizer import build_tokenizer

TRACE = Path(__file__).parents[1] / "replay" / "traces" / "tiny-qwen2-grpo" / "16" / "trace.jsonl"


class Reader:
    """A kind of file, and the command that reads it; `key` is where a row has a number."""

    name, key = "mine.jsonl", "answer"

    def __init__(self, folder):
        self.folder, self.path = folder, folder / self.name

    def call(self, command, *arguments):
        return CliRunner().invoke(command, [str(argument) for argument in arguments])


class Problems(Reader):
    """Training data that a template makes prompts of."""

    data: ClassVar = {"type": "jsonl", "template": "{problem}"}
    rows: ClassVar = [{"problem": f"{n} + {n}?", "answer": 2 * n, "text": "a\u2028b"} for n in range(3)]

    def read(self):
        source = {"data": {**self.data, "path": str(self.path)}, "chat": False}
        out = self.folder / "out.jsonl"
        result = self.call(training_data.main, "--source", json.dumps(source), "--out", out)
        return result, [{**row, "source_row": 0} for row in read_prompts(out)] if out.exists() else None


class Prompts(Problems):
    """Training data that are prompts already."""

    data: ClassVar = {"type": "jsonl"}
    rows: ClassVar = [{"prompt": f"{n} + {n}?", "answer": 2 * n, "text": "a\u2028b\u0085c\0"} for n in range(3)]


class Benchmark(Reader):
    """Problems of a benchmark; a bad line would be left out, so two good ones are not enough to see that."""

    rows: ClassVar = [{"id": n, "problem": f"{n} + {n}?\u2028", "answer": 2 * n} for n in range(3)]

    def read(self):
        prompts = self.folder / "prompts.jsonl"
        prompts.write_text('{"prompt": "1 + 1?"}\n')
        (self.folder / "aime_2024.jsonl").write_bytes(self.path.read_bytes())
        benchmarks = json.dumps({"mine": {"task": "aime_2024", "data_dir": str(self.folder)}})
        out = ("--json", self.folder / "out.json", "--markdown", self.folder / "out.md")
        result = self.call(overlap.main, prompts, "--benchmarks", benchmarks, "--data", self.folder, *out)
        try:
            problems, left_out = read_problems(Source(file=self.name), str(self.folder))
        except UserError as error:
            return result, [str(error)]
        if left_out:  # not the job, but one sentence
            assert result.exit_code == 0
            result.exit_code, result.stderr_bytes = 2, f"Error: {left_out[0]}\n".encode()
        return result, problems


class Replayed(Reader):
    def read(self, *arguments):
        out = self.folder / "out.csv"
        result = self.call(cli.main, "replay", self.path, "--csv", out, *arguments)
        return result, out.read_text().replace(str(self.folder), "") if out.exists() else None


class Trace(Replayed):
    name, key = "trace.jsonl", "reward"
    rows: ClassVar = [json.loads(line) for line in TRACE.read_text().splitlines()[:3]]


class Dump(Replayed):
    name, key = "1.jsonl", "score"
    rows: ClassVar = [{"input": f"{n // 4} :\u2028", "output": "1" * (n % 4 + 1), "score": n % 2} for n in range(8)]

    def read(self):
        build_tokenizer().save_pretrained(self.folder / "tokenizer")
        return super().read("--tokenizer", self.folder / "tokenizer")


READERS = [Problems, Prompts, Benchmark, Trace, Dump]


def lines_of(rows) -> list[bytes]:
    return [json.dumps(row, ensure_ascii=False).encode() for row in rows]


def with_value(line: bytes, value: str | bytes) -> bytes:
    """The line with one more key in front."""
    return b'{"odd": ' + (value if isinstance(value, bytes) else value.encode()) + b", " + line[1:]


def refusal(result) -> str:
    """The one sentence of a command that ended with exit status 2."""
    assert result.exit_code == 2, (result.output, result.exception)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.stderr.splitlines()[-1].removeprefix("Error: ")


MEANT = {
    "a byte-order mark": lambda lines: b"\xef\xbb\xbf" + b"\n".join(lines) + b"\n",
    "CRLF": lambda lines: b"\r\n".join(lines) + b"\r\n",
    "CR": lambda lines: b"\r".join(lines) + b"\r\n",
    "blank lines": lambda lines: b"\n \t\n" + b"\n\n".join(lines) + b"\n\n\r\n\n",
    "a line of 3 MB": lambda lines: b"\n".join([with_value(lines[0], f'"{"x" * 3_000_000}"'), *lines[1:]]) + b"\n",
    "the deepest line": lambda lines: (
        b"\n".join([with_value(lines[0], "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1)), *lines[1:]]) + b"\n"
    ),
}


@pytest.mark.parametrize("oddity", MEANT)
@pytest.mark.parametrize("reader", READERS)
def test_an_odd_file_is_read_as_it_is_meant(tmp_path, reader, oddity):
    results = []
    for folder, write in (("plain", lambda lines: b"\n".join(lines) + b"\n"), ("odd", MEANT[oddity])):
        (tmp_path / folder).mkdir()
        file = reader(tmp_path / folder)
        file.path.write_bytes(write(lines_of(file.rows)))
        result, content = file.read()
        assert result.exit_code == 0, (result.output, result.exception)
        if isinstance(content, list):
            content = [{key: value for key, value in row.items() if key != "odd"} for row in content]
        results.append(content)
    assert results[0] == results[1] is not None


REFUSED = {
    "NaN": "NaN is no number in JSON",
    "Infinity": "Infinity is no number in JSON",
    "[1, -Infinity]": "-Infinity is no number in JSON",
    "1e400": "1e400 is beyond the largest number, 1.8e308",
    "9" * 5000: "an integer of more than 4300 digits, which could be a text",
    "9" * 400 + ".5": "99999999999999999999... is beyond the largest number",
    "[" * 100_000 + "]" * 100_000: f"nested more than {MAX_DEPTH} levels deep",
    "[" * 200 + "]" * 200: f"nested more than {MAX_DEPTH} levels deep",
    r'"\ud800"': r"\ud800 is half of a surrogate pair, which is no character",
    r'{"\uDFFF": 1}': r"\udfff is half of a surrogate pair",
    b'"\xff"': "not UTF-8 text",
    b'"\0"': "not a JSON object",
    "{": "not a JSON object",
}


@pytest.mark.parametrize("value", REFUSED, ids=lambda value: repr(value[:12]))
@pytest.mark.parametrize("reader", READERS)
def test_a_line_that_cannot_be_read_is_one_sentence_with_file_and_line(tmp_path, reader, value):
    file = reader(tmp_path)
    first, second, *others = lines_of(file.rows)
    file.path.write_bytes(b"\n".join([b"\xef\xbb\xbf" + first, b"", with_value(second, value), *others]) + b"\n")
    result, _ = file.read()
    assert f"{file.path}, line 3: " in refusal(result) and REFUSED[value] in refusal(result)


@pytest.mark.parametrize("reader", [Problems, Prompts, Benchmark])
@pytest.mark.parametrize("digits", [19, 400, 4300])
def test_a_huge_answer_is_its_digits(tmp_path, reader, digits):
    file = reader(tmp_path)
    file.path.write_bytes(b"\n".join(lines_of([file.rows[0], {**file.rows[1], "answer": int("9" * digits)}])) + b"\n")
    result, rows = file.read()
    assert result.exit_code == 0 and rows[1]["answer"] == "9" * digits


@pytest.mark.parametrize("reader", [Trace, Dump])
def test_a_reward_that_no_float_holds_is_one_sentence_with_file_and_line(tmp_path, reader):
    file = reader(tmp_path)
    rows: ClassVar = [file.rows[0], {**file.rows[1], file.key: int("9" * 400)}, *file.rows[2:]]
    file.path.write_bytes(b"\n".join(lines_of(rows)) + b"\n")
    assert f"{file.path}, line 2: " in refusal(file.read()[0])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("lengths", [[10**400] * 16] * 16),
        ("lengths", [5]),
        ("rewards", [[10**400] * 16] * 16),
        ("rounds", [10**30, 16 - 10**30]),
        ("rounds", ["16"]),
        ("step_s", "1"),
        ("kept_groups", 10**400),
        ("risks", []),
    ],
)
def test_a_trace_of_odd_values_is_one_sentence_with_file_and_line(tmp_path, key, value):
    file = Trace(tmp_path)
    file.path.write_bytes(b"\n".join(lines_of([file.rows[0], {**file.rows[1], key: value}])) + b"\n")
    sentence = refusal(file.read()[0])
    assert sentence.startswith(f"{file.path}, line 2: not a step record (")


@pytest.mark.parametrize("value", [10**400, [1, "a"], 2**63], ids=["huge", "mixed", "65 bits"])
def test_a_column_that_no_table_can_hold_is_one_sentence_with_file_and_line(tmp_path, value):
    file = Prompts(tmp_path)
    file.path.write_bytes(b"\n".join(lines_of([file.rows[0], {**file.rows[1], "text": value}])) + b"\n")
    assert f"{file.path}, line 2: column 'text' cannot be in a table: " in refusal(file.read()[0])


@pytest.mark.parametrize("key", ["input", "output"])
def test_a_dump_whose_texts_are_none_is_one_sentence_with_file_and_line(tmp_path, key):
    file = Dump(tmp_path)
    file.path.write_bytes(b"\n".join(lines_of([file.rows[0], {**file.rows[1], key: [1]}])) + b"\n")
    assert f"{file.path}, line 2: not a response of verl's" in refusal(file.read()[0])


@pytest.mark.parametrize("reader", READERS)
def test_a_file_of_blank_lines_is_one_sentence(tmp_path, reader):
    file = reader(tmp_path)
    file.path.write_bytes(b"\xef\xbb\xbf\n\r\n\n")
    assert str(file.path.parent) in refusal(file.read()[0])


ROWS = [f"{step},a,{10 + n},{'' if n else 0.5}" for step in (1, 2) for n in range(8)]


@pytest.mark.parametrize(
    "content",
    [
        "\ufeffstep,group,length,reward\n" + "\n".join(ROWS) + "\n",
        "\r\n".join(["step,group,length,reward", *ROWS, ""]),
        "step,group,length,reward\n\n" + "\n\n".join(ROWS) + "\n\n\n",
        "step,group,length,reward\n" + "\n".join(ROWS).replace("a", "\u2028"),
    ],
)
def test_an_odd_table_is_read_as_it_is_meant(tmp_path, content):
    file = type("Table", (Replayed,), {"name": "log.csv"})(tmp_path)
    file.path.write_bytes(content.encode())
    result, replayed = file.read()
    assert result.exit_code == 0, (result.output, result.exception)
    assert replayed == "" or replayed.count("\n") > 1


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ("1e400,a,3,1", "step is inf, which is not a whole number"),
        ("1.5,a,3,1", "step is 1.5, which is not a whole number"),
        ("1,a,inf,1", "length is inf, which is not a number"),
        (f"1,a,{'9' * 400},1", "length is 9999999999999999999999999999999999999999, which is not a number"),
        ("1,a,3,-Infinity", "reward is -inf, which is not a number"),
        ("1,,3,1", "there is no group"),
        ("1,a,x,1", "length is x, which is not a number"),
    ],
)
def test_an_odd_cell_is_one_sentence_with_file_and_line(tmp_path, row, sentence):
    file = type("Table", (Replayed,), {"name": "log.csv"})(tmp_path)
    file.path.write_text("\n".join(["step,group,length,reward", "", ROWS[0], "", row, ROWS[1]]) + "\n")
    assert refusal(file.read()[0]) == f"{file.path}, line 5: {sentence}"


def test_whole_numbers_are_their_digits():
    assert as_text(10**4299) == "1" + "0" * 4299 and as_text(-(10**400)) == "-1" + "0" * 400


def test_a_surrogate_pair_is_a_character():
    assert parse_object(r'{"a": "\ud83d\ude00"}') == {"a": "\N{GRINNING FACE}"}
