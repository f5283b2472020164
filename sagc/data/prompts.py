"""Training prompts: JSON lines, one prompt each, with the columns that the reward reads; and where they are."""

from pathlib import Path
from typing import Any

from sagc.config.grid import GridConfig
from sagc.errors import UserError
from sagc.system.jsonl import read_rows


def embedded_folder(grid: GridConfig) -> Path:
    """Where the problems of the embedded task are: the evaluation has them whatever the training data."""
    return Path(grid.results) / "data" / "tiny"


def prompts_path(grid: GridConfig, model: str) -> Path:
    """The training prompts of a model, by its name in the grid: the embedded task's, or made by
    sagc/data/preparation.py.

    Those are a file per model, because only some models have their prompts as chat messages.
    """
    if grid.data.type == "tiny":
        return embedded_folder(grid) / "train.jsonl"
    return Path(grid.results) / "data" / "train" / f"{model}.jsonl"


def read_prompts(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSON lines file; `prompt` is text, or a list of chat messages.

    Raises UserError as `read_rows` does, and for a line without a prompt.
    """
    rows = []
    for place, _, row in read_rows(path, "training prompts"):
        if not isinstance(row.get("prompt"), str | list):
            raise UserError(f"{place}: needs a prompt, as text or as a list of messages")
        rows.append(row)
    return rows


def prompt_text(prompt: str | list[dict[str, Any]]) -> str:
    """What a prompt says, without the roles of its messages."""
    return prompt if isinstance(prompt, str) else "\n".join(str(message["content"]) for message in prompt)
