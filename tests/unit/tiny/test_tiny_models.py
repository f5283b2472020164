"""The embedded models, their tokenizer and their warm start."""

import json
import subprocess
import sys

import pytest
import torch
from tokenizers.decoders import DecodeStream
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM, Qwen2ForCausalLM

from sagc.errors import UserError
from sagc.tiny.models import ARCHITECTURES, build_model
from sagc.tiny.task import all_problems
from sagc.tiny.tokenizer import SPECIAL_TOKENS, build_tokenizer, words
from sagc.tiny.warm_start import IGNORED, WarmStartSettings, batches, warm_start

QUICK = WarmStartSettings(steps=3, pool_size=64, response_limit=20, measured_problems=2)
PROMPT = "3x +12 = 39:"
PROMPT_WORDS = ["3x", " +12", " = 39", ":"]
RESPONSE = "4 12 24<;9 27 39=!<eos>"
RESPONSE_WORDS = ["4", " 12", " 24", "<", ";", "9", " 27", " 39", "=", "!", "<eos>"]


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """As the warm start runs: at this size more threads only wait for one another."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module", params=sorted(ARCHITECTURES))
def folder(request, tmp_path_factory):
    """A saved model folder of each architecture: AutoTokenizer chooses its class by the model's type."""
    path = tmp_path_factory.mktemp("models") / request.param
    warm_start(request.param, path, 0, QUICK)
    return path


@pytest.fixture(params=[None, True, False])
def loaded(folder, request):
    """The tokenizer as TRL, lm-eval and vLLM (no remote code) and OpenRLHF (trusting it) load it."""
    return AutoTokenizer.from_pretrained(folder, trust_remote_code=request.param)


def test_prompt_ids_are_those_of_the_warm_start_whatever_the_flags(loaded):
    expected = loaded.convert_tokens_to_ids(PROMPT_WORDS)
    assert loaded.unk_token_id not in expected
    assert build_tokenizer()(PROMPT)["input_ids"] == expected
    assert loaded(PROMPT)["input_ids"] == expected  # vLLM's and lm-eval's default
    assert loaded(text=[PROMPT])["input_ids"] == [expected]  # TRL
    assert loaded(PROMPT, add_special_tokens=False)["input_ids"] == expected  # OpenRLHF
    assert loaded.encode(PROMPT, add_special_tokens=True) == expected
    assert set(loaded(PROMPT)) == {"input_ids", "attention_mask"}


def test_warm_start_trains_on_the_response_after_the_prompt_s_own_ids():
    tokenizer = build_tokenizer()
    batch = next(batches(tokenizer, WarmStartSettings(), seed=0))
    prompts = {tuple(tokenizer(problem.prompt)["input_ids"]) for problem in all_problems()}
    for input_ids, labels in zip(batch["input_ids"].tolist(), batch["labels"].tolist(), strict=True):
        assert tuple(input_ids[: len(PROMPT_WORDS)]) in prompts
        assert labels[: len(PROMPT_WORDS)] == [IGNORED] * len(PROMPT_WORDS)
        response = [label for label in labels if label != IGNORED]
        assert response == input_ids[len(PROMPT_WORDS) : len(PROMPT_WORDS) + len(response)]
        assert response[-1] == tokenizer.eos_token_id


def test_text_and_ids_round_trip(loaded):
    ids = loaded(RESPONSE)["input_ids"]
    assert loaded.convert_ids_to_tokens(ids) == RESPONSE_WORDS
    assert loaded.decode(ids) == RESPONSE
    assert loaded.decode(ids, skip_special_tokens=True) == RESPONSE.removesuffix("<eos>")
    assert loaded(PROMPT + RESPONSE)["input_ids"] == loaded(PROMPT)["input_ids"] + ids
    for problem in all_problems():
        ids = loaded(problem.prompt)["input_ids"]
        assert len(ids) == len(PROMPT_WORDS)
        assert loaded.decode(ids) == problem.prompt


def test_token_by_token_decoding_gives_the_same_text(loaded):
    """vLLM decodes a response as it grows."""
    stream = DecodeStream(skip_special_tokens=True)
    pieces = [stream.step(loaded.backend_tokenizer, token) for token in loaded(RESPONSE)["input_ids"]]
    assert "".join(piece or "" for piece in pieces) == RESPONSE.removesuffix("<eos>")


def test_special_tokens_and_padding(loaded):
    special = (loaded.pad_token, loaded.bos_token, loaded.eos_token, loaded.unk_token)
    assert special == SPECIAL_TOKENS
    assert len(set(special)) == 4
    assert loaded.padding_side == "left"
    padded = loaded([PROMPT, "3x"], padding=True)["input_ids"]
    assert padded[1][: len(PROMPT_WORDS) - 1] == [loaded.pad_token_id] * (len(PROMPT_WORDS) - 1)
    assert loaded.chat_template is None


def test_vocabulary_is_one_id_per_word():
    tokenizer = build_tokenizer()
    assert len(set(words())) == len(words())
    assert tokenizer.get_vocab() == {word: index for index, word in enumerate([*SPECIAL_TOKENS, *words()])}


@pytest.mark.parametrize(("architecture", "model_class"), [("qwen2", Qwen2ForCausalLM), ("llama", LlamaForCausalLM)])
def test_models_are_plain_and_small(architecture, model_class):
    model = build_model(architecture, build_tokenizer(), seed=0)
    assert type(model) is model_class
    assert 200_000 < model.num_parameters() < 260_000
    assert model.dtype == torch.float32
    assert model.get_input_embeddings().weight is model.get_output_embeddings().weight


def test_seed_alone_decides_the_weights():
    tokenizer = build_tokenizer()
    state = torch.get_rng_state()
    first, again, other = (build_model("qwen2", tokenizer, seed).state_dict() for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["model.embed_tokens.weight"], other["model.embed_tokens.weight"])


def test_unknown_architecture_names_what_is_allowed():
    with pytest.raises(ValueError, match="architecture is 'gpt2'; allowed: qwen2, llama"):
        build_model("gpt2", build_tokenizer(), seed=0)


def test_saved_folder_loads_and_samples_the_full_distribution(folder):
    assert (folder / "model.safetensors").exists()
    assert not list(folder.glob("*.py"))
    model = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert model.config.vocab_size == len(tokenizer)
    defaults = model.generation_config
    assert (defaults.do_sample, defaults.temperature, defaults.top_k, defaults.top_p) == (True, 1.0, 0, 1.0)
    for config in (defaults, model.config):
        assert config.eos_token_id == tokenizer.eos_token_id
        assert config.pad_token_id == tokenizer.pad_token_id
    output = model.generate(**tokenizer([PROMPT] * 2, return_tensors="pt"), max_new_tokens=4)
    assert output.shape[0] == 2


def test_warm_start_says_what_it_did(folder):
    record = json.loads((folder / "warm_start.json").read_text())
    assert (record["architecture"], record["seed"]) == (folder.name, 0)
    assert record["settings"]["steps"] == QUICK.steps
    metrics = record["metrics"]
    for split in ("heldout", "harder"):
        assert 0 <= metrics[f"solved_{split}"] <= 1
        assert set(metrics[f"straggler_rate_{split}"]) == {"4", "8", "16"}


def test_warm_start_is_reproducible_bit_for_bit_and_replaces_its_folder(folder, tmp_path):
    again = tmp_path / folder.name
    again.mkdir()
    for name in ("stale", "warm_start.json"):
        (again / name).touch()
    torch.manual_seed(1)  # whatever the caller's random state is
    warm_start(folder.name, again, 0, QUICK)
    assert (again / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()
    assert not (again / "stale").exists()
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]


def test_warm_start_does_not_replace_a_folder_of_other_files(tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(UserError, match="holds other files; allowed: a new folder or a warm start's"):
        warm_start("qwen2", tmp_path, 0, QUICK)
    assert (tmp_path / "thesis.tex").exists()


def test_a_failed_warm_start_leaves_no_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(Qwen2ForCausalLM, "save_pretrained", lambda self, path: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        warm_start("qwen2", tmp_path / "model", 0, QUICK)
    assert not (tmp_path / "model").exists()


def test_importing_sagc_imports_no_heavy_library():
    code = "import sys, sagc, sagc.rewards.registry; sys.exit(bool({'torch', 'transformers'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
