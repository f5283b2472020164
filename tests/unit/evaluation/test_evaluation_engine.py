"""Evaluation without a model: stages, the journal of responses, and what a user gets wrong."""

import json
import pickle
import subprocess
import sys
from types import SimpleNamespace

import pytest

from sagc.config.sections import EvaluationConfig
from sagc.errors import UserError
from sagc.evaluation.engine import ModelFolder
from sagc.evaluation.hf import FIRST_STAGE, StagedModel
from sagc.evaluation.job import evaluate
from sagc.evaluation.journal import Journal, Response

END = 0


def run_folder(path, model=True):
    path.mkdir()
    (path / "config.json").write_text('{"run": {"model": {"type": "tiny"}}, "hash": "0123456789abcdef"}')
    if model:
        (path / "model").mkdir()
    return path


def evaluation(task="tiny_heldout"):
    return EvaluationConfig(benchmarks={"some": {"task": task}})


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"not a run folder: it has no config\.json"):
        evaluate(tmp_path, evaluation(), tmp_path)


def test_a_run_without_a_model_is_refused(tmp_path):
    with pytest.raises(UserError, match="has no model/ to evaluate; train it first"):
        evaluate(run_folder(tmp_path / "run", model=False), evaluation(), tmp_path)


def test_an_unknown_task_is_refused(tmp_path):
    with pytest.raises(UserError, match="unknown benchmark task 'tiny_held'"):
        evaluate(run_folder(tmp_path / "run"), evaluation("tiny_held"), tmp_path)


def test_importing_is_light():
    heavy = "{'torch', 'transformers', 'lm_eval', 'datasets', 'pandas', 'vllm'}"
    modules = "sagc.evaluation.job, sagc.evaluation.hf, sagc.evaluation.vllm"
    code = f"import sys, {modules}; sys.exit(' '.join({heavy} & set(sys.modules)) or 0)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr


class ScriptedModel(StagedModel):
    """Writes after prompt p as many tokens as p's script says, then the end token, and notes the batches it extends."""

    def __init__(self, folder, script, batch_size, limit=100, max_length=1000):
        folder.mkdir(exist_ok=True)
        self.folder, self.journal_at = ModelFolder(folder), folder.with_suffix(".jsonl")
        self.evaluation = EvaluationConfig(batch_size=batch_size, max_response_tokens=limit)
        self.script, self.ends, self.batches = script, frozenset({END}), []
        self.wrapped = SimpleNamespace(
            device=SimpleNamespace(type="cpu"),
            max_length=max_length,
            tok_encode=self.encode,
            tokenizer=SimpleNamespace(decode=lambda ids, skip_special_tokens: f"{len(ids)}"),
        )

    def encode(self, prompt):
        return [1000 + int(prompt)] * int(prompt)

    def _extend(self, sequences, count):
        self.batches.append((len(sequences), count))
        return [self.continuation(ids)[:count] for ids in sequences]

    def continuation(self, ids):
        prompt = ids[0] - 1000
        return [*range(1, self.script[prompt] + 1), END][len(ids) - prompt :]


def requests(model, *prompts, until=()):
    settings = {"until": list(until), "temperature": 1.0, "max_gen_toks": model.evaluation.max_response_tokens}
    return [SimpleNamespace(args=(str(prompt), settings), task_name="some") for prompt in prompts]


def generate(model, *prompts):
    return model.generate_until(requests(model, *prompts))


def test_stages_double_and_finished_responses_leave(tmp_path):
    model = ScriptedModel(tmp_path / "m", {1: 5, 2: 40, 3: 70, 4: 200}, batch_size=3, limit=150)
    responses = generate(model, 4, 1, 3, 2)
    assert FIRST_STAGE == 32
    assert [(response.tokens, response.cut_off) for response in responses] == [
        (150, True),
        (6, False),
        (71, False),
        (41, False),
    ]
    assert model.batches == [(3, 32), (1, 32), (3, 32), (2, 64), (1, 22)]


def test_the_limit_may_be_within_the_first_stage(tmp_path):
    model = ScriptedModel(tmp_path / "m", {1: 5, 2: 9, 3: 10}, batch_size=8, limit=10)
    short, exact, long = generate(model, 1, 2, 3)
    assert (short.tokens, short.cut_off) == (6, False)
    assert (exact.tokens, exact.cut_off) == (10, False)  # its tenth and last token is the end token
    assert (long.tokens, long.cut_off) == (10, True)


def test_responses_are_text_in_the_order_of_the_requests(tmp_path):
    model = ScriptedModel(tmp_path / "m", {1: 5, 2: 40, 3: 70}, batch_size=2)
    assert generate(model, 3, 2, 1, 3) == ["71", "41", "6", "71"]


def test_a_limit_beyond_the_context_is_refused(tmp_path):
    assert generate(ScriptedModel(tmp_path / "m", {7: 5}, batch_size=2, limit=57, max_length=64), 7)
    with pytest.raises(UserError, match=r"max_response_tokens is 58; with prompts of 7 tokens .* at most 57"):
        generate(ScriptedModel(tmp_path / "m", {7: 5}, batch_size=2, limit=58, max_length=64), 7)


def test_stop_strings_are_refused(tmp_path):
    model = ScriptedModel(tmp_path / "m", {7: 5}, batch_size=2)
    with pytest.raises(UserError, match="until is"):
        model.generate_until(requests(model, 7, until=["\n"]))


# The journal ---------------------------------------------------------------------------------------------------------


class Interrupted(Exception):
    pass


def test_an_interrupted_benchmark_generates_only_what_it_lacks(tmp_path, monkeypatch):
    monkeypatch.setattr("sagc.evaluation.hf.BATCHES_PER_PART", 1)
    script = {n: 3 * n for n in range(1, 8)}
    prompts = [5, 3, 1, 7, 2, 6, 4]
    unbroken = generate(ScriptedModel(tmp_path / "m", script, batch_size=2), *prompts)
    (tmp_path / "m.jsonl").unlink()

    broken, parts = ScriptedModel(tmp_path / "m", script, batch_size=2), []

    def stop_in_the_third_part(sequences, count):
        parts.append(len(sequences))
        if len(parts) == 3:
            raise Interrupted
        return ScriptedModel._extend(broken, sequences, count)

    broken._extend = stop_in_the_third_part
    with pytest.raises(Interrupted):
        generate(broken, *prompts)
    assert len((tmp_path / "m.jsonl").read_text().splitlines()) == 1 + 4

    resumed = ScriptedModel(tmp_path / "m", script, batch_size=2)
    assert generate(resumed, *prompts) == unbroken
    assert sum(count for count, _ in resumed.batches) == 3
    assert [r.tokens for r in generate(resumed, *prompts)] == [r.tokens for r in unbroken]
    assert sum(count for count, _ in resumed.batches) == 3  # the second time there was nothing to do


def test_a_half_written_line_is_generated_again(tmp_path):
    journal = Journal(tmp_path / "j.jsonl", "key")
    journal.add(4, Response("a\nb", 3, True))
    journal.add(2, Response("\u2028", 1, False))
    with open(tmp_path / "j.jsonl", "ab") as file:
        file.write(b'[3, "c')
    again = Journal(tmp_path / "j.jsonl", "key")
    assert again.responses == {4: "a\nb", 2: "\u2028"}
    assert (again.responses[4].tokens, again.responses[4].cut_off) == (3, True)
    again.add(3, Response("c", 1, False))
    assert Journal(tmp_path / "j.jsonl", "key").responses == {4: "a\nb", 2: "\u2028", 3: "c"}


def test_a_response_survives_the_way_to_another_process():
    response = pickle.loads(pickle.dumps(Response("a", 3, True)))
    assert (response, response.tokens, response.cut_off) == ("a", 3, True)


def test_responses_of_another_key_are_not_used(tmp_path):
    Journal(tmp_path / "j.jsonl", "key").add(0, Response("a", 1, False))
    assert Journal(tmp_path / "j.jsonl", "other").responses == {}
    assert Journal(tmp_path / "j.jsonl", "key").responses == {}


def test_the_key_changes_with_all_that_responses_depend_on(tmp_path):
    def key(folder="m", prompts=(1, 2), **settings):
        model = ScriptedModel(tmp_path / folder, {1: 5, 2: 5, 3: 5}, batch_size=2)
        model.evaluation = EvaluationConfig(**{"batch_size": 2, "benchmarks": {"a": {"task": "b"}}} | settings)
        generate(model, *prompts)
        return json.loads(model.journal_at.read_text().splitlines()[0])

    first = key()
    assert key() == first
    assert key(benchmarks={"c": {"task": "b"}}) == first  # one beside it changes nothing
    assert (
        len({first, key(temperature=0.5), key(seed=1), key(top_p=0.9), key(prompts=(1, 3)), key(prompts=(1, 2, 2))})
        == 6
    )
    (tmp_path / "m" / "model.safetensors").write_text("weights")
    assert key() != first
