"""The tokenizer of the embedded task: one token per word, in Hugging Face format.

Tokenizing adds nothing: no beginning-of-sequence token, with or without `add_special_tokens`. TRL, OpenRLHF, vLLM and
lm-eval differ in that flag, and this way all of them feed the very ids that the warm start was trained on.

It is a Qwen2Tokenizer for both architectures, because AutoTokenizer takes no other class beside a Qwen2 model: it
rebuilds Qwen's pre-tokenizer and decoder from the vocabulary, whatever class was saved, and a tokenizer of another
kind comes back with other ids and no warning. Qwen's pre-tokenizer cuts numbers into digits, so every word is an
added token, which is matched first; the longest match wins. Its decoder joins tokens with nothing between them, so
words bring their own spaces: ` 12` is one token, and so is ` = 39`. Targets have tokens of their own: with those of
values, the sign of a trial is learnt so late that some seeds miss it.
"""

from __future__ import annotations

from transformers import AddedToken, Qwen2Tokenizer

from sagc.tiny.task import COEFFICIENTS, LARGEST_VALUE, OFFSETS, SOLUTIONS

SPECIAL_TOKENS = ("<pad>", "<bos>", "<eos>", "<unk>")


def words() -> list[str]:
    """The words of prompts and responses; guesses (`4`) and values (` 4`) are different tokens."""
    return [
        *(f"{coefficient}x" for coefficient in COEFFICIENTS),
        *(f" +{offset}" for offset in OFFSETS),
        *(f" = {target}" for target in range(LARGEST_VALUE + 1)),
        ":",
        *(str(guess) for guess in SOLUTIONS),
        *(f" {value}" for value in range(LARGEST_VALUE + 1)),
        *"<>=;!",
    ]


def build_tokenizer() -> Qwen2Tokenizer:
    """The tokenizer, ready for `save_pretrained`; it pads on the left, as generation needs."""
    tokenizer = Qwen2Tokenizer(
        vocab={token: index for index, token in enumerate(SPECIAL_TOKENS)},
        merges=[],
        pad_token="<pad>",
        bos_token="<bos>",
        eos_token="<eos>",
        unk_token="<unk>",
        padding_side="left",
    )
    tokenizer.add_tokens([AddedToken(word, normalized=False) for word in words()])
    return tokenizer
