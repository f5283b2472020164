"""The extension of vLLM's worker: receives new weights on the worker's own device, and keeps them in use.

vLLM imports this module in its engine process before it loads the model.
"""

import torch
from openrlhf.trainer.ray.vllm_worker_wrap import WorkerWrap
from vllm.model_executor.layers import utils as linear

from openrlhf_patch.cpu.patches import store_group


def _unpacked_gemm(layer: torch.nn.Module, remove_weight: bool) -> None:
    """Never pre-pack: vLLM frees the weight after packing it, and weights that are synced later would not be used."""
    layer.cpu_linear = torch.nn.functional.linear


linear.dispatch_cpu_unquantized_gemm = _unpacked_gemm


class CpuWorker(WorkerWrap):
    """WorkerWrap without "cuda": upstream's receives into a tensor on that device."""

    def init_process_group(
        self, master_address, master_port, rank_offset, world_size, group_name, backend="gloo", use_ray=False
    ):
        rank = torch.distributed.get_rank() + rank_offset
        self._model_update_group = store_group(master_address, master_port, rank, world_size, self.device)

    def update_weight(self, name, dtype, shape, empty_cache=False):
        if dtype != self.model_config.dtype:
            raise ValueError(f"weight {name} comes as {dtype}, and vLLM holds {self.model_config.dtype}")
        weight = torch.empty(shape, dtype=dtype, device=self.device)
        self._model_update_group.broadcast(weight, src=0)
        self.model_runner.model.load_weights(weights=[(name, weight)])
