"""The grid that the faults hit: one run, whose results can be held against those of an unbroken one."""

import contextlib
import hashlib
import itertools
import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Container
from pathlib import Path

import pandas as pd
import psutil

from sagc.config.run import RunConfig
from sagc.trace import StepRecord, read_trace
from tests.conftest import PROJECT, SECRETS, files_with_secrets
from tests.dag import SMALL, Project
from tests.limits import Deadline, wait_for
from tests.marks import command_of

PATIENCE = 300.0  # seconds of an idle machine that a call of Snakemake may take
POLL_S = 0.2  # a look at all processes takes some ten milliseconds
STEPS = {"vanilla": 24, "openrlhf": 8}
TIMES = re.compile(r"(^|_)(wall|rollout|train|sync|step|processor|idle_barrier)_(s$|vs_)")
# What a process of the grid is at work on, by a pattern in its command line.
PHASES = {
    "vLLM's engine": "VLLM::EngineCore",
    "Ray's workers": r"ray::\w+(Actor|Trainer)\b",
    "training": r"sagc\.cli train-job ",
    "evaluation": r"sagc\.cli evaluate-job ",
    "tables and report": r"-m analysis\.",
}
SHOWN = ("training", "evaluation", "tables and report")  # Ray and vLLM are there while the launcher trains


class FaultyGrid(Project):
    """A copy of the DAG with one run of a stack, and the Snakemake that is at work on it."""

    def __init__(self, folder: Path, stack: str, model: Path):
        super().__init__(folder, PROJECT)
        self.stack = stack
        self.snakemake_: subprocess.Popen | None = None
        self.calls = 0
        self.environment = os.environ | SECRETS | self.mark.environment
        training = {**SMALL["training"], "steps": STEPS[stack], "checkpoint_every": 2}
        self.write(
            {
                **SMALL,
                "grid": {**SMALL["grid"], "stacks": [stack], "groups": ["sagc"]},
                "models": {"tiny": {"type": "pretrained", "path": str(model)}},
                "controllers": {"sagc": {"delta": 0.65}},
                "training": training,
                "openrlhf": {"profile": "cpu", "profiles": {"cpu": {"device": "cpu", "attention": "sdpa"}}},
            }
        )
        self.run_folder = self.results / f"tiny/grpo/{stack}/sagc/seed0"
        self.log = folder / "output.log"

    def start(self) -> None:
        """Snakemake in the background, in a process group of its own, as a terminal gives it."""
        self.calls += 1
        with open(self.log, "ab") as log:
            self.snakemake_ = self.popen(
                "--cores", "1", stdout=log, stderr=log, env=self.environment, start_new_session=True
            )

    def finish(self) -> int:
        """Wait for Snakemake to end; its exit status, or TimeoutExpired."""
        return wait_for(self.snakemake_, PATIENCE)

    def at_work(self, phase: str) -> list[psutil.Process]:
        """The Python processes of a phase, children of a dead Snakemake too."""
        return sorted((p for p in self.mark.processes() if _phase(p) == phase), key=lambda process: process.pid)

    def phases(self) -> set[str]:
        """All that the grid is at work on."""
        return {phase for process in self.mark.processes() if (phase := _phase(process))}

    def phase(self) -> str:
        """The same in a word."""
        found = self.phases()
        return next((phase for phase in SHOWN if phase in found), "between jobs")

    def steps(self) -> int:
        trace = self.run_folder / "trace.jsonl"
        return len(trace.read_bytes().splitlines()) if trace.exists() else 0

    def checkpoints(self) -> list[Path]:
        """The sealed ones, the oldest first."""
        sealed = self.run_folder.glob("checkpoints/**/COMPLETE")
        return sorted((path.parent for path in sealed), key=lambda path: int(re.findall(r"\d+", path.name)[-1]))

    def kill(self, spared: Container[int] = ()) -> None:
        """SIGKILL of all that works on the grid, but the processes with these numbers."""
        for process in self.mark.processes():
            if process.pid not in spared:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()

    def end(self) -> None:
        """Whatever is left of a grid that went wrong."""
        self.kill()
        if self.snakemake_ is not None:
            self.snakemake_.wait()

    def wait_until(self, holds: Callable[[], bool], seconds: float = PATIENCE) -> bool:
        """Whether it came to hold before Snakemake ended; TimeoutError after so many seconds of an idle machine."""
        deadline = Deadline(seconds)
        while not holds():
            if self.snakemake_.poll() is not None:
                return False
            if deadline.passed():
                raise TimeoutError(f"nothing happens any more; {self.phase()}")
            time.sleep(POLL_S)
        return True

    def complaints(self, unbroken: "FaultyGrid") -> list[str]:
        """What is not as in an unbroken grid."""
        found = [f"{name} is not that of the unbroken grid" for name in different(self, unbroken)]
        if self.stack == "openrlhf":
            found += wrong_decisions(self)
        if left := [" ".join(command_of(process))[:200] for process in self.mark.processes()]:
            found.append(f"processes are left: {left}")
        if keys := files_with_secrets(self.folder):
            found.append(f"keys of the environment are in {keys}")
        if self.checkpoints():
            found.append("checkpoints are left")
        return found


def _phase(process: psutil.Process) -> str | None:
    command = command_of(process)
    if not command or command[0].endswith("sh"):
        return None
    return next((phase for phase, pattern in PHASES.items() if re.search(pattern, " ".join(command))), None)


def different(grid: FaultyGrid, unbroken: FaultyGrid) -> list[str]:
    """The results that differ, and where. Only times may, and on openrlhf what was generated: vLLM's random numbers are
    in no checkpoint."""
    ours, theirs = (results(each) for each in (grid, unbroken))
    return [f"{name} ({_where(ours[name], theirs[name])})" for name in theirs if ours[name] != theirs[name]]


def _where(ours, theirs) -> str:
    """The entries in which two results differ."""
    if isinstance(theirs, dict):
        return ", ".join(sorted(key for key in ours.keys() | theirs if ours.get(key) != theirs.get(key)))
    pairs = itertools.zip_longest(ours.splitlines(), theirs.splitlines()) if isinstance(theirs, str) else None
    pairs = enumerate(pairs or itertools.zip_longest(ours, theirs), start=1)
    return ", ".join(str(number) for number, (a, b) in pairs if a != b)


def results(grid: FaultyGrid) -> dict:
    trace = list(read_trace(grid.run_folder / "trace.jsonl"))
    table = pd.read_csv(grid.results / "summary.csv")
    if grid.stack == "openrlhf":
        columns = ["model", "algorithm", "stack", "group", "seed", "steps"]
        return {
            "the trace's steps": [record.step for record in trace],
            "the trace's prompts": [_prompts(record) for record in trace],
            "summary.csv": table[columns].to_csv(),
            "the set of files": _files(grid),
        }
    evaluation = json.loads((grid.run_folder / "eval/evaluation.json").read_text())
    times = {field for field in StepRecord.__dataclass_fields__ if field.endswith("_s")}
    return {
        "the trace": [{k: v for k, v in vars(record).items() if k not in times} for record in trace],
        "the model": {p.name: _hash(p) for p in (grid.run_folder / "model").iterdir() if p.name[0] != "."},
        "the evaluation": evaluation["benchmarks"],
        "summary.csv": table.drop(columns=list(filter(TIMES.search, table.columns))).to_csv(),
        "output_lengths.csv": (grid.results / "output_lengths.csv").read_text(),
        "the set of files": _files(grid),
    }


def _prompts(record: StepRecord) -> list[int]:
    """With one prompt's groups in any order: they are recorded as their rewards come in."""
    return sorted(record.prompt_index)


def _files(grid: FaultyGrid) -> list[str]:
    """Of the results, but logs and what hidden files hold locks."""
    below = (path.relative_to(grid.results) for path in grid.results.rglob("*") if path.is_file())
    kept = {path for path in below if path.parts[0] not in ("logs", "benchmarks") and path.name[0] != "."}
    return sorted({re.sub(r"events\.out\.tfevents.*", "events", str(path)) for path in kept})


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def wrong_decisions(grid: FaultyGrid) -> list[str]:
    """Steps whose group size is not what the controller says to the lengths of the steps before."""
    run = RunConfig.model_validate(json.loads((grid.run_folder / "config.json").read_text())["run"])
    controller, wrong = run.build_controller(), []
    for record in read_trace(grid.run_folder / "trace.jsonl"):
        if controller.group_size != record.group_size:
            wrong.append(f"step {record.step} has size {record.group_size}, not {controller.group_size}")
        controller.step(record.lengths)
    return wrong
