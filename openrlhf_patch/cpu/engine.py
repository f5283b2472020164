"""vLLM's engine on a CPU: what its process is given, and the worker extension that runs in it."""

import os

# Inherited by the engine's process, which vLLM starts.
ENGINE_ENVIRONMENT = {
    # The CPU sampler is compiled at the first generation: 25 to 33 s on a fresh machine, and no gain for small models.
    "TORCHDYNAMO_DISABLE": "1",
}
EXTENSION = "openrlhf_patch.cpu.worker.CpuWorker"


def engine_arguments(arguments: dict) -> dict:
    """Arguments of OpenRLHF's RolloutRayActor, for a CPU."""
    os.environ.update(ENGINE_ENVIRONMENT)
    return {**arguments, "worker_extension_cls": EXTENSION}
