"""A copy of the project's DAG with a small grid, and Snakemake called on it as the README calls it."""

import copy
import functools
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import yaml

from tests.conftest import SECRETS
from tests.marks import Mark

SMALL = {
    "results": "results",
    "grid": {
        "models": ["tiny"],
        "algorithms": ["grpo"],
        "stacks": ["vanilla"],
        "groups": [4, "sagc-robust"],
        "seeds": [0],
    },
    "models": {"tiny": {"type": "tiny", "architecture": "qwen2", "warm_start": {"steps": 60}}},
    "algorithms": {"grpo": {"loss": "grpo"}},
    "controllers": {"sagc-robust": {"delta": 0.65}},
    "training": {"steps": 2, "prompts_per_step": 4, "max_response_tokens": 32, "checkpoint_every": 1},
    "evaluation": {
        "benchmarks": {"heldout": {"task": "tiny_heldout", "samples": 1}},
        "max_response_tokens": 32,
    },
    "logging": {"tensorboard": True},
}


class Project:
    """A copy of the workflow in a folder of its own."""

    def __init__(self, folder: Path, source: Path):
        self.folder = folder
        self.results = folder / "results"
        self.mark = Mark()  # of all that is started here
        shutil.copy(source / "Snakefile", folder)
        for name in ("workflow", "config", "profiles"):
            shutil.copytree(source / name, folder / name)
        (folder / "README.md").write_text("read me\n")
        self.write(SMALL)

    def write(self, config: dict) -> None:
        self.config = config
        (self.folder / "config" / "config.yaml").write_text(yaml.safe_dump(config))

    def change(self, path: str, value) -> None:
        """Set one key of config.yaml: `change("training.steps", 3)`."""
        config = copy.deepcopy(self.config)
        *parents, last = path.split(".")
        section = config
        for name in parents:
            section = section.setdefault(name, {})
        section[last] = value
        self.write(config)

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "snakemake", *arguments]

    def snakemake(self, *arguments: str) -> subprocess.CompletedProcess:
        environment = os.environ | SECRETS | self.mark.environment
        return subprocess.run(
            self.command(*arguments), cwd=self.folder, capture_output=True, text=True, env=environment
        )

    def popen(self, *arguments: str, **options) -> subprocess.Popen:
        """Snakemake in the background. It heeds SIGINT, which what a shell starts in the background would ignore."""
        heed = functools.partial(signal.signal, signal.SIGINT, signal.default_int_handler)
        environment = os.environ | self.mark.environment
        return subprocess.Popen(
            self.command(*arguments), cwd=self.folder, preexec_fn=heed, **{"env": environment, **options}
        )

    def run(self, *arguments: str) -> subprocess.CompletedProcess:
        done = self.snakemake("--cores", "2", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr + self.logs()
        return done

    def planned(self, *arguments: str) -> dict[str, int]:
        """Jobs per rule that a dry run lists, `all` left out."""
        done = self.snakemake("-n", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        output = done.stdout + done.stderr
        if "Nothing to be done" in output:
            return {}
        table = output.rpartition("Job stats:")[2].partition("total")[0]
        return {rule: int(count) for rule, count in re.findall(r"^(\w+) +(\d+)$", table, re.MULTILINE) if rule != "all"}

    def logs(self) -> str:
        files = sorted(self.results.glob("logs/**/*.log"))
        return "\n".join(f"== {file}\n{file.read_text()}" for file in files)
