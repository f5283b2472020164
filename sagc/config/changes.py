"""A config file with the changes from the command line, and the run that the command line selects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from sagc.config.grid import GridConfig, validate_grid
from sagc.config.reading import describe, read_yaml
from sagc.config.run import Cell
from sagc.errors import UserError


def load_changed(path: Path, changes: tuple[str, ...]) -> GridConfig:
    """The validated grid of a config file with `key=value` changes applied.

    Raises
    ------
    UserError
        If the file or a change is invalid; one sentence.
    """
    return validate_grid(read_changed(path, changes), source=str(path))


def read_changed(path: Path, changes: tuple[str, ...]) -> dict[str, Any]:
    """The content of a config file with `key=value` changes applied.

    Values are read as YAML, and keys may be nested with dots.

    Raises
    ------
    UserError
        If the file cannot be read or a change is invalid; one sentence.
    """
    if not path.exists():
        raise UserError(f"config file {path} does not exist; run in the project's folder, or name one with --config")
    raw = read_yaml(path)
    for change in changes:
        key, equals, text = change.partition("=")
        if not (key and equals):
            raise UserError(f"--set {change!r} is not of the form key=value")
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError:
            raise UserError(f"--set {key}: {text!r} is not valid YAML") from None
        *parents, last = key.split(".")
        section = raw
        for name in parents:
            section = section.setdefault(name, {}) if isinstance(section, dict) else None
        if not isinstance(section, dict):
            raise UserError(f"--set {key}: {'.'.join(parents) or path} is not a section of the config")
        section[last] = value
    return raw


def choose_cell(grid: GridConfig, **names: str | int | None) -> Cell:
    """The run with this model, algorithm, stack, group and seed; None means that of the grid's first run.

    Raises
    ------
    UserError
        If a name is invalid; one sentence.
    """
    names = grid.cells()[0].model_dump() | {key: value for key, value in names.items() if value is not None}
    try:
        return Cell(**names)
    except ValidationError as error:
        raise UserError(describe(error, Cell)) from None
