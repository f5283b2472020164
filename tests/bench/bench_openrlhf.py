"""Step time of the openrlhf stack at a constant group size beside OpenRLHF's own: `python -m tests.bench openrlhf`.

Both train the same random model with the same flags; in every rollout some of the 128 responses reach the limit, so
that every step does nearly the same work. They run at the same time, each bound to a core of its own, and then once
more with the cores exchanged: whatever else the machine does falls on both. A step is all that happens between the ends
of two steps; only those count during which both trained. The ratio is the geometric mean over the two rounds of the
ratio of the medians. Target: under 1.02.
"""

import itertools
import os
import re
import statistics
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from openrlhf_patch.flags import build_flags
from openrlhf_patch.job import Spec
from openrlhf_patch.launch import environment
from openrlhf_patch.processes import run_to_end
from sagc.config.grid import validate_grid
from sagc.config.run import RunConfig
from sagc.tiny.data import write_datasets
from sagc.tiny.models import build_model
from sagc.tiny.tokenizer import build_tokenizer

PROJECT = Path(__file__).resolve().parents[2]
TRAINERS = ("stock", "sagc")
STEPS, WARM_UP = 32, 2
PHASES = ("generation", "make_experience", "ppo_train", "broadcast")  # as OpenRLHF logs them

Step = dict[str, float]  # "end" (time), "whole" and the phases (seconds)


def rows(steps: int = STEPS) -> list[dict]:
    """One row per trainer: median seconds of a step and of its phases, and the ratio of the steps to the stock's."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise RuntimeError("the benchmark of the openrlhf stack needs two cores, and this process may use one")
    with tempfile.TemporaryDirectory(prefix="sagc-") as scratch:
        folder = Path(scratch)
        _write_model(folder / "model")
        write_datasets(folder / "data", seed=0)
        rounds = []
        for pinned in (cores[:2], cores[1::-1]):
            print(f"round {len(rounds) + 1} of 2", file=sys.stderr)
            rounds.append(_side_by_side(folder, len(rounds), pinned, steps))
    return [_row(trainer, rounds) for trainer in TRAINERS]


def _row(trainer: str, rounds: list[dict[str, list[Step]]]) -> dict:
    steps = [step for turn in rounds for step in turn[trainer]]
    seconds = {f"{name}_s": round(_median(steps, name), 3) for name in ("whole", *PHASES)}
    ratios = [_median(turn[trainer], "whole") / _median(turn["stock"], "whole") for turn in rounds]
    return {
        "trainer": trainer,
        "steps": len(steps),
        **seconds,
        "ratio_to_stock": round(statistics.geometric_mean(ratios), 3),
    }


def _median(steps: list[Step], name: str) -> float:
    return statistics.median(step[name] for step in steps)


def _side_by_side(folder: Path, turn: int, cores: list[int], steps: int) -> dict[str, list[Step]]:
    """Steps of both trainers while both were at work."""
    with ThreadPoolExecutor(len(TRAINERS)) as pool:
        runs = [
            pool.submit(_run, trainer, folder, f"{trainer}{turn}", core, steps)
            for trainer, core in zip(TRAINERS, cores, strict=True)
        ]
        found = {trainer: run.result() for trainer, run in zip(TRAINERS, runs, strict=True)}
    begin = max(run[0]["end"] - run[0]["whole"] for run in found.values())
    end = min(run[-1]["end"] for run in found.values())
    both = {t: [s for s in run if s["end"] - s["whole"] >= begin and s["end"] <= end] for t, run in found.items()}
    if min(map(len, both.values())) < steps // 2:
        raise RuntimeError("the two trainers ran beside each other for less than half of their steps")
    return both


def _write_model(folder: Path) -> None:
    """A random model: it ends a response after 287 tokens on average."""
    tokenizer = build_tokenizer()
    build_model("qwen2", tokenizer, seed=0).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _run(trainer: str, folder: Path, name: str, core: int, steps: int) -> list[Step]:
    """Train on one core; all steps but the first ones."""
    os.sched_setaffinity(0, {core})  # of this thread, and of what it starts
    run, place = _run_config(steps), folder / name
    place.mkdir()
    data = folder / "data" / "train.jsonl"
    flags = build_flags(
        run, str(folder / "model"), data, place / "checkpoints", place / "model", prompt_tokens=8, chat=False, seed=1
    )
    if trainer == "stock":
        hook = flags.index("--train.agent_func_path")
        flags[hook : hook + 2] = ["--reward.remote_url", str(Path(__file__).with_name("openrlhf_reward.py"))]
        flags += ["--data.max_samples", str(steps * run.training.prompts_per_step)]
    trace, kept = str(place / "trace.jsonl"), str(place / "kept")
    spec = Spec(run.model_dump(mode="json"), flags, str(data), trace, kept, str(place))
    command = [sys.executable, "-m", "tests.bench.openrlhf_turn", trainer, str(spec.write(place / "job.json"))]
    status = run_to_end(command, {**environment(run), "PYTHONPATH": str(PROJECT)}, place / "log", lambda: None)
    log = (place / "log").read_text(encoding="utf-8", errors="replace")
    if status:
        raise RuntimeError(f"{trainer} ended with exit status {status}:\n{log[-5000:]}")
    return _steps(log)


def _steps(log: str) -> list[Step]:
    ends = [float(found) for found in re.findall(r"STEP ENDS ([\d.]+)", log)]
    phases = [
        {phase: float(re.search(rf"'timing/{phase}': ([\d.e-]+)", line)[1]) for phase in PHASES}
        for line in log.splitlines()
        if "Global step" in line
    ]
    steps = [
        {"end": end, "whole": end - before, **times}
        for (before, end), times in zip(itertools.pairwise(ends), phases[1:], strict=True)
    ]
    return steps[WARM_UP - 1 :]


def _run_config(steps: int) -> RunConfig:
    grid = validate_grid(
        {
            "grid": {
                "models": ["tiny-qwen2"],
                "algorithms": ["grpo"],
                "stacks": ["openrlhf"],
                "groups": [8],
                "seeds": [0],
            },
            "models": {"tiny-qwen2": {"type": "tiny", "architecture": "qwen2"}},
            "algorithms": {"grpo": {"loss": "grpo"}},
            "training": {
                "steps": steps,
                "prompts_per_step": 16,
                "micro_batches": 4,
                "max_response_tokens": 60,
                "learning_rate": 1e-6,
                "checkpoint_every": 1000,
            },
        }
    )
    return grid.run(grid.cells()[0])
