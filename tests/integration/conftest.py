"""What the integration tests train on: the embedded data, and a model after a short warm start."""

import pytest

from sagc.config.grid import GridConfig, validate_grid
from sagc.config.run import RunConfig
from sagc.tiny.data import write_datasets
from sagc.tiny.warm_start import WarmStartSettings, warm_start

SHORT = WarmStartSettings(steps=120, measured_problems=8)  # measuring the start is most of its time


@pytest.fixture(scope="session")
def tiny_data(tmp_path_factory):
    """The folder of train.jsonl, heldout.jsonl and harder.jsonl."""
    folder = tmp_path_factory.mktemp("data")
    write_datasets(folder, seed=0)
    return folder


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory):
    """A Qwen2 that solves some problems: enough for rewards that differ within a group."""
    folder = tmp_path_factory.mktemp("model") / "tiny-qwen2"
    warm_start("qwen2", folder, 0, SHORT)
    return folder


@pytest.fixture
def resolve(raw_grid):
    """Resolve a small run: `resolve("dapo", "sagc", steps=3)` -> RunConfig."""

    def build(algorithm: str = "grpo", group: int | str = 4, seed: int = 0, **training) -> RunConfig:
        raw = raw_grid(algorithm, group, **training)
        raw["grid"]["seeds"] = [seed]
        grid: GridConfig = validate_grid(raw)
        return grid.run(grid.cells()[0])

    return build
