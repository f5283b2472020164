"""The report over 32 made-up runs: of 70 steps of 8 prompts, and of 1 000 steps of 2 048 responses at most."""

import os
import resource
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path

from tests.made_results import make_run

GROUPS = ("4", "8", "16", "sagc")
CASES = ({"steps": 70, "prompts": 8}, {"steps": 1000, "prompts": 128})


def rows() -> list[dict]:
    """Seconds and peak memory of writing the report, the processes that draw included."""
    return [measure(**case) for case in CASES]


def measure(steps: int, prompts: int) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder)
        for model, algorithm, group, seed in product("ab", ("grpo", "dapo"), GROUPS, (0, 1)):
            make_run(results, group, seed, steps, prompts=prompts, model=model, algorithm=algorithm)
        megabytes = sum(path.stat().st_size for path in results.rglob("trace.jsonl")) / 1e6
        started = time.perf_counter()
        command = [sys.executable, "-m", "analysis.report.build", str(results)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=os.environ | {"OMP_NUM_THREADS": "1"})
        seconds = time.perf_counter() - started
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3  # of the largest process
        page = (results / "report.html").stat().st_size / 1e6
    return {
        "runs": 32,
        "steps": steps,
        "responses": f"{prompts * 16} at most",
        "wall_s": seconds,
        "peak_mb": peak,
        "traces_mb": megabytes,
        "page_mb": page,
    }
