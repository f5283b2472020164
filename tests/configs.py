"""Configs as tests want them."""

from pathlib import Path

from sagc.config.grid import GridConfig, validate_grid
from sagc.config.reading import read_yaml


def load_grid(path: str | Path) -> GridConfig:
    """The grid of a YAML file."""
    return validate_grid(read_yaml(path), source=str(path))
