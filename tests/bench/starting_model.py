"""The warm-started embedded model that benchmarks begin with."""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from sagc.config.changes import load_changed
from sagc.config.run import Cell
from sagc.run.inputs import starting_model

PROJECT = Path(__file__).resolve().parents[2]
CONFIG = PROJECT / "config" / "config.yaml"
MODEL, SEED = "tiny-qwen2", 0


@cache
def starting_model_path() -> str:
    """That of the project's own results folder where the grid has made it, and a new one (two minutes) otherwise."""
    grid = load_changed(CONFIG, ())
    results = PROJECT / grid.results
    if not (results / "models" / MODEL).is_dir():
        results = Path(tempfile.mkdtemp(prefix="sagc-"))
        atexit.register(shutil.rmtree, results, ignore_errors=True)
    grid = grid.model_copy(update={"results": str(results)})
    return starting_model(grid, grid.run(Cell(model=MODEL, algorithm="grpo", stack="vanilla", group=16, seed=SEED)))
