"""Training prompts: where they are, and how to read them: JSON lines with a prompt and the reward's columns."""

from pathlib import Path
from typing import Any

from sagc.config.grid import GridConfig
from sagc.errors import UserError
from sagc.system.jsonl import read_rows


def embedded_folder(grid: GridConfig) -> Path:
    """The folder of the embedded task's problems, which the evaluation can use whatever the training data."""
    return Path(grid.results) / "data" / "tiny"


def prompts_path(grid: GridConfig, model: str) -> Path:
    """The training prompts of a model, by its name in the grid.

    They are the embedded task's, or made by sagc/data/preparation.py: one file per model, because only some models take
    chat messages.
    """
    if grid.data.type == "tiny":
        return embedded_folder(grid) / "train.jsonl"
    return Path(grid.results) / "data" / "train" / f"{model}.jsonl"


def read_prompts(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSON lines file; `prompt` is text or a list of chat messages.

    Raises
    ------
    UserError
        If `read_rows` refuses the file, or a line has no prompt.
    """
    rows = []
    for place, _, row in read_rows(path, "training prompts"):
        if not isinstance(row.get("prompt"), str | list):
            raise UserError(f"{place}: needs a prompt, as text or as a list of messages")
        rows.append(row)
    return rows


def prompt_text(prompt: str | list[dict[str, Any]]) -> str:
    """The text of a prompt, without the roles of its messages."""
    return prompt if isinstance(prompt, str) else "\n".join(str(message["content"]) for message in prompt)
