"""verl's rollout dumps: with trainer.rollout_data_dir a folder of STEP.jsonl, a line per response.

Written by `RayPPOTrainer._dump_generations` (verl/trainer/ppo/ray_trainer.py): input, output, gts, score, step and what
the reward function adds; texts are decoded without special tokens. The batch may have been reordered to balance it over
processes, so that responses are grouped by their input.
"""

from __future__ import annotations

import re
from pathlib import Path

from sagc.errors import UserError
from sagc.logs.form import Log
from sagc.logs.texts import LengthOfText, Response, step_of_texts
from sagc.system.jsonl import numbered_lines, parse_object

NAME = re.compile(r"\d+\.jsonl")
NOTE = (
    "verl's dumps have no timings, so there are no hours; they hold the batch that was trained on, without groups that "
    "a filter dropped before; prompts per step are taken to stay as they are."
)


def read(path: Path, files: list[Path], tokenizer: str | None, limit: int | None) -> Log:
    """Read dumps, a file per step; the newest is left out where it is half-written.

    Raises
    ------
    UserError
        For a line that is none of verl's, a tokenizer that is missing, and groups that are none.
    """
    length = LengthOfText(tokenizer, limit, f"{path}, a rollout dump of verl,")
    notes, steps = [NOTE, length.note], []
    files = sorted(files, key=lambda file: int(file.stem))
    for file in files:
        content = file.read_bytes()
        if file == files[-1] and not content.endswith(b"\n"):
            notes.append(f"{file.name} is half-written and was left out.")
            continue
        responses = [_response(f"{file}, line {number}", line) for number, line in numbered_lines(content)]
        if not responses:
            raise UserError(f"{file} holds no responses")
        steps.append(step_of_texts(f"{file}", int(file.stem), responses, length))
    return Log(str(path), steps, notes, limit)


def _response(place: str, line: bytes) -> Response:
    try:
        entry = parse_object(line)
    except ValueError as error:
        raise UserError(f"{place}: {error}") from None
    prompt, text, score = (entry.get(name) for name in ("input", "output", "score"))
    number = score is None or isinstance(score, int | float)
    if not (isinstance(prompt, str) and isinstance(text, str) and "score" in entry and number):
        raise UserError(f"{place}: not a response of verl's, with input, output and score")
    try:
        return Response(prompt, text, None if score is None else float(score))
    except OverflowError:
        raise UserError(f"{place}: the score is beyond the largest number, 1.8e308") from None
