"""TRL's completions: GRPOConfig(log_completions=True) writes OUTPUT_DIR/completions/completions_STEP.parquet.

Written by `GRPOTrainer.log` (trl/trainer/grpo_trainer.py, 1.16): columns step, prompt, completion, one per reward
function, what reward functions log besides, and advantage. The trainer holds the completions of one generation batch,
so that with logging_steps above 1 only the last rollout before each log is written, and one that several optimizer
steps train on is written again by each of them.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sagc.errors import UserError
from sagc.logs.form import Log
from sagc.logs.texts import LengthOfText, Response, step_of_texts

PATTERN = "completions_*.parquet"
MAGIC = b"PAR1"  # ends a Parquet file
NOTE = (
    "TRL's completions have no timings, so there are no hours; prompts per step are taken to stay as they are. "
    "Informative groups are those of unequal advantages."
)


def read(path: Path, files: Iterable[Path], tokenizer: str | None, limit: int | None) -> Log:
    """Read completions, a file per logged step; the newest is left out where it is half-written.

    The advantage stands for the reward: within a group the two are equal for the same responses, and no weights of
    reward functions are needed.

    Raises
    ------
    UserError
        For a file that is none of TRL's, a tokenizer that is missing, and groups that are none.
    """
    length = LengthOfText(tokenizer, limit, f"{path}, a log of TRL's completions,")
    notes, steps, last = [NOTE, length.note], [], None
    files = sorted(files)
    if len(files) > 1 and not files[-1].read_bytes().endswith(MAGIC):
        notes.append(f"{files[-1].name} is half-written and was left out.")
        files.pop()
    tables = sorted(((_read_table(file), file) for file in files), key=lambda item: int(item[0]["step"].iloc[0]))
    for table, file in tables:
        prompts, texts = map(_plain_text, table["prompt"]), map(_plain_text, table["completion"])
        responses = [Response(*row) for row in zip(prompts, texts, table["advantage"].tolist(), strict=True)]
        if responses != last:
            number = int(table["step"].iloc[0])
            steps.append(step_of_texts(f"step {number} ({file.name})", number, responses, length))
        last = responses
    if repeats := len(tables) - len(steps):
        notes.append(f"{repeats} of {len(tables)} files hold the rollout of the file before, and were left out.")
    numbers = [step.number for step in steps]
    if len(numbers) > 1 and (gap := max(b - a for a, b in itertools.pairwise(numbers))) > 1:
        notes.append(f"Not every step is there: up to {gap} lie between two that are (logging_steps, for instance).")
    return Log(str(path), steps, notes, limit)


def _read_table(file: Path):
    import pandas as pd
    import pyarrow

    try:
        table = pd.read_parquet(file)
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise UserError(f"{file} is not a Parquet file that is whole: {str(error).splitlines()[0]}") from None
    for name in ("step", "prompt", "completion", "advantage"):
        if name not in table:
            raise UserError(f"{file} lacks the column {name}, so it does not hold TRL's completions")
    if table.empty:
        raise UserError(f"{file} holds no completions")
    return table


def _plain_text(value: Any) -> str:
    """A text; of a conversation, what its messages say. Prompts only have to stay apart."""
    if isinstance(value, str):
        return value
    messages = [dict(message) for message in value]
    contents = [message.get("content") for message in messages]
    return "".join(text if isinstance(text, str) else json.dumps(text, default=str) for text in contents)
