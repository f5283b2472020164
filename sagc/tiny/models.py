"""The embedded models: Qwen2 and Llama architectures of about a fifth of a million parameters each."""

from __future__ import annotations

import torch
from transformers import (
    GenerationConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Qwen2Config,
    Qwen2ForCausalLM,
)

ARCHITECTURES = {
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "llama": (LlamaConfig, LlamaForCausalLM),
}

# At this size the calls per token cost more than the arithmetic: two layers are the fewest that can copy, and one
# key-value head keeps the cache small.
SHAPE = {
    "hidden_size": 96,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "num_key_value_heads": 1,
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
}


def build_model(architecture: str, tokenizer: PreTrainedTokenizerBase, seed: int) -> PreTrainedModel:
    """A freshly initialised model in float32 whose defaults sample at temperature 1 from the full distribution.

    The weights depend on `seed` alone; torch's global random state is left as it was.

    Raises:
        ValueError: `architecture` is none of ARCHITECTURES.
    """
    if architecture not in ARCHITECTURES:
        raise ValueError(f"architecture is {architecture!r}; allowed: {', '.join(ARCHITECTURES)}")
    config_class, model_class = ARCHITECTURES[architecture]
    special = {
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
    }
    config = config_class(vocab_size=len(tokenizer), **SHAPE, **special)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = model_class(config)
    model.generation_config = GenerationConfig(do_sample=True, temperature=1.0, top_k=0, top_p=1.0, **special)
    return model
