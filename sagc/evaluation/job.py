"""The evaluation of one run: its model is loaded once and runs every benchmark.

Benchmarks are lm-eval task files in config/benchmarks; lm-eval (0.4.13) handles prompts, scoring and bookkeeping. The
engine is ours (hf.py, vllm.py), for two reasons:

1. It counts tokens as they are generated and records whether the limit cut the response off. lm-eval returns text
   without special tokens, which tells neither exactly.
2. It writes responses to disk as they arrive, so that an interrupted evaluation can resume.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
import shutil
import time
import warnings
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sagc.config.sections import BenchmarkConfig, EvaluationConfig
from sagc.errors import UserError
from sagc.evaluation.engine import Engine, ModelFolder
from sagc.evaluation.metrics import benchmark_metrics
from sagc.evaluation.problems import BENCHMARKS, problems_folder, read_source, task_file
from sagc.evaluation.scoring import AHEAD
from sagc.run.folder import RunFolder
from sagc.system.files import folder_atomically

log = logging.getLogger("sagc")

PROBLEM_FIELDS = ("id", "problem", "choices", "answer")  # written to samples.jsonl where a problem has them
SCORES = {"rewards": "accuracy", "extracted": "extracted", "unchecked": "unchecked"}  # our name -> scoring.py's


def evaluate(
    folder: Path,
    evaluation: EvaluationConfig,
    data_dir: Path,
    benchmarks_dir: Path = BENCHMARKS,
    end_orphan: bool = False,
) -> dict[str, Any]:
    """Evaluate a run's models on every benchmark and write the run's eval/ folder, whole or not at all.

    eval/ then holds evaluation.json and, per benchmark, metrics.json and samples.jsonl (one problem per line, with its
    responses, rewards, extracted answers, output tokens and cut-off flags), all for the run's final model. Models that
    it kept during training have only their metrics, in evaluation.json. The same model and config give the same
    responses on the same machine with the same number of threads, even if the evaluation was interrupted.

    Parameters
    ----------
    folder : Path
        The run folder, with config.json and model/.
    evaluation : EvaluationConfig
        Benchmarks, responses per problem, sampling, limit in tokens and seed.
    data_dir : Path
        Folder of the embedded task's problems; other benchmarks have their own, or come from the Hub.
    benchmarks_dir : Path
        Folder of the task files.
    end_orphan : bool
        Whether to end a job of the DAG that still holds the folder (see `RunFolder.lock`).

    Returns
    -------
    dict
        The content of evaluation.json: `run_hash`, `lm_eval` (version), `evaluation` (the config), `benchmarks` (name
        -> `benchmark_metrics`, and how many lines of the problems were `left_out`), `kept` (rollouts done -> name ->
        `benchmark_metrics`, for the models kept during training), `left_out` (name -> one sentence per line, saying
        why) and `seconds` (imports and problems, model, and generation with scoring).

    Raises
    ------
    UserError
        If the folder has no model or is in use, a task is unknown, problems are missing, the backend is not
        installed, or the model's context is too short for the response limit.
    """
    started, place = time.perf_counter(), RunFolder(folder)
    run = place.read_config()
    if not place.model.is_dir():
        raise UserError(f"{place.path} has no model/ to evaluate; train it first")
    tasks = {name: task_file(benchmark, Path(benchmarks_dir)) for name, benchmark in evaluation.benchmarks.items()}
    with place.lock(end_orphan), _quiet():
        content, samples = _evaluate(place, run, evaluation, tasks, Path(data_dir), started)
        _write(place.evaluation, content, samples)
        shutil.rmtree(_journals(place), ignore_errors=True)
    return content


def _evaluate(
    place: RunFolder,
    run: dict[str, Any],
    evaluation: EvaluationConfig,
    tasks: dict[str, Path],
    data_dir: Path,
    started: float,
) -> tuple[dict[str, Any], dict[str, list[dict[str, Any]]]]:
    """The content of evaluation.json, and the samples of each benchmark."""
    # All problems are read before the model is loaded, so that an error in them shows up at once.
    loaded = {name: _load_task(tasks[name], evaluation, evaluation.benchmarks[name], data_dir) for name in tasks}
    clock = [started, time.perf_counter()]
    options = {key: run["run"]["model"].get(key, False) for key in ("trust_remote_code", "chat")}
    engine = _engine(ModelFolder(place.model, **options), evaluation)
    clock.append(time.perf_counter())
    samples, kept = _sample_benchmarks(engine, loaded, _journals(place)), {}
    left_out = {name: _left_out(task) for name, task in loaded.items()}
    for rollouts, path in place.kept_models(run["hash"]).items():
        engine.close()
        engine = _engine(ModelFolder(path, **options), evaluation)
        rows_of = _sample_benchmarks(engine, loaded, _journals(place) / str(rollouts))
        kept[str(rollouts)] = {name: benchmark_metrics(rows) for name, rows in rows_of.items()}
    clock.append(time.perf_counter())
    seconds = [round(end - start, 3) for start, end in itertools.pairwise(clock)]
    content = {
        "run_hash": run["hash"],
        "lm_eval": version("lm_eval"),
        "evaluation": evaluation.model_dump(mode="json"),
        "benchmarks": {n: {**benchmark_metrics(rows), "left_out": len(left_out[n])} for n, rows in samples.items()},
        "kept": kept,
        "left_out": left_out,
        "seconds": dict(zip(("imports", "model", "generation"), seconds, strict=True)),
    }
    return content, samples


def _engine(folder: ModelFolder, evaluation: EvaluationConfig) -> Engine:
    if evaluation.backend == "vllm":
        from sagc.evaluation.vllm import VLLMModel

        return VLLMModel(folder, evaluation)
    from sagc.evaluation.hf import StagedModel

    return StagedModel(folder, evaluation)


def _load_task(path: Path, evaluation: EvaluationConfig, benchmark: BenchmarkConfig, data_dir: Path) -> dict[str, Any]:
    """lm-eval's task for a benchmark, with its problems and the config's settings."""
    from lm_eval.tasks import TaskManager

    folder = problems_folder(benchmark, read_source(path), data_dir)
    # The built-in tasks are thousands of files that take seconds to index.
    tasks = TaskManager(include_defaults=False, metadata={"data_dir": folder}).load([str(path)])
    (task,) = tasks["tasks"].values()
    sampling = {"temperature": evaluation.temperature, "max_gen_toks": evaluation.max_response_tokens}
    task.set_config("generation_kwargs", {**sampling, "do_sample": evaluation.temperature > 0}, update=True)
    task.set_config("repeats", benchmark.samples)
    return tasks


def _left_out(tasks: dict[str, Any]) -> list[str]:
    """Why lines of the problems were left out, one sentence per line."""
    (task,) = tasks["tasks"].values()
    reasons = task.dataset["left_out"]["reason"]
    for reason in reasons:
        log.warning("left out: %s", reason)
    return list(reasons)


def _sample_benchmarks(engine: Engine, tasks: dict[str, Any], journals: Path) -> dict[str, list[dict[str, Any]]]:
    """The samples of every benchmark."""
    samples = {}
    for name, task in tasks.items():
        engine.journal_at = journals / f"{name}.jsonl"
        samples[name] = _sample_benchmark(engine, task)
    return samples


def _sample_benchmark(engine: Engine, tasks: dict[str, Any]) -> list[dict[str, Any]]:
    """The samples of one benchmark, a dictionary per problem; they do not depend on the other benchmarks."""
    from lm_eval.evaluator import evaluate as lm_evaluate

    (task,) = tasks["tasks"].values()
    engine.on_response = AHEAD.get(task.config.process_results)
    results = lm_evaluate(lm=engine, task_dict=tasks, bootstrap_iters=0, apply_chat_template=engine.folder.chat)
    (samples,) = results["samples"].values()
    return [_sample(sample) for sample in samples]


def _sample(sample: dict[str, Any]) -> dict[str, Any]:
    """One problem, from lm-eval's log."""
    (responses,) = sample["resps"]
    return {
        **{field: sample["doc"][field] for field in PROBLEM_FIELDS if field in sample["doc"]},
        "responses": responses,
        **{ours: sample[theirs] for ours, theirs in SCORES.items()},
        "output_tokens": [response.tokens for response in responses],
        "cut_off": [response.cut_off for response in responses],
    }


def _journals(place: RunFolder) -> Path:
    return place.path / "eval.partial"


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
    """Silence lm-eval's and transformers' notes and progress bars, and restore the environment afterwards."""
    environment = dict(os.environ)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from lm_eval.api import task  # its progress bar over the problems has no switch
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
