"""Paths that users write, in a config or after a command: the one place that expands and checks them.

`~` and `~user` at the beginning are home folders, as in a shell. A path without them stays the text that it is, because
the hash of a run is of this text.
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

NAME_BYTES, PATH_BYTES = 255, 4000  # of a file name, and of a path with room for what comes below it
PATTERN = re.compile(r"[*?\[\]{}]|::")  # what glob and fsspec take for more than characters


def expand(text: str) -> str:
    """The path with its home folder. Raises ValueError where there is none, and for what no file system takes."""
    if any(not character.isprintable() and character.isascii() for character in text):
        raise ValueError("a path has no line breaks, tabs or other control characters")
    if text.startswith("~"):
        name = text.partition("/")[0]
        unset = name == "~" and not os.environ.get("HOME", "/").startswith("/")  # an empty one is no folder
        text = text if unset else os.path.expanduser(text)
        if text.startswith("~"):
            raise ValueError(f"{name} is no home folder here; write the folder out, or ./{name} where it is called so")
    parts = [len(part.encode(errors="surrogateescape")) for part in text.split("/")]
    if max(parts) > NAME_BYTES or sum(parts) + len(parts) > PATH_BYTES:
        raise ValueError(f"a name in a path has at most {NAME_BYTES} bytes, and a path {PATH_BYTES}")
    return text


def _a_folder_or_none(text: str) -> str:
    existing = next(path for path in (Path(text), *Path(text).absolute().parents) if _exists(path))
    if not existing.is_dir():
        raise ValueError(f"{existing} is a file, and a folder is needed")
    return text


def _a_file_or_none(text: str) -> str:
    if _exists(Path(text)) and Path(text).is_dir():
        raise ValueError("this is a folder, and a file is needed")
    return text


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except PermissionError:  # of a folder above
        return False


def _no_wildcards(text: str) -> str:
    if "{" in text or "}" in text:
        raise ValueError("braces are wildcards of Snakemake; every other character is allowed")
    return text


ExpandedPath = Annotated[str, Field(min_length=1), AfterValidator(expand)]  # or a name on the Hub
_Known = Annotated[ExpandedPath, AfterValidator(_no_wildcards)]  # to the DAG, as an input or an output
FilePath = Annotated[_Known, AfterValidator(_a_file_or_none)]
FolderPath = Annotated[_Known, AfterValidator(_a_folder_or_none)]


class PathArgument(click.Path):
    """A path after a command, expanded as in a config: shells leave `--config=~/file` and quoted paths alone."""

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
    """A file or folder by a name that no library takes for a pattern: its own, or a link, which is gone afterwards.

    vLLM looks for weights, DeepSpeed for checkpoints and OpenRLHF for prompts with glob, without escaping the name.
    """
    if not PATTERN.search(str(path.absolute())):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="sagc-") as links:
        link = Path(links, f"link{path.suffix if path.suffix[1:].isalnum() else ''}")
        link.symlink_to(path.absolute(), target_is_directory=path.is_dir())
        yield link
