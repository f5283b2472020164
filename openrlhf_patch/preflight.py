"""What is found out before anything heavy starts: one sentence for whatever cannot work."""

import importlib.util
import json
import os
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

from openrlhf_patch.flags import check_flags
from openrlhf_patch.groups import prompt_texts
from sagc.config.run import RunConfig
from sagc.config.sections import OpenRLHFProfile
from sagc.doctor.machine import gpu_count, missing_packages
from sagc.errors import UserError

# Measured on the embedded models: 0.6 to 0.9 GB for each of driver, trainer, policy and engine actor, 1.3 GB for the
# engine with a key-value cache of 1 GiB.
CPU_MEMORY_GB = 3.0
CPU_MEMORY_PER_PROCESS_GB = 1.0
NOT_SAFE = ("*.bin", "*.pt", "*.pth")  # pickles


@dataclass(frozen=True)
class Prompts:
    """What the launch needs to know of the prompts: tokens of the longest, and whether they are chat messages."""

    tokens: int
    chat: bool


def check(run: RunConfig) -> None:
    """Refuse a run that this machine cannot train. Raises UserError."""
    if missing := missing_packages("openrlhf"):
        raise UserError(f"stack 'openrlhf' needs {', '.join(missing)}, which is not installed; run make setup")
    check_flags(run, upstream_flags())
    _check_device(run.openrlhf)
    _check_ray(run.openrlhf)
    if run.openrlhf.device == "cpu":
        _check_memory(run.openrlhf)


@cache
def upstream_flags() -> frozenset[str]:
    """Names of the flags of OpenRLHF's CLI, read from its source: its parser exists only while it runs."""
    (package,) = importlib.util.find_spec("openrlhf").submodule_search_locations
    source = (Path(package) / "cli" / "train_ppo_ray.py").read_text(encoding="utf-8")
    names = re.findall(r'add_argument\(\s*f?"--([a-z_0-9.{}]+)"', source)
    return frozenset(name.replace("{prefix}", prefix) for name in names for prefix in ("actor", "critic"))


def _check_device(profile: OpenRLHFProfile) -> None:
    devices = gpu_count()
    if profile.device == "cpu":
        if devices:
            raise UserError(
                f"the openrlhf profile has device: cpu, and this machine has {devices} GPUs; "
                "choose a profile with device: cuda (openrlhf.profile)"
            )
    elif profile.ray_address is None and devices < profile.gpus:
        raise UserError(
            f"the openrlhf profile needs {profile.gpus} GPUs, and this machine has {devices}; "
            "choose another with openrlhf.profile"
        )


def _check_ray(profile: OpenRLHFProfile) -> None:
    """A cluster has to answer; a Ray of our own takes free ports and starts beside any other."""
    if profile.ray_address is None:
        return
    address = os.environ.get("RAY_ADDRESS") if profile.ray_address == "auto" else profile.ray_address
    if address is None:
        from ray._private.services import find_gcs_addresses

        if not find_gcs_addresses():
            raise UserError("openrlhf.ray_address is 'auto', and no Ray cluster runs on this machine; `ray start` it")
        return
    import socket

    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, ValueError):
        raise UserError(f"openrlhf.ray_address is {address!r}, and no Ray cluster answers there") from None


def _check_memory(profile: OpenRLHFProfile) -> None:
    needed = CPU_MEMORY_GB + CPU_MEMORY_PER_PROCESS_GB * profile.gpus
    available = psutil.virtual_memory().available / 1e9
    if available < needed:
        raise UserError(
            f"the openrlhf stack needs about {needed:.0f} GB of memory for its engines, and {available:.1f} GB are free"
        )


def check_gpu_memory(profile: OpenRLHFProfile, model: Path) -> None:
    """Refuse a model whose weights alone leave vLLM no memory for its key-value cache. Raises UserError.

    Only the GPUs of this machine can be asked; those of a cluster are not.
    """
    import torch

    if profile.device == "cpu" or profile.ray_address:
        return
    weights = sum(file.stat().st_size for file in model.glob("*.safetensors")) / profile.tensor_parallel / 1e9
    for device in range(profile.gpus):
        free, total = (value / 1e9 for value in torch.cuda.mem_get_info(device))
        allowed = total * profile.gpu_memory_utilization
        if weights > 0.9 * min(free, allowed):
            raise UserError(
                f"GPU {device} has {free:.0f} of {total:.0f} GB free, of which gpu_memory_utilization allows vLLM "
                f"{allowed:.0f} GB, and the weights alone take {weights:.0f} GB"
            )


def local_model(run: RunConfig, model: str) -> str:
    """The folder of the model, which is fetched from the Hub where it is none: all processes load the same files.

    Raises UserError for a model that cannot be found, for one with code of its own that the config does not trust,
    which OpenRLHF would run in any case, and for one without safetensors.
    """
    pretrained = run.model.type == "pretrained"
    folder = Path(model)
    if not folder.is_dir():
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HFValidationError

        try:
            revision = run.model.revision if pretrained else None
            folder = Path(
                snapshot_download(model, revision=revision, ignore_patterns=["original/*", *NOT_SAFE, "*.gguf"])
            )
        except (OSError, HFValidationError) as error:
            raise UserError(f"model {model} cannot be loaded: {str(error).splitlines()[0]}") from error
    if _has_own_code(folder) and not (pretrained and run.model.trust_remote_code):
        raise UserError(f"model {model} has code of its own, which OpenRLHF would run; allow it with trust_remote_code")
    if not any(folder.glob("*.safetensors")):
        raise UserError(f"model {model} has no .safetensors file; other formats can run code when they are loaded")
    return str(folder.absolute())


def _has_own_code(folder: Path) -> bool:
    files = [folder / name for name in ("config.json", "tokenizer_config.json")]
    return any("auto_map" in json.loads(file.read_text(encoding="utf-8")) for file in files if file.exists())


def measure_prompts(run: RunConfig, model: str, rows: list[dict]) -> Prompts:
    """Load the tokenizer of a local model and measure the prompts.

    Raises
    ------
    UserError
        For a model that cannot be loaded, a tokenizer without an end token or a chat template that is needed, and
        prompts some of which are text and some messages.
    """
    from transformers import AutoConfig, AutoTokenizer

    trust = run.model.type == "pretrained" and run.model.trust_remote_code
    try:
        AutoConfig.from_pretrained(model, trust_remote_code=trust)
        tokenizer = AutoTokenizer.from_pretrained(model, trust_remote_code=trust)
    except (OSError, ValueError) as error:
        raise UserError(f"model {model} cannot be loaded: {str(error).splitlines()[0]}") from error
    if tokenizer.eos_token_id is None:
        raise UserError(f"model {model} has a tokenizer without an end token, so no response would ever end")
    prompts = [row["prompt"] for row in rows]
    chat = isinstance(prompts[0], list)
    if any(isinstance(prompt, list) != chat for prompt in prompts):
        raise UserError("the training data mixes prompts that are text with prompts that are messages")
    if chat and tokenizer.chat_template is None:
        raise UserError(f"the prompts are messages, and model {model} has no chat template")
    tokens = max(map(len, tokenizer(prompt_texts(tokenizer, prompts), add_special_tokens=False)["input_ids"]))
    return Prompts(tokens, chat)
