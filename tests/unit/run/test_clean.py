"""sagc clean: asks first, removes what can be made again, and never the trace."""

import pytest
from click.testing import CliRunner

from sagc.cli import main
from sagc.run.folder import RunFolder
from tests.made_results import make_run

KEPT = {"config.json", "trace.jsonl"}


@pytest.fixture
def run(tmp_path):
    """A run with everything that training and evaluation leave, and a note of the user's own."""
    folder = make_run(tmp_path, "16", steps=2)
    for name in ("checkpoints/hash/checkpoint-1", "model", "tensorboard"):
        (folder / name).mkdir(parents=True)
        (folder / name / "file").write_bytes(b"x" * 2_000_000)
    for name in ("summary.json", "openrlhf.log", "notes.txt"):
        (folder / name).write_text("text")
    return folder


def clean(*arguments, answer=None):
    return CliRunner().invoke(main, ["clean", *map(str, arguments)], input=answer)


def files(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_goes_is_listed_with_its_size_and_asked_about(run):
    before = files(run)
    result = clean(run, answer="n\n")
    assert result.exit_code == 0 and "Remove these? [y/N]: n" in result.output
    for name in ("checkpoints", "model", "eval", "summary.json", "tensorboard", "openrlhf.log"):
        assert f"MB  {run / name}  (" in result.output
    assert f"       2.0 MB  {run / 'model'}  (training makes it again)" in result.output
    assert files(run) == before


def test_no_answer_removes_nothing(run):
    before = files(run)
    assert clean(run, answer="").exit_code != 0
    assert files(run) == before


@pytest.mark.parametrize(("options", "answer"), [((), "y\n"), (("--yes",), None)])
def test_the_trace_and_the_users_own_files_stay(run, options, answer):
    trace = (run / "trace.jsonl").read_bytes()
    assert clean(run, *options, answer=answer).exit_code == 0
    left = {name: content for name, content in files(run).items() if not name.startswith(".lock")}
    assert set(left) == {*KEPT, "notes.txt"} and left["trace.jsonl"] == trace
    assert "nothing to remove" in clean(run).output


def test_a_link_is_removed_and_what_it_leads_to_is_not(run, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    (run / "model").rename(elsewhere)
    (run / "model").symlink_to(elsewhere)
    assert clean(run, "--yes").exit_code == 0
    assert not (run / "model").is_symlink() and (elsewhere / "file").exists()


def test_a_run_in_use_is_left_alone(run):
    before = files(run)
    with RunFolder(run).lock():
        result = clean(run, "--yes")
    assert result.exit_code == 2 and "is in use by" in result.output
    assert {name: content for name, content in files(run).items() if not name.startswith(".lock")} == before


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    (tmp_path / "model").mkdir()
    assert "is not a run folder" in clean(tmp_path, "--yes").output
    (tmp_path / "config.json").write_text("{}")
    result = clean(tmp_path, "--yes")
    assert result.exit_code == 2 and "is not a run folder" in result.output
    assert (tmp_path / "model").is_dir()
