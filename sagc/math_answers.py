"""Checks mathematical answers with math-verify, in processes that can be killed.

math-verify parses LaTeX with SymPy, and some answers keep it busy for hours. Its own time-out is a signal, which works
in the main thread only; OpenRLHF rewards in others. Here an answer that takes too long ends its process and is wrong.
"""

from __future__ import annotations

import atexit
import logging
import multiprocessing
import os
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import product

from pebble import ProcessFuture, ProcessPool

from sagc.answer_text import last_box, plain, readings

log = logging.getLogger("sagc")

TIMEOUT_S = 5.0  # per answer
LONGEST = 20_000  # characters of a response that are read, from its end: the answer comes last


@dataclass(frozen=True)
class Check:
    """What was found in a response.

    Attributes
    ----------
    correct : bool
        Whether it equals the reference answer.
    found : str, optional
        The response's last answer, in SymPy's notation; None where it has none, or none was found in time.
    failure : str, optional
        Why the response could not be checked. It then counts as wrong.
    """

    correct: bool
    found: str | None
    failure: str | None = None


def check(response: str, answer: str) -> Check:
    """Compare the response's last answer with `answer`; in this process, however long it takes.

    The response may box its answer or write it as LaTeX or a number; where there is a box, the last one counts alone.
    `answer` is a number or a LaTeX expression.
    """
    reference = _reference(answer)
    found = _found(response[-LONGEST:])
    correct = _equal(reference, found)
    mathematics = any(not isinstance(expression, str) for expression in reference)  # else only its text is compared
    failure = None if correct or mathematics else f"the reference answer {answer!r} is no mathematics"
    return Check(correct, str(found[0]) if found else None, failure)


def check_all(responses: list[str], answers: list[str], timeout: float | None = None) -> list[Check]:
    """`check` for each pair, in other processes.

    A pair that takes more than `timeout` seconds (TIMEOUT_S), or that the parser fails on, counts as wrong. Raises
    BrokenExecutor where the processes are gone.
    """
    tasks = [_begun.pop(pair, None) or _begin(pair, timeout) for pair in zip(responses, answers, strict=True)]
    return [_result(task) for task in tasks]


def check_soon(response: str, answer: str) -> None:
    """Begin a check that `check_all` is going to ask for, so that it is done while other responses are generated."""
    if (response, answer) not in _begun:
        _begun[response, answer] = _begin((response, answer), None)


# What is compared ----------------------------------------------------------------------------------------------------


@cache
def _kinds() -> list:
    """What counts as an answer: LaTeX, and plain numbers; boxes are opened before."""
    from math_verify import ExprExtractionConfig, LatexExtractionConfig

    logging.getLogger("math_verify").setLevel(logging.ERROR)  # it warns that nothing here ends what takes too long
    return [LatexExtractionConfig(boxed_match_priority=-1), ExprExtractionConfig()]


def _parsed(text: str) -> list:
    from math_verify import parse

    return parse(text, _kinds(), parsing_timeout=None)


def _alone(answer: str) -> list:
    """What an answer may mean that stands alone."""
    return [expression for text in readings(answer) for expression in _parsed(f"${text}$")]


@lru_cache(maxsize=1024)  # every response to a problem has the same
def _reference(answer: str) -> list:
    box = last_box(answer)
    return _alone(answer if box is None else box)


def _found(response: str) -> list:
    box = last_box(response)
    return _parsed(plain(response)) if box is None else _alone(box)


def _equal(reference: list, found: list) -> bool:
    """Whether math-verify finds one of these equal to one of those: as they are written, or with decimals rounded.

    It takes for equal what is less than 1e-6 or 1e-15 apart, however small it is, and so it gets exact fractions.
    """
    from math_verify import verify
    from sympy import Float

    from sagc.answer_numbers import exact, has, precision, rounded

    if any(mine == right for right, mine in product(reference, found)):  # however large, nothing is worked out
        return True
    options = {"timeout_seconds": None, "allow_set_relation_comp": True}  # 1 < x < 2 is (1, 2)
    sides = [[exact(expression) for expression in side] for side in (reference, found)]
    if verify(*sides, numeric_precision=precision(sides), **options):
        return True
    if not any(has(expression, Float) for expression in (*reference, *found)):
        return False
    sides = [[rounded(expression) for expression in side] for side in sides]
    return verify(*sides, numeric_precision=precision(sides), **options)


# Processes -----------------------------------------------------------------------------------------------------------

_begun: dict[tuple[str, str], ProcessFuture] = {}


def _begin(pair: tuple[str, str], timeout: float | None) -> ProcessFuture:
    return _pool().schedule(check, pair, timeout=TIMEOUT_S if timeout is None else timeout)


def _result(task: ProcessFuture) -> Check:
    try:
        return task.result()
    except BrokenExecutor:  # no response would be checked any more
        raise
    except Exception as error:  # whatever a parser makes of a model's output, training goes on
        failure = f"{type(error).__name__}: {error}"
        log.warning("a response could not be checked and counts as wrong: %s", failure)
        return Check(False, None, failure)


@cache
def _pool() -> ProcessPool:
    """Processes of this one, started when they are needed; a killed one is replaced."""
    workers, spawn = min(4, os.cpu_count() or 1), multiprocessing.get_context("spawn")
    pool = ProcessPool(max_workers=workers, context=spawn, initializer=_prepare)
    atexit.register(_stop, pool)
    return pool


def _prepare() -> None:
    """Import what a check needs, seconds on a busy machine, before the time of a first check runs."""
    check("0", "0")


def _stop(pool: ProcessPool) -> None:
    pool.stop()
    pool.join()
