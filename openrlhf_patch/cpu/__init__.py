"""What only a machine without CUDA needs, so that OpenRLHF, DeepSpeed and vLLM train there as on GPUs.

`install` is called by every module of this package that runs in a process of its own, before it imports OpenRLHF: the
driver, Ray's workers and vLLM's engine. It does nothing unless the launcher has found that there is no CUDA device and
has said so in the environment: in a Ray worker that holds no GPU, torch alone cannot tell.
openrlhf_patch/README.md lists every name that is patched.
"""

import os

from sagc.system import vllm_environment

ENVIRONMENT = "SAGC_OPENRLHF_CPU"  # set by openrlhf_patch/launch.py, inherited by all processes
EXTENSION = "openrlhf_patch.cpu.worker.CpuWorker"  # of vLLM's worker


def wanted() -> bool:
    """Whether this process belongs to a run on CPUs."""
    return os.environ.get(ENVIRONMENT) == "1"


def install() -> None:
    """Patch this process, once."""
    if not wanted() or getattr(install, "done", False):
        return
    install.done = True
    from openrlhf_patch.cpu import patches

    patches.apply()


def engine_arguments(arguments: dict) -> dict:
    """Arguments of OpenRLHF's RolloutRayActor, for a CPU."""
    os.environ.update(vllm_environment.UNCOMPILED)  # inherited by the engine's process, which vLLM starts
    return {**arguments, "worker_extension_cls": EXTENSION}
