"""Downstream evaluation of a run's model through lm-eval: avg@k, response lengths and cut-off rate per benchmark.

Benchmarks are lm-eval task files in config/benchmarks; problems, scoring and bookkeeping are lm-eval's (0.4.13), around
its `hf` model. What is done in another way than there, and why:

1. Responses are sampled in stages of doubling length, and those that have ended leave between stages. A batch that is
   generated in one go waits for its longest response, which is most of the time when lengths have a long tail.
   Sampling remembers nothing but the tokens, so the distribution is the same.
2. The generated tokens are counted as they come, and whether the limit cut the response off is kept. lm-eval hands back
   text without special tokens, from which neither can be told exactly.
3. The model samples from its plain distribution at the given temperature: defaults that a model folder brings along
   (top-k, top-p, repetition penalty) are not the policy that was trained.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
import time
import warnings
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from sagc.errors import UserError
from sagc.rewards import reward_function
from sagc.run_folder import RunFolder, folder_atomically
from sagc.sections import BenchmarkConfig, EvaluationConfig

if TYPE_CHECKING:
    from datasets import Dataset
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

BENCHMARKS = Path(__file__).resolve().parents[1] / "config" / "benchmarks"
FIRST_STAGE = 32  # tokens; as the stages double, no response is read again more often than it was written
FIELDS = ("id", "prompt", "answer")


def evaluate(
    folder: Path, evaluation: EvaluationConfig, data_dir: Path, benchmarks_dir: Path = BENCHMARKS
) -> dict[str, Any]:
    """Evaluate a run's model on every benchmark and write the run's eval/ folder, whole or not at all.

    eval/ then holds evaluation.json and, per benchmark, metrics.json and samples.jsonl, a problem per line with its
    responses, rewards, output tokens and cut-off flags. The same model and config give the same responses on the same
    machine and number of threads.

    Parameters
    ----------
    folder : Path
        The run folder, with config.json and model/.
    evaluation : EvaluationConfig
        Benchmarks, responses per problem, temperature, limit in tokens, batch size and seed.
    data_dir : Path
        Where the problems are; the task file names the JSON lines file.
    benchmarks_dir : Path
        Where the task files are.

    Returns
    -------
    dict
        The content of evaluation.json: `run_hash`, `lm_eval` (version), `evaluation` (the config), `benchmarks` (name
        -> `benchmark_metrics`) and `seconds` (imports, model, and generation with scoring).

    Raises
    ------
    UserError
        For a folder without a model, an unknown task, problems that are missing or malformed, and a response limit that
        the model's context cannot hold.
    """
    place, data_dir, benchmarks_dir = RunFolder(folder), Path(data_dir), Path(benchmarks_dir)
    run = place.read_config()
    if not place.model.is_dir():
        raise UserError(f"{place.path} has no model/ to evaluate; train it first")
    tasks = {name: _task_file(benchmark, benchmarks_dir) for name, benchmark in evaluation.benchmarks.items()}
    samples, clock = {}, [time.perf_counter()]
    with _quiet():
        import lm_eval.evaluator
        import lm_eval.models.huggingface  # noqa: F401

        clock.append(time.perf_counter())
        model = StagedModel(place.model, evaluation, run["run"]["model"].get("trust_remote_code", False))
        clock.append(time.perf_counter())
        for name, benchmark in evaluation.benchmarks.items():
            samples[name] = _sample_benchmark(model, benchmark, tasks[name], evaluation, data_dir)
        clock.append(time.perf_counter())
    seconds = [round(end - start, 3) for start, end in itertools.pairwise(clock)]
    content = {
        "run_hash": run["hash"],
        "lm_eval": version("lm_eval"),
        "evaluation": evaluation.model_dump(mode="json"),
        "benchmarks": {name: benchmark_metrics(rows) for name, rows in samples.items()},
        "seconds": dict(zip(("imports", "model", "generation"), seconds, strict=True)),
    }
    _write(place.evaluation, content, samples)
    return content


def benchmark_metrics(samples: list[dict[str, Any]]) -> dict[str, Any]:
    """The metrics of one benchmark.

    Parameters
    ----------
    samples : list of dict
        One problem each, with `rewards`, `output_tokens` and `cut_off`, one value per response.

    Returns
    -------
    dict
        accuracy : avg@k, the mean over problems of the mean reward over the k responses.
        accuracy_se : its standard error, clustered by problem: the standard deviation over problems of their means
        (n - 1), over the square root of the number of problems; None for a single problem.
        problems, samples : problems, and responses to them.
        output_tokens : mean response length in tokens, end token included, counted as generated.
        cut_off_rate : share of responses that the limit ended.
    """
    means = [mean(problem["rewards"]) for problem in samples]
    tokens = [count for problem in samples for count in problem["output_tokens"]]
    return {
        "accuracy": mean(means),
        "accuracy_se": stdev(means) / len(means) ** 0.5 if len(means) > 1 else None,
        "problems": len(samples),
        "samples": len(tokens),
        "output_tokens": mean(tokens),
        "cut_off_rate": mean(float(flag) for problem in samples for flag in problem["cut_off"]),
    }


# What the task files in config/benchmarks name -----------------------------------------------------------------------


def load_problems(file: str, data_dir: str = ".", **metadata: Any) -> dict[str, Dataset]:
    """lm-eval's `custom_dataset`: the problems of a JSON lines file below `data_dir`, as the split `test`.

    Raises UserError for a missing or empty file, and for a line without the texts id, prompt and answer.
    """
    path = Path(data_dir) / file
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise UserError(f"benchmark problems {path} cannot be read: {reason}") from None
    if not lines:
        raise UserError(f"benchmark problems {path} are empty")
    problems = {}
    for number, line in enumerate(lines, start=1):
        problem = _problem(line)
        if problem is None:
            raise UserError(f"{path}, line {number}: not a problem, which is JSON with the texts {', '.join(FIELDS)}")
        if problem["id"] in problems:
            raise UserError(f"{path}, line {number}: the id {problem['id']!r} is there already")
        problems[problem["id"]] = problem
    from datasets import Dataset

    return {"test": Dataset.from_list(list(problems.values()))}


def score_tiny(problem: dict[str, str], results: list[list[str]]) -> dict[str, list[float]]:
    """lm-eval's `process_results`: the reward of every response, by the function that training uses."""
    (responses,) = results
    repeated = {"prompts": [problem["prompt"]] * len(responses), "answer": [problem["answer"]] * len(responses)}
    return {"accuracy": reward_function("tiny")(completions=responses, **repeated)}


def average(rewards: list[list[float]]) -> float:
    """lm-eval's `aggregation`: avg@k, the mean over problems of the mean over responses."""
    return mean(mean(values) for values in rewards)


# Sampling ------------------------------------------------------------------------------------------------------------


class Response(str):
    """A response's text, with its length in tokens (end token included) and whether the limit cut it off."""

    tokens: int
    cut_off: bool

    def __new__(cls, text: str, tokens: int, cut_off: bool) -> Response:
        response = super().__new__(cls, text)
        response.tokens, response.cut_off = tokens, cut_off
        return response


class StagedModel:
    """A model for `lm_eval.evaluate`: lm-eval's HFLM, sampled in stages.

    It wraps HFLM rather than inheriting from it so that importing this module needs neither torch nor lm-eval.
    """

    rank, world_size = 0, 1

    def __init__(self, path: Path, evaluation: EvaluationConfig, trust_remote_code: bool):
        import torch
        from lm_eval.models.huggingface import HFLM
        from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

        options = {"local_files_only": True, "trust_remote_code": trust_remote_code}
        try:
            tokenizer = AutoTokenizer.from_pretrained(path, **options)
            model = AutoModelForCausalLM.from_pretrained(path, dtype="auto", **options)
        except (OSError, ValueError) as error:
            raise UserError(f"{path} cannot be loaded as a model: {str(error).splitlines()[0]}") from None
        ends = model.generation_config.eos_token_id or tokenizer.eos_token_id
        model.generation_config = GenerationConfig(eos_token_id=ends)
        self.ends = frozenset(ends if isinstance(ends, list) else [ends])
        model.to("cuda" if torch.cuda.is_available() else "cpu")
        self.hf: HFLM = HFLM(pretrained=model, tokenizer=tokenizer, batch_size=evaluation.batch_size)

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[Response]:
        """One response per request, in their order; the end token alone ends a response, as in training."""
        settings = requests[0].args[1]
        limit = settings["max_gen_toks"]
        prompts = [self.hf.tok_encode(request.args[0]) for request in requests]
        self._check(settings, longest_prompt=max(map(len, prompts)))
        responses: list[list[int]] = [[] for _ in requests]
        active, end = sorted(range(len(requests)), key=lambda i: len(prompts[i])), 0
        bar = tqdm(total=len(requests), desc=requests[0].task_name, unit="response", disable=disable_tqdm or None)
        while active:
            start, end = end, min(max(2 * end, FIRST_STAGE), limit)
            going_on = []
            for first in range(0, len(active), self.hf.batch_size):
                rows = active[first : first + self.hf.batch_size]
                added = self._extend([prompts[i] + responses[i] for i in rows], end - start, settings["temperature"])
                for i, tokens in zip(rows, added, strict=True):
                    responses[i] += tokens
                unfinished = [i for i in rows if len(responses[i]) < limit and responses[i][-1] not in self.ends]
                bar.update(len(rows) - len(unfinished))
                going_on += unfinished
            active = going_on
        bar.close()
        texts = map(self.hf.tok_decode, responses)
        return [Response(text, len(ids), ids[-1] not in self.ends) for text, ids in zip(texts, responses, strict=True)]

    def _extend(self, sequences: list[list[int]], count: int, temperature: float) -> list[list[int]]:
        """Up to `count` further tokens per sequence, ending with the first end token."""
        tokenizer = self.hf.tokenizer
        inputs = tokenizer.pad({"input_ids": sequences}, padding_side="left", return_tensors="pt").to(self.hf.device)
        sampling = {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0}
        output = self.hf.model.generate(
            input_ids=inputs["input_ids"],
            attention_mask=inputs["attention_mask"],
            max_new_tokens=count,
            pad_token_id=tokenizer.pad_token_id,
            **(sampling if temperature else {"do_sample": False}),
        )
        added = output[:, inputs["input_ids"].shape[1] :].tolist()
        ends = [next((n for n, token in enumerate(tokens, start=1) if token in self.ends), count) for tokens in added]
        return [tokens[:end] for tokens, end in zip(added, ends, strict=True)]

    def _check(self, settings: dict[str, Any], longest_prompt: int) -> None:
        if settings["until"]:
            raise UserError(f"generation_kwargs.until is {settings['until']}; only the end token may end a response")
        if longest_prompt + settings["max_gen_toks"] > self.hf.max_length:
            raise UserError(
                f"evaluation.max_response_tokens is {settings['max_gen_toks']}; with prompts of {longest_prompt} "
                f"tokens the model's context allows at most {self.hf.max_length - longest_prompt}"
            )


def _sample_benchmark(
    model: StagedModel, benchmark: BenchmarkConfig, task_file: Path, evaluation: EvaluationConfig, data_dir: Path
) -> list[dict[str, Any]]:
    """The samples of one benchmark, a dictionary per problem; they do not depend on the benchmarks beside it."""
    import torch
    from lm_eval.evaluator import evaluate as lm_evaluate
    from lm_eval.tasks import TaskManager

    # Without the built-in tasks, whose thousands of files take seconds to index.
    tasks = TaskManager(include_defaults=False, metadata={"data_dir": str(data_dir)}).load([str(task_file)])
    ((name, task),) = tasks["tasks"].items()
    sampling = {"temperature": evaluation.temperature, "max_gen_toks": evaluation.max_response_tokens}
    task.set_config("generation_kwargs", {**sampling, "do_sample": evaluation.temperature > 0}, update=True)
    task.set_config("repeats", benchmark.samples)
    device = model.hf.device
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(evaluation.seed)
        results = lm_evaluate(lm=model, task_dict=tasks, bootstrap_iters=0)
    return [_sample(sample) for sample in results["samples"][name]]


def _sample(sample: dict[str, Any]) -> dict[str, Any]:
    """One problem from lm-eval's log of it."""
    (responses,) = sample["resps"]
    return {
        **{field: sample["doc"][field] for field in FIELDS},
        "responses": responses,
        "rewards": sample["accuracy"],
        "output_tokens": [response.tokens for response in responses],
        "cut_off": [response.cut_off for response in responses],
    }


def _task_file(benchmark: BenchmarkConfig, folder: Path) -> Path:
    path = folder / f"{benchmark.task}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in folder.glob("*.yaml"))) or "none"
        raise UserError(f"unknown benchmark task {benchmark.task!r}; tasks in {folder} are {known}")
    return path


def _problem(line: str) -> dict[str, str] | None:
    """The fields of a problem, or None where the line has not got them."""
    try:
        values = json.loads(line)
    except ValueError:
        return None
    if not isinstance(values, dict) or not all(isinstance(values.get(field), str) for field in FIELDS):
        return None
    return {field: values[field] for field in FIELDS}


def _write(folder: Path, content: dict[str, Any], samples: dict[str, list[dict[str, Any]]]) -> None:
    with folder_atomically(folder) as temporary:
        for name, rows in samples.items():
            (temporary / name).mkdir()
            lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
            (temporary / name / "samples.jsonl").write_text("".join(lines), encoding="utf-8")
            _write_json(temporary / name / "metrics.json", content["benchmarks"][name])
        _write_json(temporary / "evaluation.json", content)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n", encoding="utf-8")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep lm-eval's and transformers' notes and bars back, and the environment as the caller left it."""
    environment = dict(os.environ)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from lm_eval.api import task  # builds a context per problem, with a bar that cannot be turned off
        from transformers.utils import logging as bars

        loggers = [logging.getLogger(name) for name in ("lm_eval", "transformers")]
        levels = [logger.level for logger in loggers]
        shown, task_bar = bars.is_progress_bar_enabled(), task.tqdm
        try:
            for logger in loggers:
                logger.setLevel(logging.ERROR)
            bars.disable_progress_bar()
            task.tqdm = lambda problems, **options: problems
            yield
        finally:
            task.tqdm = task_bar
            if shown:
                bars.enable_progress_bar()
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
            for key in os.environ.keys() - environment.keys():
                del os.environ[key]
            os.environ.update(environment)
