"""Evaluation without a model: metrics, scoring, problems, stages, and what a user gets wrong."""

import json
import math
import random
import subprocess
import sys
from types import SimpleNamespace

import pytest

from sagc.errors import UserError
from sagc.evaluate import FIRST_STAGE, StagedModel, average, benchmark_metrics, evaluate, load_problems, score_tiny
from sagc.rewards import reward_function
from sagc.sections import EvaluationConfig
from sagc.tiny.task import Problem, expert_trace

END = 0


def sample(rewards, tokens, cut_off):
    return {"rewards": rewards, "output_tokens": tokens, "cut_off": cut_off}


def test_metrics_by_hand():
    samples = [
        sample([1.0, 0.0], [10, 20], [False, False]),
        sample([1.0, 1.0], [30, 40], [False, False]),
        sample([0.0, 0.0], [50, 60], [True, False]),
    ]
    metrics = benchmark_metrics(samples)
    # Means per problem 0.5, 1 and 0: their standard deviation is 0.5.
    assert metrics.pop("accuracy_se") == pytest.approx(0.5 / math.sqrt(3))
    assert metrics.pop("cut_off_rate") == pytest.approx(1 / 6)
    assert metrics == {"accuracy": 0.5, "problems": 3, "samples": 6, "output_tokens": 35}
    assert average([problem["rewards"] for problem in samples]) == 0.5


def test_standard_error_is_over_problems_not_responses():
    twice = benchmark_metrics([sample([1.0] * 2, [5] * 2, [False] * 2), sample([0.0] * 2, [5] * 2, [False] * 2)])
    often = benchmark_metrics([sample([1.0] * 50, [5] * 50, [False] * 50), sample([0.0] * 50, [5] * 50, [False] * 50)])
    assert twice["accuracy_se"] == often["accuracy_se"] == pytest.approx(0.5)


def test_one_problem_has_no_standard_error():
    assert benchmark_metrics([sample([1.0, 0.0], [3, 4], [False, False])])["accuracy_se"] is None


def test_score_is_the_training_reward():
    problem = Problem(coefficient=3, offset=12, solution=9)
    solved = expert_trace(problem, random.Random(0), false_claim=0, missed_hit=0)
    responses = [solved, solved[:-1], "", solved]
    scored = score_tiny({"prompt": problem.prompt, "answer": problem.answer}, [responses])
    assert scored == {"accuracy": [1.0, 0.0, 0.0, 1.0]}
    assert scored["accuracy"] == reward_function("tiny")([problem.prompt] * 4, responses, answer=[problem.answer] * 4)


def write(path, *lines):
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def problem_line(number):
    return json.dumps({"id": f"p{number}", "prompt": f"{number}x :", "answer": str(number), "more": 1})


def test_problems_are_read_from_the_data_folder(tmp_path):
    write(tmp_path / "some.jsonl", problem_line(1), problem_line(2))
    problems = load_problems("some.jsonl", data_dir=str(tmp_path), version=1.0)["test"]
    assert list(problems) == [
        {"id": "p1", "prompt": "1x :", "answer": "1"},
        {"id": "p2", "prompt": "2x :", "answer": "2"},
    ]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "some.jsonl are empty"),
        ([problem_line(1), "{"], "some.jsonl, line 2: not a problem"),
        (["[]"], "some.jsonl, line 1: not a problem"),
        ([problem_line(1), '{"id": "p2", "prompt": "2x :"}'], "some.jsonl, line 2: not a problem"),
        (['{"id": "p2", "prompt": "2x :", "answer": 2}'], "some.jsonl, line 1: not a problem"),
        ([problem_line(1), problem_line(2), problem_line(1)], "some.jsonl, line 3: the id 'p1' is there already"),
    ],
)
def test_bad_problems_are_named(tmp_path, lines, message):
    write(tmp_path / "some.jsonl", *lines)
    with pytest.raises(UserError, match=message):
        load_problems("some.jsonl", data_dir=str(tmp_path))


def test_missing_problems_are_named(tmp_path):
    with pytest.raises(UserError, match=r"some\.jsonl cannot be read: No such file"):
        load_problems("some.jsonl", data_dir=str(tmp_path))


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


def test_an_unknown_task_names_those_there_are(tmp_path):
    with pytest.raises(UserError, match=r"unknown benchmark task 'tiny_held'; .* are tiny_harder, tiny_heldout"):
        evaluate(run_folder(tmp_path / "run"), evaluation("tiny_held"), tmp_path)


def test_importing_is_light():
    heavy = "{'torch', 'transformers', 'lm_eval', 'datasets', 'pandas'}"
    code = f"import sys, sagc.evaluate; sys.exit(' '.join({heavy} & set(sys.modules)) or 0)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr


class ScriptedModel(StagedModel):
    """Writes after prompt p as many tokens as p's script says, then the end token, and notes the batches it extends."""

    def __init__(self, script, batch_size, max_length=1000):
        self.script, self.ends, self.batches = script, frozenset({END}), []
        self.hf = SimpleNamespace(
            batch_size=batch_size, max_length=max_length, tok_encode=self.encode, tok_decode=lambda ids: f"{len(ids)}"
        )

    def encode(self, prompt):
        return [1000 + int(prompt)] * int(prompt)

    def _extend(self, sequences, count, temperature):
        self.batches.append((len(sequences), count))
        return [self.continuation(ids)[:count] for ids in sequences]

    def continuation(self, ids):
        prompt = ids[0] - 1000
        return [*range(1, self.script[prompt] + 1), END][len(ids) - prompt :]


def requests(*prompts, limit=100, until=()):
    settings = {"until": list(until), "temperature": 1.0, "max_gen_toks": limit}
    return [SimpleNamespace(args=(str(prompt), settings), task_name="some") for prompt in prompts]


def test_stages_double_and_finished_responses_leave():
    model = ScriptedModel({1: 5, 2: 40, 3: 70, 4: 200}, batch_size=3)
    responses = model.generate_until(requests(4, 1, 3, 2, limit=150))
    assert FIRST_STAGE == 32
    assert [(response.tokens, response.cut_off) for response in responses] == [
        (150, True),
        (6, False),
        (71, False),
        (41, False),
    ]
    assert model.batches == [(3, 32), (1, 32), (3, 32), (2, 64), (1, 22)]


def test_the_limit_may_be_within_the_first_stage():
    short, exact, long = ScriptedModel({1: 5, 2: 9, 3: 10}, batch_size=8).generate_until(requests(1, 2, 3, limit=10))
    assert (short.tokens, short.cut_off) == (6, False)
    assert (exact.tokens, exact.cut_off) == (10, False)  # its tenth and last token is the end token
    assert (long.tokens, long.cut_off) == (10, True)


def test_responses_are_text_in_the_order_of_the_requests():
    model = ScriptedModel({1: 5, 2: 40, 3: 70}, batch_size=2)
    assert model.generate_until(requests(3, 2, 1, 3)) == ["71", "41", "6", "71"]


def test_a_limit_beyond_the_context_is_refused():
    model = ScriptedModel({7: 5}, batch_size=2, max_length=64)
    assert model.generate_until(requests(7, limit=57))
    with pytest.raises(UserError, match=r"max_response_tokens is 58; with prompts of 7 tokens .* at most 57"):
        model.generate_until(requests(7, limit=58))


def test_stop_strings_are_refused():
    with pytest.raises(UserError, match="until is"):
        ScriptedModel({7: 5}, batch_size=2).generate_until(requests(7, until=["\n"]))
