"""Backend `hf`: lm-eval's HFLM, sampled in stages of doubling length.

Finished responses leave the batch between stages; a batch generated in one go waits for its longest response, which
dominates the time when lengths have a long tail. Sampling depends on nothing but the tokens so far, so the distribution
is the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sagc.config.sections import EvaluationConfig
from sagc.evaluation.engine import Engine, ModelFolder

if TYPE_CHECKING:
    from lm_eval.models.huggingface import HFLM

FIRST_STAGE = 32  # tokens; since stages double, the tokens re-read in prefill are no more than those generated
BATCHES_PER_PART = 8  # batches that go through the stages together and are written to the journal together


class StagedModel(Engine):
    """A model run by transformers, on the first GPU if there is one."""

    wrapped: HFLM

    def __init__(self, folder: ModelFolder, evaluation: EvaluationConfig):
        super().__init__(folder, evaluation)
        import torch
        from lm_eval.models.huggingface import HFLM
        from transformers import AutoModelForCausalLM, GenerationConfig

        tokenizer = folder.load_tokenizer()
        try:
            model = AutoModelForCausalLM.from_pretrained(
                folder.path,
                dtype="auto",
                local_files_only=True,
                use_safetensors=True,
                trust_remote_code=folder.trust_remote_code,
            )
        except (OSError, ValueError) as error:
            raise folder.refusal(error) from None
        ends = model.generation_config.eos_token_id or tokenizer.eos_token_id
        # Sampling defaults of the model folder (top-k, repetition penalty) are not part of the policy that was trained.
        model.generation_config = GenerationConfig(eos_token_id=ends)
        self.ends = frozenset(ends if isinstance(ends, list) else [ends])
        model.to("cuda" if torch.cuda.is_available() else "cpu")
        self.wrapped = HFLM(pretrained=model, tokenizer=tokenizer, batch_size=evaluation.batch_size)

    def sample(self, prompts: list[list[int]], done: frozenset[int]) -> Iterator[tuple[int, list[int], bool]]:
        """Generate in parts, each with its own seed; a part that is not entirely done is generated again in full."""
        order = sorted(range(len(prompts)), key=lambda number: len(prompts[number]))
        size = BATCHES_PER_PART * self.evaluation.batch_size
        for start in range(0, len(order), size):
            part = order[start : start + size]
            if done.issuperset(part):
                continue
            responses = self._sample_part([prompts[number] for number in part], self.seed_of("part", start))
            for number, tokens in zip(part, responses, strict=True):
                if number not in done:
                    yield number, tokens, tokens[-1] not in self.ends

    def _sample_part(self, prompts: list[list[int]], seed: int) -> list[list[int]]:
        import torch

        device = self.wrapped.device
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(seed)
            return self._in_stages(prompts)

    def _in_stages(self, prompts: list[list[int]]) -> list[list[int]]:
        limit, batch = self.evaluation.max_response_tokens, self.evaluation.batch_size
        responses: list[list[int]] = [[] for _ in prompts]
        active, end = list(range(len(prompts))), 0
        while active:
            start, end = end, min(max(2 * end, FIRST_STAGE), limit)
            going_on = []
            for first in range(0, len(active), batch):
                rows = active[first : first + batch]
                added = self._extend([prompts[i] + responses[i] for i in rows], end - start)
                for i, tokens in zip(rows, added, strict=True):
                    responses[i] += tokens
                going_on += [i for i in rows if len(responses[i]) < limit and responses[i][-1] not in self.ends]
            active = going_on
        return responses

    def _extend(self, sequences: list[list[int]], count: int) -> list[list[int]]:
        """Up to `count` more tokens per sequence, up to and including the first end token."""
        tokenizer, evaluation = self.wrapped.tokenizer, self.evaluation
        inputs = tokenizer.pad({"input_ids": sequences}, padding_side="left", return_tensors="pt")
        inputs = inputs.to(self.wrapped.device)
        sampling = {"do_sample": True, "temperature": evaluation.temperature, "top_k": 0, "top_p": evaluation.top_p}
        output = self.wrapped.model.generate(
            input_ids=inputs["input_ids"],
            attention_mask=inputs["attention_mask"],
            max_new_tokens=count,
            pad_token_id=tokenizer.pad_token_id,
            **(sampling if evaluation.temperature else {"do_sample": False}),
        )
        added = output[:, inputs["input_ids"].shape[1] :].tolist()
        ends = [next((n for n, token in enumerate(tokens, start=1) if token in self.ends), count) for tokens in added]
        return [tokens[:end] for tokens, end in zip(added, ends, strict=True)]
