"""Step time of the openrlhf stack at a constant group size beside OpenRLHF's own: `python -m tests.bench openrlhf`.

Both train the same random model with the same flags; in every rollout some of the 128 responses reach the limit, so
that every step does nearly the same work. The times are those that OpenRLHF logs of every step. The two take turns,
A B B A, and the ratio is that of the medians over all steps but the first ones of each run. Target: a ratio under 1.02.
"""

import os
import re
import statistics
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from openrlhf_patch.flags import build_flags
from openrlhf_patch.job import Spec
from openrlhf_patch.launch import environment
from openrlhf_patch.processes import run_to_end
from sagc.config import RunConfig, validate_grid
from sagc.tiny.data import write_datasets
from sagc.tiny.models import build_model
from sagc.tiny.tokenizer import build_tokenizer

PROJECT = Path(__file__).resolve().parents[2]
STEPS, WARM_UP = 16, 2
TURNS = ("stock", "sagc", "sagc", "stock")
PHASES = ("step_total", "generation", "make_experience", "ppo_train", "broadcast")


def rows() -> list[dict]:
    """One row per trainer: median seconds per step and phase, and the ratio of the steps to the stock trainer's."""
    steps = {"stock": [], "sagc": []}
    with tempfile.TemporaryDirectory(prefix="sagc-") as scratch:
        folder = Path(scratch)
        _write_model(folder / "model")
        write_datasets(folder / "data", seed=0)
        for turn, trainer in enumerate(TURNS):
            print(f"run {turn + 1} of {len(TURNS)}", file=sys.stderr)
            steps[trainer] += _run(trainer, folder, turn)[WARM_UP:]
    return [_row(trainer, steps[trainer], steps["stock"]) for trainer in steps]


def _row(trainer: str, steps: list[dict], stock: list[dict]) -> dict:
    medians = {phase: statistics.median(step[phase] for step in steps) for phase in PHASES}
    total = statistics.median(step["step_total"] for step in stock)
    ratio = round(medians["step_total"] / total, 3)
    seconds = {f"{phase}_s": round(value, 3) for phase, value in medians.items()}
    return {"trainer": trainer, "steps": len(steps), **seconds, "ratio_to_stock": ratio}


def _write_model(folder: Path) -> None:
    """A random model: it ends a response after 287 tokens on average."""
    tokenizer = build_tokenizer()
    build_model("qwen2", tokenizer, seed=0).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _run(trainer: str, folder: Path, turn: int) -> list[dict[str, float]]:
    """The times of every step, by phase."""
    run, place = _run_config(), folder / f"run{turn}"
    place.mkdir()
    data = folder / "data" / "train.jsonl"
    flags = build_flags(
        run, str(folder / "model"), data, place / "checkpoints", place / "model", prompt_tokens=8, chat=False, seed=1
    )
    if trainer == "stock":
        hook = flags.index("--train.agent_func_path")
        flags[hook : hook + 2] = ["--reward.remote_url", str(Path(__file__).with_name("openrlhf_reward.py"))]
        prompts = run.training.steps * run.training.prompts_per_step
        flags += ["--data.max_samples", str(prompts)]
    spec = Spec(run.model_dump(mode="json"), flags, str(data), str(place / "trace.jsonl"), str(place))
    module = "tests.bench.openrlhf_stock" if trainer == "stock" else "openrlhf_patch.driver"
    command = [sys.executable, "-m", module, str(spec.write(place / "job.json"))]
    variables = {**environment(run), "PYTHONPATH": str(PROJECT)}
    status = run_to_end(command, variables, place / "log", lambda: None)
    log = (place / "log").read_text(encoding="utf-8", errors="replace")
    if status:
        raise RuntimeError(f"{trainer} ended with exit status {status}:\n{log[-5000:]}")
    lines = [line for line in log.splitlines() if "Global step" in line]
    return [{phase: float(re.search(rf"'timing/{phase}': ([\d.e-]+)", line)[1]) for phase in PHASES} for line in lines]


def _run_config() -> RunConfig:
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
                "steps": STEPS,
                "prompts_per_step": 16,
                "micro_batches": 4,
                "max_response_tokens": 60,
                "learning_rate": 1e-6,
                "checkpoint_every": 1000,
            },
        }
    )
    return grid.run(grid.cells()[0])
