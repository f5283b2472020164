"""Checks mathematical answers with math-verify, in processes that can be killed.

math-verify parses LaTeX with SymPy, and some answers keep it busy for hours. Its own time-out is a signal, which works
in the main thread only; OpenRLHF rewards in others. Here an answer that takes too long ends its process and is wrong.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
from concurrent.futures import TimeoutError
from functools import cache

from pebble import ProcessPool

TIMEOUT_S = 5.0  # per answer
LONGEST = 20_000  # characters of a response that are read, from its end: the answer comes last


def verify(response: str, answer: str) -> bool:
    """Whether the response's last answer equals `answer`; in this process, however long it takes.

    The response may box its answer or write it as LaTeX or a number; `answer` is a number or a LaTeX expression.
    """
    from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse
    from math_verify import verify as equal

    kinds = [LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig()]
    gold = parse(f"${answer}$", kinds, parsing_timeout=None)
    found = parse(response[-LONGEST:], kinds, parsing_timeout=None)
    return bool(gold and found and equal(gold, found, timeout_seconds=None))


def verify_all(responses: list[str], answers: list[str], timeout: float = TIMEOUT_S) -> list[bool]:
    """`verify` for each pair, in other processes; False for a pair that takes more than `timeout` seconds."""
    if len(responses) != len(answers):
        raise ValueError(f"{len(responses)} responses and {len(answers)} answers")
    tasks = [_pool().schedule(verify, pair, timeout=timeout) for pair in zip(responses, answers, strict=True)]
    return [_result(task) for task in tasks]


def _result(task) -> bool:
    try:
        return task.result()
    except TimeoutError:
        return False


@cache
def _pool() -> ProcessPool:
    """Processes of this one, started when they are needed; a killed one is replaced."""
    pool = ProcessPool(max_workers=min(4, os.cpu_count() or 1), context=multiprocessing.get_context("spawn"))
    atexit.register(pool.stop)
    return pool
