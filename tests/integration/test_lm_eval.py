"""lm-eval on small random models: what is written, that it can be repeated, and that prompts are those of training."""

import itertools
import json
import logging
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from sagc.config.sections import EvaluationConfig
from sagc.errors import UserError
from sagc.evaluation.engine import ModelFolder
from sagc.evaluation.hf import StagedModel
from sagc.evaluation.job import evaluate
from sagc.evaluation.metrics import benchmark_metrics
from sagc.rewards.registry import reward_function
from sagc.run.folder import RunFolder
from sagc.tiny.data import write_datasets
from sagc.tiny.models import ARCHITECTURES, build_model
from sagc.tiny.task import all_problems, expert_trace
from sagc.tiny.tokenizer import build_tokenizer

HELDOUT = {"heldout": {"task": "tiny_heldout", "samples": 3}}
HARDER = {"harder": {"task": "tiny_harder", "samples": 2}}
LIMIT = 80  # tokens: three stages


def evaluation(benchmarks, **changes):
    return EvaluationConfig(benchmarks=benchmarks, **{"max_response_tokens": LIMIT, "batch_size": 16} | changes)


def make_run(folder: Path, architecture: str) -> Path:
    tokenizer = build_tokenizer()
    model = build_model(architecture, tokenizer, seed=1)
    model.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    (folder / "config.json").write_text('{"run": {"model": {"type": "tiny"}}, "hash": "0123456789abcdef"}')
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    return make_run(tmp_path_factory.mktemp("run"), "llama")


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """A handful of problems per benchmark."""
    folder = tmp_path_factory.mktemp("data")
    write_datasets(folder, seed=0)
    for split, problems in (("heldout", 12), ("harder", 5)):
        lines = (folder / f"{split}.jsonl").read_text().splitlines(keepends=True)
        (folder / f"{split}.jsonl").write_text("".join(lines[:problems]))
    return folder


def visible(folder):
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def read_samples(run, benchmark):
    return [json.loads(line) for line in (run / "eval" / benchmark / "samples.jsonl").read_text().splitlines()]


def test_what_is_written(run, data, capfd):
    environment, level = dict(os.environ), logging.getLogger("lm_eval").level
    torch.manual_seed(5)
    random_state = torch.get_rng_state()
    content = evaluate(run, evaluation(HELDOUT | HARDER), data)
    assert os.environ == environment
    assert logging.getLogger("lm_eval").level == level
    assert torch.equal(torch.get_rng_state(), random_state)
    assert capfd.readouterr() == ("", "")

    written = json.loads((run / "eval" / "evaluation.json").read_text())
    assert written == content
    assert written["run_hash"] == "0123456789abcdef"
    assert written["lm_eval"] == "0.4.13"
    assert written["evaluation"]["max_response_tokens"] == LIMIT
    assert set(written["seconds"]) == {"imports", "model", "generation"}
    assert visible(run) == ["config.json", "eval", "model"]
    for name, problems, k in (("heldout", 12, 3), ("harder", 5, 2)):
        samples = read_samples(run, name)
        assert benchmark_metrics(samples) | {"left_out": 0} == written["benchmarks"][name]
        assert json.loads((run / "eval" / name / "metrics.json").read_text()) == written["benchmarks"][name]
        assert [len(sample["responses"]) for sample in samples] == [k] * problems
        on_disk = [json.loads(line) for line in (data / f"{name}.jsonl").read_text().splitlines()]
        assert [sample["id"] for sample in samples] == [problem["id"] for problem in on_disk]


def test_lengths_are_those_of_the_text(run, data):
    """As far as text can tell them: lm-eval's text lacks the special tokens that a random model likes to write."""
    evaluate(run, evaluation(HELDOUT), data)
    tokenizer = AutoTokenizer.from_pretrained(run / "model")
    lengths, ended = [], 0
    for sample in read_samples(run, "heldout"):
        for text, tokens, cut_off in zip(sample["responses"], sample["output_tokens"], sample["cut_off"], strict=True):
            seen = len(tokenizer.encode(text)) + (not cut_off)
            assert seen <= tokens <= LIMIT
            assert tokens == LIMIT or not cut_off
            lengths.append((seen, tokens))
            ended += not cut_off
        assert sample["rewards"] == reward_function("tiny")(
            [sample["problem"]] * 3, sample["responses"], answer=[sample["answer"]] * 3
        )
    assert sum(seen == tokens for seen, tokens in lengths) > 5
    assert 0 < ended < len(lengths)


def keep(run: Path, name: str, model: Path) -> None:
    shutil.copytree(model, RunFolder(run).kept("0123456789abcdef") / name)


def test_models_kept_on_the_way_are_asked_the_same(data, tmp_path):
    run, other = make_run(tmp_path / "run", "llama"), make_run(tmp_path / "other", "qwen2")
    keep(run, "20", run / "model")
    keep(run, "10", other / "model")
    keep(run, "half-written", other / "model")
    content, alone = (evaluate(folder, evaluation(HELDOUT | HARDER), data) for folder in (run, other))
    assert list(content["kept"]) == ["10", "20"] and alone["kept"] == {}
    for name in ("heldout", "harder"):
        assert content["kept"]["20"][name] | {"left_out": 0} == content["benchmarks"][name]
        assert content["kept"]["10"][name] | {"left_out": 0} == alone["benchmarks"][name]
    assert json.loads((run / "eval" / "evaluation.json").read_text())["kept"] == content["kept"]


def test_it_can_be_repeated(run, data):
    evaluate(run, evaluation(HELDOUT | HARDER), data)
    first = read_samples(run, "harder")
    torch.manual_seed(7)  # the caller's random numbers do not matter
    evaluate(run, evaluation(HARDER), data)  # and neither does a benchmark beside it
    assert read_samples(run, "harder") == first
    evaluate(run, evaluation(HARDER, seed=1), data)
    assert read_samples(run, "harder") != first
    assert not (run / "eval" / "heldout").exists()


def test_stages_change_nothing(run, data, monkeypatch):
    """Greedy responses in stages of any length are those of one go."""
    greedy = evaluation(HELDOUT, temperature=0)
    evaluate(run, greedy, data)
    staged = read_samples(run, "heldout")
    monkeypatch.setattr("sagc.evaluation.hf.FIRST_STAGE", LIMIT)
    evaluate(run, greedy, data)
    assert read_samples(run, "heldout") == staged
    assert all(len(set(sample["responses"])) == 1 for sample in staged)
    assert len({sample["responses"][0] for sample in staged}) > 1


def test_prompts_of_different_lengths_do_not_disturb_each_other(run, tmp_path):
    """Greedy responses to prompts that are padded to one length are those to each prompt alone."""
    problem = next(all_problems())
    traces = [expert_trace(problem, random.Random(seed), false_claim=0, missed_hit=0) for seed in range(4)]
    prompts = [problem.prompt, *(problem.prompt + trace.removesuffix("!") for trace in traces)]
    settings = {"until": [], "temperature": 0, "max_gen_toks": LIMIT}
    requests = [SimpleNamespace(args=(prompt, settings), task_name="some") for prompt in prompts]

    def generate(batch_size):
        model = StagedModel(ModelFolder(run / "model"), evaluation({}, batch_size=batch_size, temperature=0))
        model.journal_at = tmp_path / f"{batch_size}.jsonl"
        return model.generate_until(requests)

    together = generate(len(prompts))
    assert together == generate(1)
    assert len({len(prompt.split()) for prompt in prompts}) > 2
    assert len(set(together)) > 2


def test_a_failed_evaluation_leaves_the_last_one(run, data, tmp_path):
    evaluate(run, evaluation(HARDER), data)
    before = (run / "eval" / "evaluation.json").read_text()
    with pytest.raises(UserError, match=r"heldout\.jsonl cannot be read"):
        evaluate(run, evaluation(HARDER | HELDOUT), tmp_path_with(data / "harder.jsonl", tmp_path))
    assert (run / "eval" / "evaluation.json").read_text() == before
    assert visible(run) == ["config.json", "eval", "model"]


def tmp_path_with(file, folder):
    (folder / file.name).write_text(file.read_text())
    return folder


def test_a_broken_model_is_refused(run, data, tmp_path):
    broken = make_run(tmp_path / "broken", "llama")
    (broken / "model" / "config.json").unlink()
    with pytest.raises(UserError, match="model cannot be loaded as a model: "):
        evaluate(broken, evaluation(HARDER), data)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_prompts_are_those_of_training(architecture, tmp_path):
    """The ids that lm-eval feeds the model are the ids that the warm start was trained on, in either direction."""
    folder = make_run(tmp_path / "run", architecture)
    model, tokenizer = StagedModel(ModelFolder(folder / "model"), evaluation({})).wrapped, build_tokenizer()
    for problem in itertools.islice(all_problems(), 0, None, 97):
        ids = tokenizer(problem.prompt)["input_ids"]
        assert model.tok_encode(problem.prompt) == ids
        assert model.tok_decode(ids) == problem.prompt
        assert tokenizer.unk_token_id not in ids


# Benchmarks in the formats of the paper's, with problems written for these tests ------------------------------------

MATH = [
    {"id": "a", "problem": "What is 2 + 3?", "answer": "005"},
    {"id": 2, "problem": "What is half of 1?", "answer": 0.5},
    {"id": "c", "problem": "Which number is no number?", "answer": "?!"},
]
CHOICE = [
    {"id": f"q{n}", "problem": f"Which is {n}?", "answer": str(n), "distractors": [str(n + 1), str(n + 2), str(n + 3)]}
    for n in range(5)
]


@pytest.fixture
def own(tmp_path):
    """A folder of a user's own problems, two lines of which are none."""
    folder = tmp_path / "own"
    folder.mkdir()
    lines = [*map(json.dumps, MATH), "{half a line", json.dumps(MATH[0])]
    (folder / "aime_2024.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "gpqa_diamond.jsonl").write_text("".join(json.dumps(row) + "\n" for row in CHOICE))
    return folder


@pytest.fixture(scope="module")
def talker(tmp_path_factory) -> Path:
    """A run whose tokenizer knows every byte and has a chat template."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE({character: n for n, character in enumerate(alphabet)}, []))
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<eos>", pad_token="<pad>")
    tokenizer.chat_template = "{% for m in messages %}<{{m.role}}>{{m.content}}{% endfor %}<assistant>"
    folder = tmp_path_factory.mktemp("talker")
    build_model("qwen2", tokenizer, seed=1).save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    (folder / "config.json").write_text('{"run": {"model": {"type": "tiny"}}, "hash": "0123456789abcdef"}')
    return folder


@pytest.fixture
def say(monkeypatch):
    """Let the model say what `respond(prompt, number of the response)` returns; collects the prompts that it got."""
    seen = []

    def install(respond):
        def sample(self, prompts, done):
            for number, ids in enumerate(prompts):
                seen.append(self.wrapped.tok_decode(ids))
                yield number, self.wrapped.tok_encode(respond(seen[-1], number)), False

        monkeypatch.setattr("sagc.evaluation.hf.StagedModel.sample", sample)
        return seen

    return install


def from_folder(folder, **samples):
    return {name: {"task": name, "samples": k, "data_dir": str(folder)} for name, k in samples.items()}


def test_own_problems_in_the_papers_formats(talker, own, say, caplog):
    """Two wrong lines, an unreadable answer, letters in a shuffled order: counted and reported; the rest is right."""
    answers = iter([r"so $\boxed{5}$", "6", r"\boxed{\frac{1}{2}}", "", "3", "I do not know"])

    def respond(prompt, number):
        if "boxed" in prompt:
            return next(answers)
        right = re.search(r"Which is (\d)", prompt)[1]
        letter = re.search(rf"([A-D])\) {right}$", prompt, re.MULTILINE)[1]
        return f"I think so.\nAnswer: {letter}" if right != "4" else "Answer: E"

    prompts = say(respond)
    content = evaluate(talker, evaluation(from_folder(own, aime_2024=2, gpqa_diamond=1), max_response_tokens=100), own)
    assert prompts[0] == ("What is 2 + 3?\n\nPlease reason step by step, and put your final answer within \\boxed{}.")
    assert "format: 'Answer: $LETTER' (without quotes) where LETTER is one of ABCD." in prompts[-1]
    math, choice = content["benchmarks"]["aime_2024"], content["benchmarks"]["gpqa_diamond"]
    assert (math["accuracy"], math["problems"], math["unchecked"], math["left_out"]) == (2 / 6, 3, 2, 2)
    assert math["no_answer_rate"] == 2 / 6
    assert [sentence.partition("aime_2024.jsonl, ")[2] for sentence in content["left_out"]["aime_2024"]] == [
        "line 4: not a JSON object",
        "line 5: the id 'a' occurs before",
    ]
    assert "line 4: not a JSON object" in caplog.text
    assert (choice["accuracy"], choice["no_answer_rate"], choice["left_out"]) == (0.8, 0.2, 0)
    assert len({sample["answer"] for sample in read_samples(talker, "gpqa_diamond")}) > 1


def test_a_model_that_chats_is_asked_through_its_template(talker, own, say):
    run = json.loads((talker / "config.json").read_text())
    (talker / "config.json").write_text(json.dumps({**run, "run": {"model": {"type": "pretrained", "chat": True}}}))
    try:
        prompts = say(lambda prompt, number: "5")
        evaluate(talker, evaluation(from_folder(own, aime_2024=1), max_response_tokens=100), own)
    finally:
        (talker / "config.json").write_text(json.dumps(run))
    assert prompts[0].startswith("<user>What is 2 + 3?\n\nPlease") and prompts[0].endswith("{}.<assistant>")


def test_a_chat_without_a_template_is_refused(run, data):
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps({**config, "run": {"model": {"type": "pretrained", "chat": True}}}))
    try:
        with pytest.raises(UserError, match=r"chat: true, and .* has no chat template"):
            evaluate(run, evaluation(HARDER), data)
    finally:
        (run / "config.json").write_text(json.dumps(config))


def test_an_interrupted_evaluation_gives_what_an_unbroken_one_gives(run, data, monkeypatch):
    """Killed in the second benchmark: the first one's responses are there, and none is generated twice."""
    monkeypatch.setattr("sagc.evaluation.hf.BATCHES_PER_PART", 1)
    evaluate(run, evaluation(HARDER | HELDOUT), data)
    unbroken = {name: read_samples(run, name) for name in ("harder", "heldout")}
    sample_part, parts = StagedModel._sample_part, []

    def killed(self, prompts, seed):
        parts.append(len(prompts))
        if len(parts) == 3:
            raise KeyboardInterrupt
        return sample_part(self, prompts, seed)

    monkeypatch.setattr(StagedModel, "_sample_part", killed)
    with pytest.raises(KeyboardInterrupt):
        evaluate(run, evaluation(HARDER | HELDOUT), data)
    assert sorted(path.name for path in (run / "eval.partial").iterdir()) == ["harder.jsonl", "heldout.jsonl"]
    evaluate(run, evaluation(HARDER | HELDOUT), data)
    assert {name: read_samples(run, name) for name in unbroken} == unbroken
    assert parts == [10, 16, 16, 16, 4]
    assert visible(run) == ["config.json", "eval", "model"]


def test_a_run_that_is_in_use_is_not_evaluated(run, data):
    with RunFolder(run).lock(), pytest.raises(UserError, match="is in use by process"):
        evaluate(run, evaluation(HARDER), data)


# In a process of its own, for vLLM leaves threads behind; with a number, interrupted after so many responses.
VLLM = """
import sys
from pathlib import Path
from sagc.evaluation.job import evaluate
from sagc.evaluation.journal import Journal
from sagc.config.sections import EvaluationConfig

def add(self, number, response, add=Journal.add):
    left.pop()
    add(self, number, response)

if len(sys.argv) > 4:
    left = [None] * int(sys.argv[4])
    Journal.add = add
evaluate(Path(sys.argv[1]), EvaluationConfig.model_validate_json(sys.argv[2]), Path(sys.argv[3]))
"""


def run_vllm(folder, settings, data, *after):
    settings = settings.model_copy(update={"backend": "vllm"}).model_dump_json()
    return subprocess.run([sys.executable, "-c", VLLM, folder, settings, data, *after], capture_output=True, text=True)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_vllm_says_what_transformers_say(architecture, data, tmp_path):
    """Greedy responses of both backends are the same, token by token, but where rounding decides between two tokens."""
    folder = make_run(tmp_path / "run [a]*?", architecture)
    keep(folder, "10", folder / "model")
    greedy = evaluation(HELDOUT | HARDER, temperature=0)
    evaluate(folder, greedy, data)
    expected = said(folder)
    done = run_vllm(folder, greedy, data)
    assert done.returncode == 0, done.stderr[-3000:]
    same = [ours == theirs for ours, theirs in zip(expected, said(folder), strict=True)]
    assert sum(same) >= 0.95 * len(same)
    content = json.loads((folder / "eval" / "evaluation.json").read_text())
    for name, metrics in content["kept"]["10"].items():
        assert metrics | {"left_out": 0} == content["benchmarks"][name]


def said(folder):
    """Text, tokens and whether it was cut off, of every response."""
    keys = ("responses", "output_tokens", "cut_off")
    rows = [row for name in ("heldout", "harder") for row in read_samples(folder, name)]
    return [response for row in rows for response in zip(*(row[key] for key in keys), strict=True)]


def test_vllm_goes_on_after_an_interruption_with_the_same_responses(data, tmp_path):
    folder, sampled = make_run(tmp_path / "run", "qwen2"), evaluation(HELDOUT | HARDER)
    assert run_vllm(folder, sampled, data).returncode == 0
    unbroken = said(folder)
    interrupted = run_vllm(folder, sampled, data, "40")  # four responses into the second benchmark
    assert "IndexError: pop from empty list" in interrupted.stderr
    assert len((folder / "eval.partial" / "harder.jsonl").read_text().splitlines()) == 1 + 4
    assert run_vllm(folder, sampled, data).returncode == 0
    assert said(folder) == unbroken
    assert len(set(unbroken)) > 40
