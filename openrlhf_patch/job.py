"""What the launcher tells the processes of a run: the job, and when the command was started.

`say` writes a line of the start-up's profile into openrlhf.log: SAGC, and seconds since the command.
"""

import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

ENVIRONMENT = "SAGC_COMMAND_TIME"  # set by the launcher, inherited by all processes


@dataclass(frozen=True)
class Spec:
    """A job in JSON: the run, OpenRLHF's flags, and the files of the run; paths are absolute."""

    run: dict
    flags: list[str]
    data: str
    trace: str
    kept: str
    ray_folder: str

    def write(self, path: Path) -> Path:
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")
        return path

    @classmethod
    def read(cls, path: Path) -> "Spec":
        return cls(**json.loads(path.read_text(encoding="utf-8")))


def command_time() -> dict[str, str]:
    """For the environment of the driver: when this process, the command, was started."""
    return {ENVIRONMENT: str(psutil.Process().create_time())}


def say(what: str) -> None:
    """Write a line of the start-up's profile."""
    started = float(os.environ.get(ENVIRONMENT, time.time()))
    print(f"SAGC {time.time() - started:6.1f} s: {what}", flush=True)
