"""The code's imports run one way, and docs/architecture.md says what they are."""

import ast
import re
from pathlib import Path

import pytest

from tests.imports import PROJECT, back_arrows, circle, files, imports, reduced, room, rooms

PAGE = PROJECT / "docs" / "architecture.md"
ALLOWED = {"sagc": (), "openrlhf_patch": ("sagc",), "analysis": ("sagc",)}
# What trains, samples or evaluates: analysis reads the files that these wrote.
WRITERS = {"sagc.trl", "sagc.vanilla", "sagc.evaluation", "sagc.controllers", "sagc.tiny", "sagc.rewards", "sagc.data"}
HOPS = 6


@pytest.fixture(scope="module")
def graph():
    return imports(files())


def test_no_file_imports_itself_through_others(graph):
    assert not circle(graph), " -> ".join(circle(graph))


def test_no_room_imports_itself_through_others(graph):
    assert not circle(rooms(graph)), " -> ".join(circle(rooms(graph)))


def test_no_package_imports_what_is_built_on_it(graph):
    assert not back_arrows(graph, ALLOWED)


def test_analysis_imports_nothing_that_trains_or_plays(graph):
    wrong = [(name, other) for name in graph if name.startswith("analysis") for other in graph[name]]
    assert not [f"{name} -> {other}" for name, other in wrong if room(other) in WRITERS]


def test_the_command_line_loads_its_parts_when_a_command_is_called():
    tree = ast.parse((PROJECT / "sagc" / "cli.py").read_text(encoding="utf-8"))
    top = {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}
    assert not {name for name in top if name.split(".")[0] in ("analysis", "openrlhf_patch")}


def page_rows(title):
    """The first column of the table below a heading, without its code marks."""
    section = PAGE.read_text(encoding="utf-8").split(f"## {title}\n")[1].split("\n## ")[0]
    return [row.split("|")[1].strip().strip("`") for row in section.splitlines() if row.startswith("| `")]


def test_the_page_names_every_room_and_no_other(graph):
    assert sorted(page_rows("Rooms")) == sorted(rooms(graph))


def test_the_picture_is_the_code(graph):
    drawn = set(re.findall(r"^ +([\w.]+) --> ([\w.]+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    code = {(name, other) for name, others in reduced(rooms(graph)).items() for other in others}
    missing = "\n".join(sorted(f"    {name} --> {other}" for name, other in code - drawn))
    assert drawn == code, f"not in the picture:\n{missing}\nnot in the code: {sorted(drawn - code)}"


def hops():
    """The path of `lengths` in the page: (file, function) for each hop."""
    return [tuple(hop.split("::")) for hop in page_rows("The path of `lengths`")]


def body(file, function):
    """The source of a function, `Class.method` included."""
    found = ast.parse((PROJECT / file).read_text(encoding="utf-8"))
    for name in function.split("."):
        [found] = [node for node in ast.walk(found) if getattr(node, "name", None) == name]
    return ast.unparse(found)


def test_the_path_of_lengths_has_few_hops_and_each_of_them_handles_lengths():
    assert 0 < len(hops()) <= HOPS
    for file, function in hops():
        assert re.search(r"lengths|straggler_rate", body(file, function)), f"{file}::{function}"


# The checkers themselves, on made-up code.


def written(folder: Path, **sources: str):
    for name, source in sources.items():
        path = folder / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    return imports(files(folder))


def test_a_circle_of_files_is_found_even_through_a_function(tmp_path):
    late = "def late():\n    from sagc.run.folder import x"
    graph = written(tmp_path, sagc__run__folder="from sagc.config import grid", sagc__config__grid=late)
    assert set(circle(graph)) == {"sagc.run.folder", "sagc.config.grid"}


def test_a_circle_of_rooms_is_found_where_the_files_have_none(tmp_path):
    graph = written(
        tmp_path,
        sagc__run__a="import sagc.config.b",
        sagc__config__b="",
        sagc__config__c="import sagc.run.d",
        sagc__run__d="",
    )
    assert not circle(graph)
    assert set(circle(rooms(graph))) == {"sagc.run", "sagc.config"}


def test_a_back_arrow_is_named_unless_it_is_the_command_lines(tmp_path):
    graph = written(
        tmp_path, analysis__report="", sagc__cli="import analysis.report", sagc__trace="from analysis import report"
    )
    assert back_arrows(graph, ALLOWED) == ["sagc.trace -> analysis.report"]


def test_arrows_that_follow_from_others_are_left_out():
    assert reduced({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == {"a": {"b"}, "b": {"c"}, "c": set()}
