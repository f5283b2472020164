"""lm-eval on small random models: what is written, that it can be repeated, and that prompts are those of training."""

import itertools
import json
import logging
import os
import random
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from transformers import AutoTokenizer

from sagc.errors import UserError
from sagc.evaluate import StagedModel, benchmark_metrics, evaluate
from sagc.rewards import reward_function
from sagc.sections import EvaluationConfig
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
    assert sorted(path.name for path in run.iterdir()) == ["config.json", "eval", "model"]
    for name, problems, k in (("heldout", 12, 3), ("harder", 5, 2)):
        samples = read_samples(run, name)
        assert benchmark_metrics(samples) == written["benchmarks"][name]
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
            [sample["prompt"]] * 3, sample["responses"], answer=[sample["answer"]] * 3
        )
    assert sum(seen == tokens for seen, tokens in lengths) > 5
    assert 0 < ended < len(lengths)


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
    monkeypatch.setattr("sagc.evaluate.FIRST_STAGE", LIMIT)
    evaluate(run, greedy, data)
    assert read_samples(run, "heldout") == staged
    assert all(len(set(sample["responses"])) == 1 for sample in staged)
    assert len({sample["responses"][0] for sample in staged}) > 1


def test_prompts_of_different_lengths_do_not_disturb_each_other(run):
    """Greedy responses to prompts that are padded to one length are those to each prompt alone."""
    problem = next(all_problems())
    traces = [expert_trace(problem, random.Random(seed), false_claim=0, missed_hit=0) for seed in range(4)]
    prompts = [problem.prompt, *(problem.prompt + trace.removesuffix("!") for trace in traces)]
    settings = {"until": [], "temperature": 0, "max_gen_toks": LIMIT}
    requests = [SimpleNamespace(args=(prompt, settings), task_name="some") for prompt in prompts]
    with torch.no_grad():
        together, alone = (
            StagedModel(run / "model", evaluation({}, batch_size=size), trust_remote_code=False).generate_until(
                requests
            )
            for size in (len(prompts), 1)
        )
    assert together == alone
    assert len({len(prompt.split()) for prompt in prompts}) > 2
    assert len(set(together)) > 2


def test_a_failed_evaluation_leaves_the_last_one(run, data, tmp_path):
    evaluate(run, evaluation(HARDER), data)
    before = (run / "eval" / "evaluation.json").read_text()
    with pytest.raises(UserError, match=r"heldout\.jsonl cannot be read"):
        evaluate(run, evaluation(HARDER | HELDOUT), tmp_path_with(data / "harder.jsonl", tmp_path))
    assert (run / "eval" / "evaluation.json").read_text() == before
    assert sorted(path.name for path in run.iterdir()) == ["config.json", "eval", "model"]


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
    model, tokenizer = StagedModel(folder / "model", evaluation({}), trust_remote_code=False), build_tokenizer()
    for problem in itertools.islice(all_problems(), 0, None, 97):
        ids = tokenizer(problem.prompt)["input_ids"]
        assert model.hf.tok_encode(problem.prompt) == ids
        assert model.hf.tok_decode(ids) == problem.prompt
        assert tokenizer.unk_token_id not in ids
