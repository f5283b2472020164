"""What a config needs that this machine lacks: the second half of `sagc doctor --config FILE`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from sagc.config.grid import GridConfig
from sagc.config.run import RunConfig
from sagc.config.sections import JobConfig
from sagc.doctor.machine import gpu_count, memory_gb, missing_packages, not_installed
from sagc.errors import UserError
from sagc.evaluation.problems import BENCHMARKS, problems_folder, read_source, task_file

if TYPE_CHECKING:
    from huggingface_hub.hf_api import ModelInfo

REWARD_PACKAGES = {"math": ("math_verify", "pebble")}
EVALUATION_PACKAGES = {"hf": ("lm_eval", "transformers", "torch"), "vllm": ("lm_eval", "vllm")}
ASK_HUB_S = 5.0  # seconds that the Hub has to answer
# Bytes on disk per byte of a model in 16 bits: the trained model, and two checkpoints of 14 bytes per parameter
# (weights in 16 bits, and in 32 bits the weights and two moments of AdamW) while it trains.
MODEL_SHARE, CHECKPOINTS_SHARE = 1.0, 14.0


@dataclass(frozen=True)
class Need:
    """Something that the config needs, and what about it is missing here; None where nothing is."""

    name: str
    lack: str | None = None
    note: str = ""  # on what is there

    def __str__(self) -> str:
        return f"missing  {self.name}: {self.lack}" if self.lack else f"ok       {self.name}{self.note}"


def needs(grid: GridConfig) -> Iterator[Need]:
    """Everything that the grid needs: packages, models, data, benchmarks, GPUs, processors, memory and disk."""
    runs = [grid.run(cell) for cell in grid.cells()]
    yield from _packages(grid, runs)
    yield from _models(runs)
    yield _training_data(grid)
    yield from _benchmarks(grid)
    yield from _machine(grid, runs)
    yield _disk(grid, runs)


def _packages(grid: GridConfig, runs: list[RunConfig]) -> Iterator[Need]:
    wanted = {f"stack {stack}": missing_packages(stack) for stack in dict.fromkeys(run.cell.stack for run in runs)}
    wanted[f"reward {grid.reward}"] = not_installed(REWARD_PACKAGES.get(grid.reward, ()))
    if grid.evaluation.benchmarks:
        backend = grid.evaluation.backend
        wanted[f"evaluation backend {backend}"] = not_installed(EVALUATION_PACKAGES[backend])
    for package, asked in (("tensorboard", grid.logging.tensorboard), ("wandb", grid.logging.wandb)):
        if asked:
            wanted[f"logging.{package}"] = not_installed([package])
    for name, missing in wanted.items():
        yield Need(name, f"{', '.join(missing)} not installed" if missing else None)


def _models(runs: list[RunConfig]) -> Iterator[Need]:
    for name, model in {run.cell.model: run.model for run in runs}.items():
        if model.type == "tiny":
            yield Need(f"model {name}", note=": made here")
        elif Path(model.path).is_dir():
            weights = list(Path(model.path).glob("*.safetensors"))
            lack = None if weights else f"the folder {model.path} has no .safetensors file"
            yield Need(f"model {name}", lack, f": {model.path}")
        else:
            yield _hub_model(name, model.path, model.revision)


def _hub_model(name: str, path: str, revision: str | None) -> Need:
    if folder := _cached(path, revision, "model"):
        whole = any(folder.glob("*.safetensors"))
        return Need(
            f"model {name}", None if whole else f"{path} is in the local cache without its weights", f": {path}"
        )
    size, problem = _on_the_hub(path, revision)
    download = f"{size:.1f} GB to download" if size else "its size is not known"
    return Need(f"model {name}", f"{path} is not in the local cache ({download}; {problem or f'`hf download {path}`'})")


@cache
def _on_the_hub(path: str, revision: str | None) -> tuple[float | None, str | None]:
    """Size in GB of a model's files on the Hub, and what keeps it from being fetched."""
    import httpx
    from huggingface_hub import HfApi, errors

    try:
        info: ModelInfo = HfApi().model_info(path, revision=revision, timeout=ASK_HUB_S, files_metadata=True)
        HfApi().auth_check(path)
    except errors.GatedRepoError:
        return None, f"gated: accept its licence at https://huggingface.co/{path} and `hf auth login`"
    except errors.RepositoryNotFoundError:
        return None, "no such model on the Hub, or one that needs an account"
    except errors.RevisionNotFoundError:
        return None, f"the Hub has no revision {revision}"
    except (httpx.HTTPError, OSError) as error:
        return None, f"the Hub does not answer: {type(error).__name__}"
    return sum(file.size or 0 for file in info.siblings if file.rfilename.endswith(".safetensors")) / 1e9, None


def _cached(path: str, revision: str | None, kind: str) -> Path | None:
    """The folder of a snapshot in the local cache."""
    from huggingface_hub import errors, snapshot_download

    try:
        return Path(snapshot_download(path, repo_type=kind, revision=revision, local_files_only=True))
    except (errors.LocalEntryNotFoundError, errors.HFValidationError):
        return None


def _training_data(grid: GridConfig) -> Need:
    if grid.data.type == "tiny":
        return Need("training data", note=": made here")
    name = f"training data {grid.data.path}"
    if grid.data.type == "jsonl":
        return Need(name, None if Path(grid.data.path).is_file() else "no such file")
    return _hub_data(name, grid.data.path, grid.data.revision)


def _hub_data(name: str, path: str, revision: str) -> Need:
    if _cached(path, revision, "dataset"):
        return Need(name)
    fetch = f"`hf download --repo-type dataset {path} --revision {revision}`, which needs an account if it is gated"
    return Need(name, f"{path} is not in the local cache: {fetch}")


def _benchmarks(grid: GridConfig) -> Iterator[Need]:
    for name, benchmark in grid.evaluation.benchmarks.items():
        title = f"benchmark {name}"
        try:
            source = read_source(task_file(benchmark, BENCHMARKS))
        except UserError as error:
            yield Need(title, str(error))
            continue
        folder = problems_folder(benchmark, source, Path())
        if benchmark.data_dir is not None:
            file = Path(folder) / source.file
            yield Need(title, None if file.is_file() else f"{file} does not exist", f": {file}")
        elif source.hub:
            yield _hub_data(title, source.hub.path, source.hub.revision)
        else:
            yield Need(title, note=": made here")


def _machine(grid: GridConfig, runs: list[RunConfig]) -> Iterator[Need]:
    """What one job of each kind asks of this machine; on a cluster its nodes have to have it."""
    stacks = {run.cell.stack for run in runs}
    jobs = {"train": grid.jobs.train} if "vanilla" in stacks else {}
    if "openrlhf" in stacks:
        jobs["train_openrlhf"] = grid.jobs.train_openrlhf
    if grid.evaluation.benchmarks:
        jobs["evaluate"] = grid.jobs.evaluate
    for name, job in jobs.items():
        yield _job(f"job {name}", job, _profile_gpus(runs) if name == "train_openrlhf" else 0)


def _profile_gpus(runs: list[RunConfig]) -> int:
    """GPUs of this machine that the openrlhf stack takes; a cluster has its own."""
    profiles = [run.openrlhf for run in runs if run.openrlhf]
    return max((p.gpus for p in profiles if p.device == "cuda" and p.ray_address is None), default=0)


def _job(name: str, job: JobConfig, profile_gpus: int) -> Need:
    lacks = []
    if (wanted := max(job.gpus, profile_gpus)) > (here := gpu_count()):
        lacks.append(f"{wanted} GPUs, and {here} are here")
    if job.threads > (here := len(os.sched_getaffinity(0))):
        lacks.append(f"{job.threads} processors, and {here} are here")
    if job.mem_mb / 1e3 > memory_gb():
        lacks.append(f"{job.mem_mb / 1e3:.0f} GB of memory, and {memory_gb():.0f} are here")
    return Need(name, "needs " + "; ".join(lacks) if lacks else None)


def _disk(grid: GridConfig, runs: list[RunConfig]) -> Need:
    """The trained models of all runs, and the checkpoints of one at a time."""
    existing = next(
        folder for folder in (Path(grid.results), *Path(grid.results).absolute().parents) if folder.exists()
    )
    free = shutil.disk_usage(existing).free / 1e9
    sizes = {run.cell.model: _model_gb(run) for run in runs}
    if unknown := [name for name, size in sizes.items() if size is None]:
        return Need("disk", f"{free:.0f} GB are free; what is needed is not known without {', '.join(unknown)}")
    needed = sum(sizes[run.cell.model] * MODEL_SHARE for run in runs) + max(sizes.values()) * CHECKPOINTS_SHARE
    lack = f"needs about {needed:.0f} GB, and {free:.0f} GB are free" if needed > free else None
    return Need("disk", lack, f": needs about {needed:.0f} GB of {free:.0f} GB free")


def _model_gb(run: RunConfig) -> float | None:
    """Size of a model's weights in GB, where it can be known."""
    if run.model.type == "tiny":
        return 0.001
    folder = (
        Path(run.model.path) if Path(run.model.path).is_dir() else _cached(run.model.path, run.model.revision, "model")
    )
    if folder is None:
        return _on_the_hub(run.model.path, run.model.revision)[0]
    return sum(file.stat().st_size for file in folder.glob("*.safetensors")) / 1e9
