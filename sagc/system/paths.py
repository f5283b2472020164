"""Expands and checks paths that users write, in a config or on the command line.

A leading `~` or `~user` is a home folder, as in a shell. Any other path keeps its text unchanged, because the hash of a
run includes it.
"""

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import click
from pydantic import AfterValidator, Field

NAME_BYTES, PATH_BYTES = 255, 4000  # limits for a file name, and for a path with room for files below it
PATTERN = re.compile(r"[*?\[\]{}]|::")  # special to glob and fsspec


def expand(text: str) -> str:
    """The path with its home folder expanded.

    Raises
    ------
    ValueError
        If there is no such home folder, or no file system would accept the path.
    """
    if any(not character.isprintable() and character.isascii() for character in text):
        raise ValueError("a path has no line breaks, tabs or other control characters")
    if text.startswith("~"):
        name = text.partition("/")[0]
        unset = name == "~" and not os.environ.get("HOME", "/").startswith("/")  # an empty HOME is not a folder
        text = text if unset else os.path.expanduser(text)
        if text.startswith("~"):
            raise ValueError(f"{name} is no home folder here; write the folder out, or ./{name} if that is its name")
    parts = [len(part.encode(errors="surrogateescape")) for part in text.split("/")]
    if max(parts) > NAME_BYTES or sum(parts) + len(parts) > PATH_BYTES:
        raise ValueError(f"a name in a path has at most {NAME_BYTES} bytes, and a path {PATH_BYTES}")
    return text


def _a_folder_or_none(text: str) -> str:
    existing = next(path for path in (Path(text), *Path(text).absolute().parents) if _exists(path))
    if not existing.is_dir():
        raise ValueError(f"{existing} is a file, but a folder is needed")
    return text


def _a_file_or_none(text: str) -> str:
    if _exists(Path(text)) and Path(text).is_dir():
        raise ValueError("this is a folder, but a file is needed")
    return text


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except PermissionError:  # on a parent folder
        return False


def _no_wildcards(text: str) -> str:
    if "{" in text or "}" in text:
        raise ValueError("braces are wildcards of Snakemake; every other character is allowed")
    return text


ExpandedPath = Annotated[str, Field(min_length=1), AfterValidator(expand)]  # a path, or a name on the Hub
_Known = Annotated[ExpandedPath, AfterValidator(_no_wildcards)]  # an input or output known to the DAG
FilePath = Annotated[_Known, AfterValidator(_a_file_or_none)]
FolderPath = Annotated[_Known, AfterValidator(_a_folder_or_none)]


class PathArgument(click.Path):
    """A path on the command line, expanded as in a config: shells do not expand `--config=~/file` or quoted paths."""

    def __init__(self, **options: Any):
        super().__init__(path_type=Path, **options)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            text = expand(os.fspath(value))
        except ValueError as error:
            self.fail(f"{value!r}: {error}", param, ctx)
        return super().convert(text, param, ctx)


@contextlib.contextmanager
def without_patterns(path: Path) -> Iterator[Path]:
    """A name for a file or folder that no library takes for a pattern: its own name, or a temporary link.

    vLLM finds weights, DeepSpeed checkpoints and OpenRLHF prompts with glob, without escaping the name.
    """
    if not PATTERN.search(str(path.absolute())):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="sagc-") as links:
        link = Path(links, f"link{path.suffix if path.suffix[1:].isalnum() else ''}")
        link.symlink_to(path.absolute(), target_is_directory=path.is_dir())
        yield link
