"""A model folder from somewhere else runs no code when it is loaded: no pickle is opened, no Python file imported."""

import contextlib
import json
import os
import pickle
from pathlib import Path

import pytest

from sagc.config.grid import validate_grid
from sagc.config.run import RunConfig
from sagc.config.sections import EvaluationConfig
from sagc.errors import UserError
from sagc.evaluation.engine import ModelFolder
from sagc.tiny.models import build_model
from sagc.tiny.tokenizer import build_tokenizer
from sagc.vanilla.stack import _load


class Payload:
    """Makes a file when it is unpickled."""

    def __init__(self, proof: Path):
        self.proof = proof

    def __reduce__(self):
        return os.mknod, (str(self.proof),)


@pytest.fixture
def folder(tmp_path):
    """A whole model, which a test then makes hostile; `proof` beside it appears when code of it has run."""
    tokenizer = build_tokenizer()
    build_model("qwen2", tokenizer, seed=0).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def load_for_training(folder: Path, raw_grid, **model) -> None:
    raw = raw_grid("grpo", 4)
    raw["models"] = {"tiny-qwen2": {"type": "pretrained", "path": str(folder), **model}}
    grid = validate_grid(raw)
    run: RunConfig = grid.run(grid.cells()[0])
    _load(run, str(folder))


def load_for_evaluation(folder: Path, raw_grid) -> None:
    from sagc.evaluation.hf import StagedModel

    benchmarks = {"heldout": {"task": "tiny_heldout", "samples": 1}}
    StagedModel(ModelFolder(folder), EvaluationConfig.model_validate({"benchmarks": benchmarks}))


@pytest.mark.parametrize("load", [load_for_training, load_for_evaluation])
def test_a_pickled_model_is_refused_and_not_opened(folder, tmp_path, raw_grid, load):
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Payload(tmp_path / "proof")))
    with pytest.raises(UserError, match="cannot be loaded"):
        load(folder, raw_grid)
    assert not (tmp_path / "proof").exists()


@pytest.mark.parametrize("load", [load_for_training, load_for_evaluation])
@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_a_models_own_code_is_not_run(folder, tmp_path, raw_grid, load, file):
    proof = add_code(folder, file, tmp_path)
    with contextlib.suppress(UserError):  # a tokenizer is then loaded by transformers' own class
        load(folder, raw_grid)
    assert not proof.exists()


def test_a_models_own_code_is_run_where_the_config_trusts_it(folder, tmp_path, raw_grid):
    proof = add_code(folder, "config.json", tmp_path)
    with pytest.raises(Exception, match="has no attribute 'C'"):
        load_for_training(folder, raw_grid, trust_remote_code=True)
    assert proof.exists()


def add_code(folder: Path, file: str, place: Path) -> Path:
    """Have a file of the model ask for a module of its folder, which makes the file that is returned."""
    proof = place / "proof"
    (folder / "code.py").write_text(f"open({str(proof)!r}, 'w')\n")
    content = json.loads((folder / file).read_text())
    kinds = {"AutoConfig": "code.C", "AutoModelForCausalLM": "code.M", "AutoTokenizer": ["code.T", None]}
    (folder / file).write_text(json.dumps({**content, "model_type": "its-own", "auto_map": kinds}))
    return proof
