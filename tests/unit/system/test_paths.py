"""sagc.system.paths: home folders and odd characters, the same in every path of a config and after a command."""

import json
import pwd

import pytest
from click.testing import CliRunner
from pydantic import ValidationError

from sagc.cli import main
from sagc.config.grid import GridConfig, validate_grid
from sagc.config.reading import read_yaml
from sagc.config.run import RunConfig
from sagc.errors import UserError
from sagc.simulation.study.config import load_study, validate_study
from sagc.system.paths import expand, without_patterns

ODD = ["a b", "it's", '"', "50%", "$HOME", "übung", "-rf", "a[b]*?&;(c)", "#", "a\\b", "~", "a~b", "`id`", "|<>!"]
HUB = {"type": "hub", "revision": "0" * 40, "template": "{problem}"}

# Where a config has a path: what the config then is, and where the path is in the validated one.
PLACES = {
    "results": (lambda path: {"results": path}, lambda grid: grid.results),
    "data.path": (lambda path: {"data": {"type": "jsonl", "path": path}}, lambda grid: grid.data.path),
    "data.path of a folder in the Hub's place": (lambda path: {"data": {**HUB, "path": path}}, lambda g: g.data.path),
    "models.tiny.path": (
        lambda path: {"models": {"tiny": {"type": "pretrained", "path": path}}},
        lambda grid: grid.models["tiny"].path,
    ),
    "evaluation.benchmarks.mine.data_dir": (
        lambda path: {"evaluation": {"benchmarks": {"mine": {"task": "aime_2024", "data_dir": path}}}},
        lambda grid: grid.evaluation.benchmarks["mine"].data_dir,
    ),
}


@pytest.fixture(params=PLACES)
def place(request, minimal):
    """`place(path)` -> the path as the validated config has it; `place.key` is the key."""
    write, read = PLACES[request.param]

    def validate(path):
        return read(validate_grid({**minimal, **write(path)}))

    validate.name = request.param
    validate.key = request.param.partition(" ")[0]
    return validate


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_a_home_folder_is_expanded_in_every_path_of_a_config(place, home):
    assert place("~/out") == f"{home}/out"
    assert place("~root/out") == f"{pwd.getpwnam('root').pw_dir}/out"


@pytest.mark.parametrize("name", [name for name in ODD if name != "~"])
def test_any_other_path_stays_the_text_that_it_is(place, home, name):
    for path in (name, f"./{name}", f"x//{name}/", f"/no/such/{name}", "owner/name"):
        assert place(path) == path


def test_a_run_has_the_hash_that_it_had(minimal):
    """The hash of a run is of the paths' text: the same for the expanded run that the DAG hands to its jobs."""
    minimal["models"] = {"tiny": {"type": "pretrained", "path": "./a b/../model"}}
    minimal["data"] = {"type": "jsonl", "path": "data/x.jsonl"}
    grid = GridConfig.model_validate(minimal)
    run = grid.run(grid.cells()[0])
    content = json.loads(run.model_dump_json())
    assert (content["model"]["path"], content["data"]["path"]) == ("./a b/../model", "data/x.jsonl")
    assert RunConfig.model_validate_json(run.model_dump_json()).hash == run.hash


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("", "at least 1 character"),
        ("a\nb", "a path has no line breaks, tabs or other control characters"),
        ("a\0b", "a path has no line breaks"),
        ("~no-such-user/x", "~no-such-user is no home folder here; write the folder out, or ./~no-such-user if"),
        ("a/" + "ü" * 128, "a name in a path has at most 255 bytes, and a path 4000"),
        ("a/" * 2001, "a name in a path has at most 255 bytes, and a path 4000"),
    ],
)
def test_what_no_file_system_takes_is_one_sentence_with_the_key(place, path, reason):
    with pytest.raises(UserError) as refused:
        place(path)
    assert str(refused.value).startswith(f"config: {place.key} is ") and reason in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("path", ["r {x}", "{", "a}b", "~/{x}"])
def test_braces_are_refused_where_the_dag_has_the_path(place, home, path):
    if place.key in ("results", "evaluation.benchmarks.mine.data_dir") or place.name == "data.path":
        with pytest.raises(UserError, match="braces are wildcards of Snakemake; every other character is allowed"):
            place(path)
    else:
        assert place(path) == path.replace("~", str(home))


@pytest.mark.parametrize("key", ["results", "evaluation.benchmarks.mine.data_dir"])
@pytest.mark.parametrize("below", ["", "/deeper/still"])
def test_a_file_in_the_place_of_a_folder_is_said(minimal, tmp_path, key, below):
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(UserError, match=f"{key} is '.*: {file} is a file, but a folder is needed"):
        validate_grid({**minimal, **PLACES[key][0](f"{file}{below}")})


def test_a_folder_in_the_place_of_a_file_is_said(minimal, tmp_path):
    with pytest.raises(UserError, match=r"data\.path is .*: this is a folder, but a file is needed"):
        validate_grid({**minimal, **PLACES["data.path"][0](str(tmp_path))})


def test_the_results_of_the_study_are_such_a_path(home, project):
    study = read_yaml(project / "config" / "study.yaml")
    assert validate_study({**study, "results": "~/study"}, "study").results == f"{home}/study"
    with pytest.raises(UserError, match=r"study: results is 'r \{x\}': braces are wildcards"):
        validate_study({**study, "results": "r {x}"}, "study")
    assert load_study(project / "config" / "study.yaml").results == "results/study"


def test_an_empty_home_is_none(monkeypatch):
    monkeypatch.setenv("HOME", "")
    with pytest.raises(ValueError, match="~ is no home folder here"):
        expand("~/out")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("summarize", "~/none"), "results folder {home}/none does not exist"),
        (("watch", "~/none"), "results folder {home}/none does not exist"),
        (("replay", "~/none"), "{home}/none does not exist"),
        (("evaluate", "x", "--config", "~/none.yaml"), "config file {home}/none.yaml does not exist"),
        (("summarize", "~nobody-here/x"), "Invalid value for 'RESULTS': '~nobody-here/x': ~nobody-here is no home"),
        (("summarize", "a\nb"), "Invalid value for 'RESULTS': 'a\\nb': a path has no line breaks"),
    ],
)
def test_quoted_paths_after_a_command_are_expanded_too(home, arguments, said):
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2 and said.format(home=home) in result.stderr


def test_a_folder_is_itself_unless_its_name_is_a_pattern(tmp_path):
    with without_patterns(tmp_path) as folder:
        assert folder == tmp_path
    odd = tmp_path / "a[b]*?"
    odd.mkdir()
    with without_patterns(odd) as folder:
        assert folder.samefile(odd) and not set("*?[") & set(str(folder))
    assert not folder.exists() and odd.exists()


def test_paths_are_texts_for_pydantic():
    with pytest.raises(ValidationError, match="valid string"):
        GridConfig.model_validate({"results": 3})
