"""sagc.data.preparation: prompts of problems, of prompts, of the Hub's rows; what is dropped and what is refused."""

import json

import pytest
from click.testing import CliRunner

from sagc.data.preparation import PromptsSource, main, source_of, summary, update_prompts, write_prompts
from sagc.data.prompts import prompts_path, read_prompts
from sagc.errors import UserError
from sagc.run.inputs import prompts_file
from tests.configs import load_grid

TEMPLATE = "{problem}\n\nPut your answer within \\boxed{}."


@pytest.fixture
def source(tmp_path):
    """`source([row, ...], chat=True, template=...)` writes a JSON lines file and gives the source of prompts."""

    def build(rows: list, chat: bool = False, **data) -> PromptsSource:
        path = tmp_path / "mine.jsonl"
        path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
        return PromptsSource.model_validate({"data": {"type": "jsonl", "path": str(path), **data}, "chat": chat})

    return build


@pytest.fixture
def made(tmp_path):
    """`made(source)` -> the rows that are written, and the record."""

    def make(source: PromptsSource) -> tuple[list[dict], dict]:
        record = write_prompts(source, tmp_path / "out" / "model.jsonl")
        assert json.loads((tmp_path / "out" / "model.json").read_text()) == record
        return read_prompts(tmp_path / "out" / "model.jsonl"), record

    return make


def test_problems_become_prompts_by_the_template(source, made):
    rows, record = made(source([{"problem": r" Find $\{x\}$. ", "answer": 70.0, "more": [1]}], template=TEMPLATE))
    prompt = "Find $\\{x\\}$.\n\nPut your answer within \\boxed{}."
    assert rows == [{"prompt": prompt, "answer": "70", "source_row": 1}]
    assert (record["rows"], record["prompts"], record["duplicates"], record["contradictions"]) == (1, 1, 0, 0)


def test_the_columns_of_problems_are_named(source, made):
    columns = {"problem": "question", "answer": "solution"}
    rows, _ = made(source([{"question": "1 + 1?", "solution": "2"}], template="{problem}", columns=columns))
    assert rows == [{"prompt": "1 + 1?", "answer": "2", "source_row": 1}]


def test_a_models_chat_makes_messages_of_text(source, made):
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2 + 2?"}]
    rows, _ = made(source([{"prompt": "1 + 1?", "answer": 2}, {"prompt": messages, "answer": "4"}], chat=True))
    assert [row["prompt"] for row in rows] == [[{"role": "user", "content": "1 + 1?"}], messages]


def test_prompts_of_ones_own_stay_as_they_are_with_all_columns(source, made):
    rows, _ = made(source([{"prompt": " 1x +2 = 3:", "answer": "1", "level": {"a": None}}]))
    assert rows == [{"prompt": " 1x +2 = 3:", "answer": "1", "level": {"a": None}, "source_row": 1}]
    messages = [{"role": "user", "content": "hello"}]
    assert made(source([{"prompt": messages, "answer": "1"}]))[0][0]["prompt"] == messages


@pytest.mark.parametrize(
    ("answer", "text"), [(70.0, "70"), (-3, "-3"), (0, "0"), (0.5, "0.5"), (" 7 ", "7"), (1e3, "1000")]
)
def test_answers_are_text(source, made, answer, text):
    assert made(source([{"prompt": "p", "answer": answer}]))[0][0]["answer"] == text


@pytest.mark.parametrize("answer", [None, "", "  ", True, ["1"], {}])
def test_a_row_without_an_answer_is_an_error(source, tmp_path, answer):
    rows = [{"prompt": "p", "answer": "1"}, {"prompt": "q", "answer": answer}]
    with pytest.raises(
        UserError, match=r"mine\.jsonl, line 2: needs 'answer', as text or a number; its columns are pr"
    ):
        write_prompts(source(rows), tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({"answer": "1"}, "needs a prompt, as text or as a list of messages with role and content"),
        ({"prompt": " ", "answer": "1"}, "needs a prompt"),
        ({"prompt": [], "answer": "1"}, "needs a prompt"),
        ({"prompt": ["hello"], "answer": "1"}, "needs a prompt"),
        ({"prompt": [{"role": "user", "content": None}], "answer": "1"}, "needs a prompt"),
        (
            {"prompt": [{"role": "user", "content": "q"}], "answer": "1"},
            "prompts must be all text or all messages, but here they begin to mix",
        ),
        ("{", "not a JSON object"),
        ("[]", "not a JSON object"),
    ],
)
def test_a_line_that_is_no_prompt_is_named(source, tmp_path, row, sentence):
    with pytest.raises(UserError, match=rf"mine\.jsonl, line 2: .*{sentence}"):
        write_prompts(source([{"prompt": "p", "answer": "1"}, row]), tmp_path / "out.jsonl")


@pytest.mark.parametrize("problem", [{}, {"problem": None}, {"problem": " "}, {"prompt": "p"}])
def test_a_row_without_a_problem_is_an_error(source, tmp_path, problem):
    with pytest.raises(UserError, match=r"mine\.jsonl, line 1: needs 'problem', as text or a number; its columns are"):
        write_prompts(source([{**problem, "answer": "1"}], template=TEMPLATE), tmp_path / "out.jsonl")


def test_a_file_that_is_missing_or_empty(source, tmp_path):
    empty = source([])
    with pytest.raises(UserError, match=r"training data .*mine\.jsonl are empty"):
        write_prompts(empty, tmp_path / "out.jsonl")
    (tmp_path / "mine.jsonl").unlink()
    with pytest.raises(UserError, match=r"training data .*mine\.jsonl cannot be read: No such file"):
        update_prompts(empty, tmp_path / "out.jsonl")


def test_duplicates_are_dropped_and_contradictions_too(source, made):
    answers = [
        ("Find $x^{2}$", 4),
        ("other", 1),
        (r"find \(x^2\).", 4.0),
        ("Other!?", 1),
        ("more", 1),
        ("MORE", 2),
        ("more", 1),
    ]
    rows = [{"problem": problem, "answer": answer} for problem, answer in answers]
    rows[3]["problem"] = "Other?"
    kept, record = made(source(rows, template="{problem}"))
    assert [(row["prompt"], row["answer"], row["source_row"]) for row in kept] == [
        ("Find $x^{2}$", "4", 1),
        ("other", "1", 2),
    ]
    assert {name: record[name] for name in ("rows", "prompts", "duplicates", "contradictions")} == {
        "rows": 7,
        "prompts": 2,
        "duplicates": 2,
        "contradictions": 3,
    }
    assert summary(record).endswith("mine.jsonl: dropped 2 duplicates and 3 rows whose answers contradict")


def test_unicodes_separators_of_lines_are_written_as_they_were_read(source, made):
    assert made(source([{"prompt": "a\u2028b\x85c\0", "answer": 1}]))[0][0]["prompt"] == "a\u2028b\x85c\0"


def test_problems_that_differ_in_symbols_alone_are_no_duplicates(source, made):
    rows = [{"prompt": prompt, "answer": "1"} for prompt in ("1x +2 = 3:", "1x -2 = 3:", "\N{SNOWMAN}", "\N{COMET}")]
    assert len(made(source(rows))[0]) == 4


def test_nothing_left_is_an_error(source, tmp_path):
    rows = [{"prompt": "p", "answer": 1}, {"prompt": "P", "answer": 2}]
    with pytest.raises(UserError, match=r"leaves no prompts of 2 rows, of which 2 contradict each other"):
        write_prompts(source(rows), tmp_path / "out.jsonl")


@pytest.fixture
def hub(monkeypatch):
    """The source of a data set of the Hub, whose rows are `rows`."""
    rows, asked = [{"prompt": "1 + 1?", "solution": "2"}, {"prompt": "2 + 2?", "solution": 4.0}], []
    monkeypatch.setattr("sagc.data.preparation.read_hub_rows", lambda *arguments: asked.append(arguments) or rows)
    data = {"type": "hub", "path": "owner/name", "name": "en", "revision": "abc", "template": TEMPLATE}
    data["columns"] = {"problem": "prompt", "answer": "solution"}
    built = PromptsSource.model_validate({"data": data, "chat": True})
    return built, rows, asked


def test_rows_of_the_hub(hub, made):
    source, _, asked = hub
    rows, record = made(source)
    assert asked == [("owner/name", "en", "train", "abc")]
    assert [(row["answer"], row["source_row"]) for row in rows] == [("2", 0), ("4", 1)]
    assert rows[1]["prompt"] == [{"role": "user", "content": TEMPLATE.replace("{problem}", "2 + 2?")}]
    assert record["source"] == source.model_dump(mode="json")


def test_a_row_of_the_hub_is_named_by_its_number(hub, tmp_path):
    source, rows, _ = hub
    rows[1]["solution"] = None
    with pytest.raises(
        UserError, match=r"^data set owner/name, row 1: needs 'solution', as text or a number; its colu"
    ):
        write_prompts(source, tmp_path / "out.jsonl")


def test_prompts_are_made_again_exactly_when_what_they_are_of_changes(source, hub, tmp_path):
    path = tmp_path / "out.jsonl"
    mine = source([{"prompt": "p", "answer": 1}])
    assert update_prompts(mine, path)["prompts"] == 1
    assert update_prompts(mine, path) is None
    assert update_prompts(mine.model_copy(update={"chat": True}), path)
    assert update_prompts(mine, path)
    assert update_prompts(source([{"prompt": "q", "answer": 1}]), path), "the same config, another file"
    assert read_prompts(path)[0]["prompt"] == "q"
    path.unlink()
    assert update_prompts(mine, path)
    for record in ("", "[]", "{}"):
        path.with_suffix(".json").write_text(record)
        assert update_prompts(mine, path)
    assert update_prompts(hub[0], path)
    assert update_prompts(hub[0], path) is None
    assert len(hub[2]) == 1, "the Hub is asked once"


def test_a_failed_change_leaves_the_prompts_that_were_there(source, tmp_path):
    path = tmp_path / "out.jsonl"
    update_prompts(source([{"prompt": "p", "answer": 1}]), path)
    with pytest.raises(UserError):
        update_prompts(source([{"prompt": "q"}]), path)
    assert read_prompts(path)[0]["prompt"] == "p"


def test_a_run_finds_the_prompts_of_its_model(config_file, tmp_path, capsys):
    (tmp_path / "mine.jsonl").write_text('{"problem": "1 + 1?", "answer": 2}\n')
    models = {
        "tiny": {"type": "pretrained", "path": "a/b", "chat": True},
        "base-1.5": {"type": "pretrained", "path": "a/c"},
    }
    data = {"type": "jsonl", "path": str(tmp_path / "mine.jsonl"), "template": "{problem}"}
    grid = load_grid(config_file({"models": models, "data": data}))
    paths = [prompts_file(grid, model) for model in ("tiny", "base-1.5")]
    assert paths == [tmp_path / "results" / "data" / "train" / f"{model}.jsonl" for model in ("tiny", "base-1.5")]
    assert [type(read_prompts(path)[0]["prompt"]) for path in paths] == [list, str]
    assert "tiny.jsonl: 1 training prompts of 1 rows of" in capsys.readouterr().err
    assert prompts_file(grid, "tiny") == paths[0]
    assert capsys.readouterr().err == "", "nothing is made twice"
    assert source_of(grid, "tiny").chat and not source_of(grid, "base-1.5").chat


def test_the_embedded_task_has_its_own_prompts(config_file, tmp_path):
    grid = load_grid(config_file())
    assert prompts_path(grid, "tiny") == tmp_path / "results" / "data" / "tiny" / "train.jsonl"
    assert prompts_file(grid, "tiny").exists()


def test_the_command_writes_what_it_is_told(source, tmp_path):
    text = source([{"prompt": "p", "answer": 1}]).model_dump_json()
    result = CliRunner().invoke(main, ["--source", text, "--out", str(tmp_path / "a" / "m.jsonl")])
    assert result.exit_code == 0, result.output
    assert result.output.startswith("1 training prompts of 1 rows of ")
    assert read_prompts(tmp_path / "a" / "m.jsonl")[0]["answer"] == "1"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"chat": true}', "Error: --source: key data is missing"),
        (
            '{"chat": true, "data": {"type": "jsonl", "path": "none.jsonl"}}',
            "Error: training data none.jsonl cannot be",
        ),
    ],
)
def test_a_mistake_of_the_command_is_one_sentence(tmp_path, text, sentence):
    result = CliRunner().invoke(main, ["--source", text, "--out", str(tmp_path / "m.jsonl")])
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1].startswith(sentence)
