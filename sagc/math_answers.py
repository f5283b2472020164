"""Checks mathematical answers with math-verify, in processes that can be killed.

math-verify parses LaTeX with SymPy, and some answers keep it busy for hours. Its own time-out is a signal, which works
in the main thread only; OpenRLHF rewards in others. Here an answer that takes too long ends its process and is wrong.
"""

from __future__ import annotations

import atexit
import logging
import multiprocessing
import os
from functools import cache

from pebble import ProcessPool

log = logging.getLogger("sagc")

TIMEOUT_S = 5.0  # per answer
LONGEST = 20_000  # characters of a response that are read, from its end: the answer comes last


def verify(response: str, answer: str) -> bool:
    """Whether the response's last answer equals `answer`; in this process, however long it takes.

    The response may box its answer or write it as LaTeX or a number; `answer` is a number or a LaTeX expression.
    """
    from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse
    from math_verify import verify as equal

    logging.getLogger("math_verify").setLevel(logging.ERROR)  # it warns that nothing here ends what takes too long
    kinds = [LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig()]
    gold = parse(f"${answer}$", kinds, parsing_timeout=None)
    found = parse(response[-LONGEST:], kinds, parsing_timeout=None)
    return bool(gold and found and equal(gold, found, timeout_seconds=None))


def verify_all(responses: list[str], answers: list[str], timeout: float | None = None) -> list[bool]:
    """`verify` for each pair, in other processes.

    A pair that takes more than `timeout` seconds (TIMEOUT_S), or that the parser fails on, is False.
    """
    timeout = TIMEOUT_S if timeout is None else timeout
    tasks = [_pool().schedule(verify, pair, timeout=timeout) for pair in zip(responses, answers, strict=True)]
    return [_result(task) for task in tasks]


def _result(task) -> bool:
    try:
        return task.result()
    except Exception as error:  # whatever a parser makes of a model's output, training goes on
        log.warning("a response could not be checked and counts as wrong: %s: %s", type(error).__name__, error)
        return False


@cache
def _pool() -> ProcessPool:
    """Processes of this one, started when they are needed; a killed one is replaced."""
    pool = ProcessPool(max_workers=min(4, os.cpu_count() or 1), context=multiprocessing.get_context("spawn"))
    atexit.register(_stop, pool)
    return pool


def _stop(pool: ProcessPool) -> None:
    pool.stop()
    pool.join()
