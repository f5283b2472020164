"""Fixtures that several test modules share."""

import copy
import os
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import yaml

from tests.marks import Mark

# On a busy machine examples can take long, and no test here is one of speed.
hypothesis.settings.register_profile("untimed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("untimed")
# Before any library reads it: no test may ask the Hub, and a run that does is a bug.
os.environ["HF_HUB_OFFLINE"] = "1"

PROJECT = Path(__file__).resolve().parents[1]
MINIMAL: dict[str, Any] = {
    "grid": {
        "models": ["tiny"],
        "algorithms": ["grpo"],
        "stacks": ["vanilla"],
        "groups": [4, "sagc", "sagc-robust"],
        "seeds": [0],
    },
    "models": {"tiny": {"type": "tiny", "architecture": "qwen2"}},
    "algorithms": {"grpo": {"loss": "grpo"}},
}


@pytest.fixture
def project() -> Path:
    """The project's folder."""
    return PROJECT


# Of the environment of a run; never to be found in a file.
SECRETS = {"HF_TOKEN": "hf_a1b2c3secret", "WANDB_API_KEY": "0123secret4567", "AWS_SECRET_ACCESS_KEY": "aws89secret"}


def files_with_secrets(folder: Path) -> list[Path]:
    """Files below a folder that hold one of SECRETS."""
    wanted = [value.encode() for value in SECRETS.values()]
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    return [path for path in files if any(value in path.read_bytes() for value in wanted)]


@pytest.fixture
def mark(monkeypatch) -> Mark:
    """A mark that everything has which this test starts, but what is shared with other tests."""
    mark = Mark()
    for name, value in mark.environment.items():
        monkeypatch.setenv(name, value)
    return mark


@pytest.fixture
def minimal() -> dict[str, Any]:
    """A small valid config as a dictionary that the test may change."""
    return copy.deepcopy(MINIMAL)


@pytest.fixture
def config_file(tmp_path, minimal):
    """Writes a config into the test's folder: `config_file({"training": {"steps": 3}})` -> its path."""

    def write(changes: dict[str, Any] | None = None) -> Path:
        path = tmp_path / "config.yaml"
        content = {"results": str(tmp_path / "results"), **minimal, **(changes or {})}
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        return path

    return write


@pytest.fixture
def read_events():
    """Reads TensorBoard's event files as TensorBoard does: `read_events(folder)` -> step -> name -> [values]."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    def read(folder: Path) -> dict[int, dict[str, list[float]]]:
        events = EventAccumulator(str(folder)).Reload()
        steps: dict[int, dict[str, list[float]]] = {}
        for name in events.Tags()["scalars"]:
            for event in events.Scalars(name):
                steps.setdefault(event.step, {}).setdefault(name, []).append(event.value)
        return steps

    return read


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


@pytest.fixture
def small_study(tmp_path, project):
    """The study's own config with two workloads and few steps."""
    raw = yaml.safe_load((project / "config" / "study.yaml").read_text(encoding="utf-8"))
    points = [{"response_spread": 0.8}, {"step": 49}, {"step": 50, "response_spread": 0.4}]
    lengths = {"type": "lognormal", "points": points}
    still = {"delta": 0.5, "lengths": {"type": "lognormal"}}
    raw |= {"results": str(tmp_path / "study"), "steps": 90, "prompts": 4, "seeds": 2}
    raw["arms"] = [8, "sagc", "sagc-robust"]
    raw["workloads"] = {"stationary": still, "change": {"delta": 0.4, "change": 50, "lengths": lengths}}
    raw["sensitivity"] = {"seeds": 1, "workloads": ["stationary", "change"], "parameters": {"eta": [0.5, 1.0]}}
    raw["variants"] = {
        "seeds": 1,
        "prompts": [4],
        "parameters": {"as it is": {}, "finer": {"ladder": [4, 5, 6, 8, 16]}},
    }
    raw["savings"] |= {"steps": 4, "static": [4, 16], "prompts_per_engine": [1, 4], "kv_tokens": [None, 10_000]}
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(raw, sort_keys=False), encoding="utf-8")
    return path
