"""sagc.doctor.needs: what a config needs that a machine lacks, precisely."""

import copy
import importlib.util
import json
from types import SimpleNamespace

import httpx
import pytest
from click.testing import CliRunner
from huggingface_hub import errors

from sagc.cli import main
from sagc.config.grid import validate_grid
from sagc.doctor import needs as readiness
from tests.configs import load_grid

ASK_HUB, IN_CACHE = readiness._on_the_hub.__wrapped__, readiness._cached


@pytest.fixture(autouse=True)
def small_machine(monkeypatch):
    """Two processors, 16 GB, no GPU, an empty cache, no network."""
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setattr(readiness, "memory_gb", lambda: 16.0)
    monkeypatch.setattr(readiness, "gpu_count", lambda: 0)
    monkeypatch.setattr(readiness, "_cached", lambda *arguments: None)
    monkeypatch.setattr(readiness, "_on_the_hub", lambda *arguments: (None, "the Hub does not answer: ConnectError"))


def lacks(grid) -> dict[str, str]:
    return {need.name: need.lack for need in readiness.needs(grid) if need.lack}


def test_the_papers_grid_lacks_precisely_this_here(project):
    found = lacks(load_grid(project / "config" / "paper.yaml"))
    hub = "is not in the local cache"
    expected = {
        "model qwen2.5-3b": f"Qwen/Qwen2.5-3B {hub} (its size is not known; the Hub does not answer: ConnectError)",
        "model llama-3.2-3b": f"meta-llama/Llama-3.2-3B {hub} (its size is not known; the Hub does not answer: "
        "ConnectError)",
        "job train": "needs 8 GPUs, and 0 are here; 8 processors, and 2 are here; 64 GB of memory, and 16 are here",
        "job train_openrlhf": "needs 8 GPUs, and 0 are here; 32 processors, and 2 are here; 400 GB of memory, and 16 "
        "are here",
        "job evaluate": "needs 1 GPUs, and 0 are here; 8 processors, and 2 are here; 64 GB of memory, and 16 are here",
    }
    assert {name: found.pop(name) for name in expected} == expected
    assert found.pop("disk").endswith("what is needed is not known without qwen2.5-3b, llama-3.2-3b")
    assert found.pop("training data open-r1/DAPO-Math-17k-Processed").startswith(
        f"open-r1/DAPO-Math-17k-Processed {hub}"
    )
    benchmarks = {"aime_2023", "aime_2024", "aime_2025", "amc_2023", "gpqa_diamond"}
    assert set(found) == {f"benchmark {name}" for name in benchmarks}
    assert "hf download --repo-type dataset Idavidrein/gpqa --revision 633f5ee8" in found["benchmark gpqa_diamond"]


def test_the_default_grid_lacks_nothing(project):
    assert lacks(load_grid(project / "config" / "config.yaml")) == {}


@pytest.fixture
def local(tmp_path, minimal):
    """A grid on a model, data and a benchmark that are all local."""
    model = tmp_path / "model"
    model.mkdir()
    (model / "model.safetensors").write_bytes(b"0" * 1_000_000)
    (tmp_path / "train.jsonl").write_text("{}\n")
    (tmp_path / "aime_2024.jsonl").write_text("{}\n")
    raw = copy.deepcopy(minimal)
    raw["models"]["tiny"] = {"type": "pretrained", "path": str(model)}
    raw["data"] = {"type": "jsonl", "path": str(tmp_path / "train.jsonl")}
    raw["evaluation"] = {"benchmarks": {"aime": {"task": "aime_2024", "data_dir": str(tmp_path)}}}
    raw["results"] = str(tmp_path / "results" / "deep")
    return raw


def test_local_files_are_enough(local):
    assert lacks(validate_grid(local)) == {}
    lines = [str(need) for need in readiness.needs(validate_grid(local))]
    assert all(line.startswith("ok ") for line in lines)
    assert any("disk: needs about 0 GB of" in line for line in lines)


@pytest.mark.parametrize(
    ("file", "name", "lack"),
    [
        ("model/model.safetensors", "model tiny", "has no .safetensors file"),
        ("train.jsonl", "training data", "no such file"),
        ("aime_2024.jsonl", "benchmark aime", "aime_2024.jsonl does not exist"),
    ],
)
def test_each_missing_file_is_named(local, tmp_path, file, name, lack):
    (tmp_path / file).unlink()
    found = lacks(validate_grid(local))
    assert len(found) == 1
    ((where, what),) = found.items()
    assert where.startswith(name) and what.endswith(lack)


def test_an_unknown_task_is_named(local):
    local["evaluation"]["benchmarks"]["aime"]["task"] = "aime"
    assert lacks(validate_grid(local))["benchmark aime"].startswith("unknown benchmark task 'aime'; tasks in")


def test_a_disk_that_is_too_small_is_named(local, monkeypatch):
    monkeypatch.setattr(readiness.shutil, "disk_usage", lambda folder: SimpleNamespace(free=1e9))
    monkeypatch.setattr(readiness, "_model_gb", lambda run: 2.0)
    # Three runs of 2 GB, and the checkpoints of one of them: 14 x 2 GB.
    assert lacks(validate_grid(local)) == {"disk": "needs about 34 GB, and 1 GB are free"}


def test_packages_are_named(local, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "vllm" else find(name))
    local["evaluation"]["backend"] = "vllm"
    assert lacks(validate_grid(local)) == {"evaluation backend vllm": "vllm not installed"}


def test_what_logging_needs_is_named(local, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "wandb" else find(name))
    local["logging"] = {"tensorboard": True, "wandb": {"project": "p"}}
    assert lacks(validate_grid(local)) == {"logging.wandb": "wandb not installed"}


def test_gpus_of_a_profile_count_too(local):
    local["grid"]["stacks"] = ["openrlhf"]
    local["openrlhf"] = {"profile": "p", "profiles": {"p": {"device": "cuda", "actors": 2, "engines": 1}}}
    assert lacks(validate_grid(local))["job train_openrlhf"] == "needs 3 GPUs, and 0 are here"


def test_doctor_prints_it_and_its_exit_status_says_whether_anything_is_missing(local, tmp_path):
    config = tmp_path / "c.yaml"
    config.write_text(json.dumps(local))  # which is YAML
    done = CliRunner().invoke(main, ["doctor", "--config", str(config)])
    assert done.exit_code == 0, done.output
    assert f"{config}: 3 runs in {local['results']}" in done.stdout and done.stdout.endswith("nothing missing\n")
    (tmp_path / "train.jsonl").unlink()
    done = CliRunner().invoke(main, ["doctor", "--config", str(config)])
    assert done.exit_code == 1
    assert done.stdout.endswith("1 missing\n")
    assert f"missing  training data {tmp_path / 'train.jsonl'}: no such file" in done.stdout


def test_doctor_changes_no_config_that_is_not_named():
    done = CliRunner().invoke(main, ["doctor", "--set", "a=1"])
    assert done.exit_code == 2 and "--set changes a config; name it with --config" in done.output


# The Hub ------------------------------------------------------------------------------------------------------------


LICENCE = "https://huggingface.co/a/b"


def hub_error(kind):
    return kind("no", response=httpx.Response(404, request=httpx.Request("GET", "https://hub")))


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (
            hub_error(errors.GatedRepoError),
            "gated: accept its licence at https://huggingface.co/a/b and `hf auth login`",
        ),
        (hub_error(errors.RepositoryNotFoundError), "no such model on the Hub, or one that needs an account"),
        (hub_error(errors.RevisionNotFoundError), "the Hub has no revision main"),
        (httpx.ConnectTimeout("slow"), "the Hub does not answer: ConnectTimeout"),
        (errors.OfflineModeIsEnabled("offline"), "the Hub does not answer: OfflineModeIsEnabled"),
    ],
)
def test_what_keeps_a_model_from_being_fetched_is_said(monkeypatch, error, problem):
    def refuse(*arguments, **options):
        raise error

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", refuse)
    assert ASK_HUB("a/b", "main") == (None, problem)


def test_the_size_of_a_download_is_that_of_the_weights(monkeypatch, local):
    files = [SimpleNamespace(rfilename=f"model-{n}.safetensors", size=3_100_000_000) for n in (1, 2)]
    files += [SimpleNamespace(rfilename="model.gguf", size=10**12), SimpleNamespace(rfilename="a.json", size=None)]
    monkeypatch.setattr("huggingface_hub.HfApi.model_info", lambda *a, **o: SimpleNamespace(siblings=files))
    monkeypatch.setattr("huggingface_hub.HfApi.auth_check", lambda *a, **o: None)
    assert ASK_HUB("a/b", None) == (6.2, None)
    monkeypatch.setattr(readiness, "_on_the_hub", lambda *arguments: (6.2, None))
    local["models"]["tiny"]["path"] = "a/b"
    assert lacks(validate_grid(local))["model tiny"] == (
        "a/b is not in the local cache (6.2 GB to download; `hf download a/b`)"
    )


def test_a_model_in_the_cache_is_found(monkeypatch, tmp_path, local):
    snapshot = tmp_path / "models--a--b" / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    assert IN_CACHE("c/d", None, "model") is None
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert IN_CACHE("a/b", "0" * 40, "model") == snapshot
    monkeypatch.setattr(readiness, "_cached", lambda *arguments: snapshot)
    local["models"]["tiny"]["path"] = "a/b"
    assert lacks(validate_grid(local))["model tiny"] == "a/b is in the local cache without its weights"
    (snapshot / "model.safetensors").write_bytes(b"0")
    assert lacks(validate_grid(local)) == {}
