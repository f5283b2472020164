"""openrlhf_patch.preflight: what cannot work is one sentence, before any process starts."""

import importlib.util
import socket
from types import SimpleNamespace

import pytest
from tokenizers.processors import TemplateProcessing

from openrlhf_patch import preflight
from sagc.config.grid import validate_grid
from sagc.config.run import RunConfig
from sagc.errors import UserError
from sagc.tiny.models import build_model
from sagc.tiny.tokenizer import build_tokenizer


@pytest.fixture
def resolve(raw_grid):
    """`resolve(device="cuda", actors=4)` -> RunConfig with that profile."""

    def build(**profile) -> RunConfig:
        raw = raw_grid("grpo", 8, stack="openrlhf")
        profile = {"device": "cpu", "attention": "sdpa", **profile}
        raw["openrlhf"] = {"profile": "here", "profiles": {"here": profile}}
        grid = validate_grid(raw)
        return grid.run(grid.cells()[0])

    return build


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    tokenizer = build_tokenizer()
    build_model("qwen2", tokenizer, seed=0).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def refusal(function, *arguments) -> str:
    with pytest.raises(UserError) as caught:
        function(*arguments)
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


def test_a_run_that_can_train_here_passes(resolve):
    preflight.check(resolve())


def test_a_profile_for_gpus_is_refused_without_them(resolve):
    assert refusal(preflight.check, resolve(device="cuda", actors=2, engines=2)) == (
        "the openrlhf profile needs 4 GPUs, and this machine has 0; choose another with openrlhf.profile"
    )


def test_a_profile_for_cpus_is_refused_where_there_are_gpus(resolve, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 8)
    sentence = refusal(preflight.check, resolve())
    assert sentence.startswith("the openrlhf profile has device: cpu, and this machine has 8 GPUs; choose")


def test_too_little_memory_is_refused(resolve, monkeypatch):
    monkeypatch.setattr(preflight.psutil, "virtual_memory", lambda: SimpleNamespace(available=2.1e9))
    sentence = refusal(preflight.check, resolve())
    assert sentence == "the openrlhf stack needs about 5 GB of memory for its engines, and 2.1 GB are free"


def test_weights_that_leave_a_gpu_no_room_are_refused(resolve, tmp_path, monkeypatch):
    (tmp_path / "model.safetensors").write_bytes(b"0" * 8_000_000)
    memory = {0: (60e6, 80e6), 1: (8e6, 80e6)}  # bytes free and in all, at a thousandth of their usual size
    monkeypatch.setattr("torch.cuda.mem_get_info", memory.__getitem__)
    preflight.check_gpu_memory(resolve(device="cuda", colocate=True).openrlhf, tmp_path)
    one = resolve(device="cuda", colocate=True, gpu_memory_utilization=0.1).openrlhf
    assert "GPU 0 has 0 of 0 GB free, of which gpu_memory_utilization allows vLLM 0 GB" in refusal(
        preflight.check_gpu_memory, one, tmp_path
    )
    two = resolve(device="cuda").openrlhf
    assert refusal(preflight.check_gpu_memory, two, tmp_path).startswith("GPU 1 has")
    preflight.check_gpu_memory(
        resolve(device="cuda", engines=1, tensor_parallel=2, actors=1).openrlhf.model_copy(
            update={"ray_address": "auto"}
        ),
        tmp_path,
    )


def test_packages_that_are_not_installed_are_named(resolve, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name in ("vllm", "ray") else find(name, *a)
    )
    assert refusal(preflight.check, resolve()) == (
        "stack 'openrlhf' needs vllm, ray, which is not installed; run make setup"
    )


def test_a_ray_cluster_that_does_not_answer_is_refused(resolve, monkeypatch):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    assert refusal(preflight.check, resolve(ray_address=address)) == (
        f"openrlhf.ray_address is '{address}', and no Ray cluster answers there"
    )
    assert "no Ray cluster answers there" in refusal(preflight.check, resolve(ray_address="somewhere"))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr("ray._private.services.find_gcs_addresses", set)  # whatever else runs on this machine
    assert refusal(preflight.check, resolve(ray_address="auto")).startswith(
        "openrlhf.ray_address is 'auto', and no Ray cluster runs on this machine"
    )


def test_the_longest_prompt_is_measured_in_tokens(resolve, model):
    rows = [{"prompt": "1x +2 = 3:"}, {"prompt": "1x +2 = 3:1x +2 = 3:"}]
    assert preflight.measure_prompts(resolve(), str(model), rows) == preflight.Prompts(tokens=8, chat=False)


def test_a_bos_token_that_the_tokenizer_puts_before_text_is_measured(resolve, model, tmp_path):
    for file in model.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    tokenizer = build_tokenizer()
    tokenizer.bos_token = tokenizer.eos_token
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"{tokenizer.bos_token} $A", special_tokens=[(tokenizer.bos_token, tokenizer.bos_token_id)]
    )
    tokenizer.save_pretrained(tmp_path)
    assert preflight.measure_prompts(resolve(), str(tmp_path), [{"prompt": "1x +2 = 3:"}]).tokens == 5


def test_a_model_that_does_not_exist_is_refused(resolve, tmp_path, monkeypatch):
    sentence = refusal(preflight.local_model, resolve(), str(tmp_path / "none"))
    assert sentence.startswith(f"model {tmp_path}/none cannot be loaded: ")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "model.safetensors").touch()
    assert preflight.local_model(resolve(), str(tmp_path / "empty")) == f"{tmp_path}/empty"
    sentence = refusal(preflight.measure_prompts, resolve(), str(tmp_path / "empty"), [{"prompt": "1"}])
    assert sentence.startswith(f"model {tmp_path}/empty cannot be loaded: ")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert refusal(preflight.local_model, resolve(), "nobody/nothing").startswith("model nobody/nothing cannot be load")


def pretrained(run: RunConfig, **model) -> RunConfig:
    content = run.model_dump(mode="json")
    return RunConfig.model_validate({**content, "model": {"type": "pretrained", "path": "a/b", **model}})


def test_a_model_of_the_hub_is_fetched_at_its_revision(resolve, tmp_path, monkeypatch):
    calls = []
    (tmp_path / "model.safetensors").touch()
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *a, **o: calls.append((a, o)) or tmp_path)
    assert preflight.local_model(pretrained(resolve(), revision="abc"), "a/b") == str(tmp_path)
    ((names, options),) = calls
    assert names == ("a/b",) and options["revision"] == "abc"


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_a_models_own_code_runs_only_where_the_config_trusts_it(resolve, tmp_path, file):
    (tmp_path / "model.safetensors").touch()
    (tmp_path / file).write_text('{"auto_map": {"AutoConfig": "code.Config"}}')
    sentence = refusal(preflight.local_model, pretrained(resolve()), str(tmp_path))
    assert sentence == (
        f"model {tmp_path} has code of its own, which OpenRLHF would run; allow it with trust_remote_code"
    )
    assert preflight.local_model(pretrained(resolve(), trust_remote_code=True), str(tmp_path)) == str(tmp_path)


def test_a_pickled_model_is_refused(resolve, tmp_path):
    (tmp_path / "pytorch_model.bin").touch()
    sentence = refusal(preflight.local_model, resolve(), str(tmp_path))
    assert sentence == (f"model {tmp_path} has no .safetensors file; other formats can run code when they are loaded")


def test_a_tokenizer_without_an_end_token_is_refused(resolve, model, tmp_path):
    for file in model.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    tokenizer = build_tokenizer()
    tokenizer.eos_token = None
    tokenizer.save_pretrained(tmp_path)
    sentence = refusal(preflight.measure_prompts, resolve(), str(tmp_path), [{"prompt": "1x +2 = 3:"}])
    assert sentence == f"model {tmp_path} has a tokenizer without an end token, so no response would ever end"


def test_prompts_that_need_a_chat_template_are_refused_without_one(resolve, model):
    messages = [{"role": "user", "content": "1x +2 = 3:"}]
    measure = preflight.measure_prompts
    assert "has no chat template" in refusal(measure, resolve(), str(model), [{"prompt": messages}])
    mixed = [{"prompt": messages}, {"prompt": "1x +2 = 3:"}]
    assert refusal(measure, resolve(), str(model), mixed).startswith("the training data mixes prompts")
