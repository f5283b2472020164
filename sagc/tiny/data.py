"""The data sets of the embedded task, as JSON lines."""

from __future__ import annotations

import json
import random
from pathlib import Path

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
    """Write {train,heldout,harder}.jsonl with the fields prompt, answer and id; returns the rows per split.

    The seed sets the order of the rows and nothing else: the same seed gives the same bytes.
    """
    out_dir = Path(out_dir)
    out_dir.mkdir(parents=True, exist_ok=True)
    rows = {}
    for split in SPLITS:
        problems = load_problems(split)
        random.Random(f"{seed} {split}").shuffle(problems)
        lines = [json.dumps({"prompt": p.prompt, "answer": p.answer, "id": p.id}) + "\n" for p in problems]
        (out_dir / f"{split}.jsonl").write_text("".join(lines), encoding="utf-8")
        rows[split] = len(lines)
    return rows
