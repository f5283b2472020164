"""Logs that hold texts in the place of token counts: how long a text was, and which responses make a group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sagc.errors import UserError
from sagc.logs.form import LoggedStep, group_matrix

TOLERANCE = 1.1  # times the limit that a text may have when it is tokenised again, before the tokenizer is in doubt
RETOKENISED = (
    "Lengths are those of the texts, tokenised again, which may differ from the tokens that were generated; the end "
    "token was added{unless}."
)


@dataclass(frozen=True)
class Response:
    """One response as a text log has it: `reward` is any value that is equal where rewards of a group are equal."""

    prompt: str
    text: str
    reward: float | None


class LengthOfText:
    """Counts the tokens of responses, end token included.

    Parameters
    ----------
    tokenizer : str or None
        Folder or Hub id, for transformers' AutoTokenizer.
    limit : int or None
        Most tokens that a response may have: one that long has no end token.
    what : str
        The kind of log, for the message where no tokenizer is named.

    Raises
    ------
    UserError
        For a tokenizer that is not named or cannot be loaded.
    """

    def __init__(self, tokenizer: str | None, limit: int | None, what: str):
        if tokenizer is None:
            raise UserError(f"{what} holds texts; name the run's tokenizer (folder or Hub id) with --tokenizer")
        from transformers import AutoTokenizer

        try:
            self._tokenizer = AutoTokenizer.from_pretrained(tokenizer)
        except (OSError, ValueError) as error:
            reason = str(error).strip().splitlines()[0]
            raise UserError(f"--tokenizer {tokenizer} cannot be loaded: {reason}") from None
        self.limit = limit

    @property
    def note(self) -> str:
        """What these lengths are."""
        unless = " unless the length is at the limit" if self.limit else "; with --max-tokens it is not at the limit"
        return RETOKENISED.format(unless=unless)

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """(texts,) tokens. Raises UserError for a text far beyond the limit, which another tokenizer made."""
        ids = self._tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
        counts = np.array([len(row) + 1 for row in ids], dtype=np.int64)
        if self.limit is None:
            return counts
        if counts.max(initial=0) > self.limit * TOLERANCE + 1:
            raise UserError(
                f"a response has {counts.max() - 1} tokens with this tokenizer, beyond the limit of {self.limit}; "
                "--tokenizer or --max-tokens is not the run's"
            )
        return np.minimum(counts, self.limit)


def step_of_texts(where: str, number: int, responses: Sequence[Response], length: LengthOfText) -> LoggedStep:
    """Group the responses of one step by their prompt and count their tokens.

    The group size is the smallest number of responses that a prompt has. A prompt that was drawn more than once has a
    multiple of it, and its responses are cut into as many groups: they are as good as drawn for either.

    Raises
    ------
    UserError
        Where a prompt's responses are no multiple of the group size, and what `group_matrix` raises.
    """
    members: dict[str, list[int]] = {}
    for index, response in enumerate(responses):
        members.setdefault(response.prompt, []).append(index)
    size = min(map(len, members.values()), default=0)
    rows = []
    for indices in members.values():
        whole = indices if len(indices) % size else None
        rows += [whole] if whole else [indices[i : i + size] for i in range(0, len(indices), size)]
    counts = length([response.text for response in responses])
    lengths = group_matrix(where, [counts[row].tolist() for row in rows], length.limit)
    values = np.array([np.nan if response.reward is None else response.reward for response in responses], dtype=float)
    rewards = None if np.isnan(values).all() else values[np.array(rows)]
    return LoggedStep(number, lengths, rewards, (len(rows),), len(rows))
