"""A small grid as a dictionary, for what the unit tests change in it."""

import pytest


@pytest.fixture
def raw_grid():
    """`raw_grid("dapo", "sagc", stack="openrlhf", steps=3)` -> the config of a grid of one run, as YAML gives it."""

    def build(algorithm: str = "grpo", group: int | str = 8, stack: str = "vanilla", **training) -> dict:
        return {
            "grid": {
                "models": ["tiny-qwen2"],
                "algorithms": [algorithm],
                "stacks": [stack],
                "groups": [group],
                "seeds": [0],
            },
            "models": {"tiny-qwen2": {"type": "tiny", "architecture": "qwen2"}},
            "algorithms": {
                "grpo": {"loss": "grpo"},
                "dapo": {"loss": "dapo", "clip_high": 0.28, "dynamic_sampling": {"max_rounds": 3}, "overlong": {}},
            },
            "training": {"steps": 3, "prompts_per_step": 4, "max_response_tokens": 60, "micro_batches": 2, **training},
        }

    return build
