"""The patches of a process without CUDA. Upstream: OpenRLHF 0.11.2, DeepSpeed 0.19.6."""

import importlib
import importlib.machinery
import importlib.util
import sys
import types

import torch

CPU = torch.device("cpu")


def apply() -> None:
    """Patch torch, OpenRLHF and DeepSpeed in this process."""
    _torch_cuda()
    _ring_attention()
    _replay_buffer()
    _strategy()
    _weight_sync()


def _torch_cuda() -> None:
    """OpenRLHF asks for the current device wherever it places a tensor, and waits for kernels."""
    torch.cuda.current_device = lambda: CPU
    for name in ("set_device", "synchronize", "empty_cache", "current_stream"):
        setattr(torch.cuda, name, lambda *arguments, **options: None)


def _ring_attention() -> None:
    """Import openrlhf.models.ring_attn_utils, which imports flash_attn at once and uses it for packed samples only.

    The stand-in is gone after that one import, so that transformers and vLLM never take it for flash attention.
    """
    if importlib.util.find_spec("flash_attn") is not None:
        return
    name = "openrlhf.models.ring_attn_utils"
    stand_ins = {
        "flash_attn": [],
        "flash_attn.bert_padding": ["index_first_axis", "pad_input", "rearrange", "unpad_input"],
        "flash_attn.utils": [],
        "flash_attn.utils.distributed": ["all_gather"],
    }
    for module, functions in stand_ins.items():
        sys.modules[module] = stand_in = types.ModuleType(module)
        stand_in.__path__, stand_in.__spec__ = [], importlib.machinery.ModuleSpec(module, None)
        for function in functions:
            setattr(stand_in, function, _needs_flash_attention)
    try:
        # By its path, for importing it by its name would first import its whole package.
        package = importlib.util.find_spec("openrlhf").submodule_search_locations[0]
        spec = importlib.util.spec_from_file_location(name, f"{package}/models/ring_attn_utils.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    finally:
        for stand_in in stand_ins:
            del sys.modules[stand_in]


def _needs_flash_attention(*arguments, **options):
    raise RuntimeError("packed samples and ring attention need flash attention, which there is not without CUDA")


def _replay_buffer() -> None:
    """NaiveReplayBuffer builds the device `cuda:{current device}`."""
    from openrlhf.trainer.ppo_utils.replay_buffer import NaiveReplayBuffer

    init = NaiveReplayBuffer.__init__

    def init_on_cpu(self, *arguments, **options):
        torch.cuda.current_device = lambda: 0
        try:
            init(self, *arguments, **options)
        finally:
            torch.cuda.current_device = lambda: CPU
        self.target_device = CPU

    NaiveReplayBuffer.__init__ = init_on_cpu


def _strategy() -> None:
    """The device mesh is asked for on "cuda"; DeepSpeed's fused Adam and shared-memory allreduce need a compiler."""
    from openrlhf.utils.deepspeed import deepspeed as strategy

    mesh, train_config = strategy.init_device_mesh, strategy.get_train_ds_config

    def get_train_ds_config(*arguments, **options):
        config = train_config(*arguments, **options)
        if "optimizer" in config:
            config["optimizer"]["params"]["torch_adam"] = True
        config["zero_optimization"]["offload_optimizer"]["pin_memory"] = False
        return config

    strategy.init_device_mesh = lambda device, *arguments, **options: mesh("cpu", *arguments, **options)
    strategy.get_train_ds_config = get_train_ds_config
    # Not `deepspeed.comm.torch`: the package imports PyTorch under the name of this module of its own.
    importlib.import_module("deepspeed.comm.torch").build_shm_op = lambda: None


def _weight_sync() -> None:
    """New weights go to vLLM through its TCP store, where there is no NCCL."""
    from openrlhf.utils import distributed_util

    distributed_util.stateless_init_process_group = store_group


class StoreGroup:
    """Stands in for vLLM's PyNcclCommunicator in the weight sync: broadcasts through a StatelessProcessGroup."""

    def __init__(self, group):
        self.group = group

    def broadcast(self, tensor: torch.Tensor, src: int, stream: None = None) -> None:
        """Fill `tensor` on every rank with that of rank `src`."""
        if self.group.rank != src:
            tensor.copy_(self.group.broadcast(None, src))
            return
        self.group.broadcast(tensor.detach().contiguous().cpu(), src)
        # All receivers have acknowledged the tensor before this one; only the last stays in the store.
        while len(self.group.entries) > 1:
            self.group.store.delete_key(self.group.entries.popleft()[0])


def store_group(master_address: str, master_port: int, rank: int, world_size: int, device: object) -> StoreGroup:
    """As openrlhf.utils.distributed_util.stateless_init_process_group, without NCCL."""
    from vllm.distributed.utils import StatelessProcessGroup

    return StoreGroup(StatelessProcessGroup.create(master_address, master_port, rank, world_size))
