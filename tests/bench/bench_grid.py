"""What a controlled group size saves at embedded scale: `python -m tests.bench grid`.

Prints a markdown table: static 16, sagc and sagc-robust on tiny-qwen2, with GRPO on the vanilla stack and with DAPO on
OpenRLHF, one after another on one thread, with the settings of config/config.yaml but few steps. Runs, starting model
and data are made by the code of `sagc train`; the starting model is that of results/models where the grid has made it,
and takes about two minutes otherwise. On a CPU time follows the tokens; on a GPU it follows the longest response more.
"""

import os
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from sagc.config.changes import load_changed
from sagc.config.grid import GridConfig
from sagc.config.run import Cell
from sagc.run.inputs import data_folder
from sagc.run.train import train
from sagc.trace import StepRecord, read_trace
from tests.bench.starting_model import CONFIG, MODEL, SEED, starting_model_path

STACKS = {"vanilla": "grpo", "openrlhf": "dapo"}  # and the algorithm on it
GROUPS = (16, "sagc", "sagc-robust")
STEPS = 12


def rows(steps: int = STEPS) -> list[dict]:
    """One row per stack and arm: seconds, tokens and their ratios to static 16, over all steps."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        changes = (f"training.steps={steps}", f"training.checkpoint_every={steps}")
        grid = load_changed(CONFIG, (f"results={folder}", *changes))
        model, data = starting_model_path(), data_folder(grid) / "train.jsonl"
        return [row for stack in STACKS for row in _arms(grid, stack, Path(folder), model, data)]


def _arms(grid: GridConfig, stack: str, folder: Path, model: str, data: Path) -> list[dict]:
    table = []
    for group in GROUPS:
        cell = _cell(stack, group)
        train(grid.run(cell), folder / cell.path, model, data)
        table.append({"stack": stack, **_row(group, list(read_trace(folder / cell.path / "trace.jsonl")))})
    for row in table:
        for name in ("wall_s", "rollout_s", "tokens_k"):
            row[f"{name.rpartition('_')[0]}_vs_static16"] = round(row[name] / table[0][name], 3)
    return table


def _cell(stack: str, group: int | str) -> Cell:
    return Cell(model=MODEL, algorithm=STACKS[stack], stack=stack, group=group, seed=SEED)


def _row(group: int | str, records: list[StepRecord]) -> dict:
    groups = sum(len(record.lengths) for record in records)
    return {
        "group": group,
        "mean_group_size": round(sum(record.group_size for record in records) / len(records), 2),
        "straggler_rate": round(sum(record.straggler_events for record in records) / groups, 3),
        "reward": round(sum(record.reward for record in records) / len(records), 3),
        "wall_s": round(sum(record.step_s for record in records), 1),
        "rollout_s": round(sum(record.rollout_s for record in records), 1),
        "tokens_k": round(sum(record.tokens for record in records) / 1000, 1),
    }
