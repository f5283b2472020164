"""Who imports whom: the product's files and rooms as graphs, drawn from the code."""

from __future__ import annotations

import ast
import graphlib
from collections.abc import Iterable, Mapping
from pathlib import Path

PROJECT = Path(__file__).parent.parent
PACKAGES = ("sagc", "openrlhf_patch", "analysis")
COMMAND_LINE = "sagc.cli"  # loads every command's part when it is called

Graph = Mapping[str, set[str]]


def files(root: Path = PROJECT, packages: Iterable[str] = PACKAGES) -> dict[str, Path]:
    """The modules by their dotted names; a package's own is its __init__.py."""
    found = {}
    for package in packages:
        for path in sorted((root / package).rglob("*.py")):
            found[".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")] = path
    return found


def imports(modules: Mapping[str, Path]) -> dict[str, set[str]]:
    """The modules among these that each of them imports, at its top or in a function."""
    return {name: _imported(path, modules) - {name} for name, path in modules.items()}


def _imported(path: Path, modules: Mapping[str, Path]) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                raise ValueError(f"{path}:{node.lineno} has a relative import, which nobody can search for")
            names.update({f"{node.module}.{alias.name}" for alias in node.names} & modules.keys() or {node.module})
    return names & modules.keys()


def room(module: str) -> str:
    """The room that a module is in: a folder of sagc or analysis, or a file at their top; openrlhf_patch is one."""
    package, *rest = module.split(".")
    return ".".join([package, *rest[:1]]) if package in ("sagc", "analysis") else package


def rooms(graph: Graph) -> dict[str, set[str]]:
    """The graph of the rooms."""
    found: dict[str, set[str]] = {}
    for module, imported in graph.items():
        found.setdefault(room(module), set()).update(room(other) for other in imported)
    return {name: others - {name} for name, others in found.items()}


def circle(graph: Graph) -> list[str]:
    """A circle of the graph, first and last the same; empty where there is none."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return error.args[1][::-1]
    return []


def back_arrows(graph: Graph, allowed: Mapping[str, Iterable[str]]) -> list[str]:
    """The imports between packages that `allowed` does not have, as "importer -> imported"."""
    found = []
    for module, imported in sorted(graph.items()):
        package = module.split(".")[0]
        others = sorted(other for other in imported if other.split(".")[0] not in (package, *allowed[package]))
        found += [f"{module} -> {other}" for other in others if module != COMMAND_LINE]
    return found


def reduced(graph: Graph) -> dict[str, set[str]]:
    """The graph without the arrows that follow from others: a -> c where a -> b -> c. For graphs without circles."""

    def reached(name: str) -> set[str]:
        return set().union(*({other} | reached(other) for other in graph.get(name, ())))

    return {
        name: {other for other in others if not any(other in reached(third) for third in others)}
        for name, others in graph.items()
    }


def picture() -> str:
    """The arrows of docs/architecture.md, as Mermaid."""
    arrows = reduced(rooms(imports(files())))
    return "\n".join(f"    {name} --> {other}" for name in sorted(arrows) for other in sorted(arrows[name]))


if __name__ == "__main__":
    print(picture())
