"""Environment variables for vLLM, to be set before it is imported, wherever the project starts it."""

QUIET = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
ON_CPU = {
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # otherwise vLLM starts a worker process in addition to the engine's
}
# vLLM compiles its CPU sampler at the first generation: 25 to 33 s on a fresh machine, with no gain for small models.
# Only for the engine's process, because it turns off torch's compiler.
UNCOMPILED = {"TORCHDYNAMO_DISABLE": "1"}
