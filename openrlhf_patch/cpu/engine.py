"""vLLM's engine on a CPU: what its process is given, and the worker extension that runs in it."""

import os

from sagc.system import vllm_environment

EXTENSION = "openrlhf_patch.cpu.worker.CpuWorker"


def engine_arguments(arguments: dict) -> dict:
    """Arguments of OpenRLHF's RolloutRayActor, for a CPU."""
    os.environ.update(vllm_environment.UNCOMPILED)  # inherited by the engine's process, which vLLM starts
    return {**arguments, "worker_extension_cls": EXTENSION}
