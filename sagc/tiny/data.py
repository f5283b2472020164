"""The data sets of the embedded task, as JSON lines."""

from __future__ import annotations

import json
import random
from pathlib import Path

from sagc.system.files import folder_atomically
from sagc.tiny.task import SPLITS, Problem, all_problems


def load_problems(split: str) -> list[Problem]:
    """The problems of one split, in a fixed order.

    Raises:
        ValueError: `split` is none of SPLITS.
    """
    if split not in SPLITS:
        raise ValueError(f"split is {split!r}; allowed: {', '.join(SPLITS)}")
    return [problem for problem in all_problems() if problem.split == split]


def write_datasets(out_dir: Path, seed: int) -> dict[str, int]:
    """Make a folder of {train,heldout,harder}.jsonl; returns the rows per split.

    Fields are answer, id and the text: `prompt` in the training prompts and `problem` in the benchmarks, as a user's
    own files have it. What the folder held before is replaced. The seed sets the order of the rows and nothing else:
    the same seed gives the same bytes.
    """
    rows = {}
    with folder_atomically(Path(out_dir)) as partial:  # a folder that is there is taken to be whole
        for split in SPLITS:
            problems = load_problems(split)
            random.Random(f"{seed} {split}").shuffle(problems)
            text = "prompt" if split == "train" else "problem"
            lines = [json.dumps({text: p.prompt, "answer": p.answer, "id": p.id}) + "\n" for p in problems]
            (partial / f"{split}.jsonl").write_text("".join(lines), encoding="utf-8")
            rows[split] = len(lines)
    return rows
