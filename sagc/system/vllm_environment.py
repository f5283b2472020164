"""What vLLM is told through its environment, wherever the project starts it: before vLLM is imported."""

QUIET = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
ON_CPU = {
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # otherwise vLLM starts a worker process beside its engine's
}
# The CPU sampler is compiled at the first generation: 25 to 33 s on a fresh machine, and no gain for small models. For
# the engine's process alone: it turns off torch's compiler.
UNCOMPILED = {"TORCHDYNAMO_DISABLE": "1"}
