"""How responses are generated for lm-eval: the part that both backends share."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from sagc.config.sections import EvaluationConfig
from sagc.errors import UserError
from sagc.evaluation.journal import Journal, Response

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance
    from lm_eval.api.model import TemplateLM


@dataclass(frozen=True)
class ModelFolder:
    """A run's model: where it is, and how the run's config says to load and prompt it."""

    path: Path
    trust_remote_code: bool = False
    chat: bool = False  # prompts go through the tokenizer's chat template

    def load_tokenizer(self):
        """The tokenizer.

        Raises
        ------
        UserError
            If the folder holds no model, or the config asks for a chat template that the tokenizer lacks.
        """
        from transformers import AutoTokenizer

        try:
            tokenizer = AutoTokenizer.from_pretrained(
                self.path, local_files_only=True, trust_remote_code=self.trust_remote_code
            )
        except (OSError, ValueError) as error:
            raise self.refusal(error) from None
        if self.chat and tokenizer.chat_template is None:
            raise UserError(f"the run's model has chat: true, and {self.path} has no chat template")
        return tokenizer

    def dtype(self) -> str:
        """The weights' type, by its name in torch, for engines that would otherwise choose their own."""
        from transformers import AutoConfig

        options = {"local_files_only": True, "trust_remote_code": self.trust_remote_code}
        return str(AutoConfig.from_pretrained(self.path, **options).dtype or "auto").removeprefix("torch.")

    def refusal(self, error: Exception) -> UserError:
        """A loading error as one sentence."""
        return UserError(f"{self.path} cannot be loaded as a model: {str(error).splitlines()[0]}")


class Engine(ABC):
    """A model for `lm_eval.evaluate` that wraps lm-eval's own.

    It does not inherit from it, so that importing this module needs neither torch nor lm-eval.

    Attributes
    ----------
    wrapped : lm_eval.api.model.TemplateLM
        Tokenizes, decodes and applies the chat template.
    journal_at : Path
        File that keeps the responses to the next benchmark; those already in it are not generated again.
    on_response : callable, optional
        Called with the problem and the text of every response of that benchmark.
    """

    rank, world_size = 0, 1
    wrapped: TemplateLM
    journal_at: Path
    on_response: Callable[[dict[str, Any], str], None] | None = None

    def __init__(self, folder: ModelFolder, evaluation: EvaluationConfig):
        self.folder, self.evaluation = folder, evaluation

    def apply_chat_template(self, messages: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        return self.wrapped.apply_chat_template(messages, add_generation_prompt)

    @property
    def tokenizer_name(self) -> str:
        return self.wrapped.tokenizer_name

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[Response]:
        """One response per request, in order; only the end token ends a response, as in training.

        Raises
        ------
        UserError
            If the task sets stop strings, or prompt and response do not fit the model's context.
        """
        settings = requests[0].args[1]
        # A chat template writes the special tokens itself.
        special = {"add_special_tokens": False} if self.folder.chat else {}
        ids = {text: self.wrapped.tok_encode(text, **special) for text in {request.args[0] for request in requests}}
        prompts = [ids[request.args[0]] for request in requests]
        self._check(settings, longest_prompt=max(map(len, prompts)))
        journal = Journal(self.journal_at, self._key(prompts))
        known = journal.responses
        with tqdm(total=len(requests), initial=len(known), unit="response", disable=disable_tqdm or None) as bar:
            bar.set_description(requests[0].task_name)
            for number, tokens, cut_off in self.sample(prompts, frozenset(known)):
                text = self.wrapped.tokenizer.decode(tokens, skip_special_tokens=True)
                journal.add(number, Response(text, len(tokens), cut_off))
                if self.on_response:
                    self.on_response(requests[number].doc, text)
                bar.update()
        return [known[number] for number in range(len(requests))]

    def close(self) -> None:
        """Free the model's memory for the next one."""
        del self.wrapped

    @abstractmethod
    def sample(self, prompts: list[list[int]], done: frozenset[int]) -> Iterator[tuple[int, list[int], bool]]:
        """Yield responses to the prompts whose number is not `done`, as they arrive, in any order.

        A response does not depend on which others are done. Each comes with the number of its prompt, its token ids
        (end token included), and whether the limit cut it off.
        """

    def seed_of(self, *names: Any) -> int:
        """A separate seed for each named part of the sampling, derived from the evaluation's seed."""
        digest = hashlib.sha256(":".join(map(str, (self.evaluation.seed, *names))).encode()).digest()
        return int.from_bytes(digest[:4], "big") >> 1

    def _key(self, prompts: list[list[int]]) -> str:
        """A hash of everything that the responses depend on."""
        files = [
            (path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in sorted(self.folder.path.iterdir())
        ]
        settings = self.evaluation.model_dump(mode="json", exclude={"benchmarks"})
        return hashlib.sha256(json.dumps([files, settings, prompts]).encode()).hexdigest()[:16]

    def _check(self, settings: dict[str, Any], longest_prompt: int) -> None:
        if settings["until"]:
            raise UserError(f"generation_kwargs.until is {settings['until']}; only the end token may end a response")
        if longest_prompt + settings["max_gen_toks"] > self.wrapped.max_length:
            raise UserError(
                f"evaluation.max_response_tokens is {settings['max_gen_toks']}; with prompts of {longest_prompt} "
                f"tokens the model's context allows at most {self.wrapped.max_length - longest_prompt}"
            )
