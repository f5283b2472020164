"""Checks mathematical answers with math-verify, in processes that can be ended.

math-verify parses LaTeX with SymPy, and some answers keep it busy for hours. Its own time-out is a signal, which works
in the main thread only, and not inside an operation on large integers. Here an answer that takes too much processor
time ends its process and is wrong. The limit is not on the clock's time: on a busy machine that would make right
answers wrong.
"""

from __future__ import annotations

import atexit
import logging
import multiprocessing
import os
import signal
import threading
from concurrent.futures import BrokenExecutor, Future
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import product
from multiprocessing.connection import Connection

from pebble import ThreadPool

from sagc.rewards.answer_text import last_box, plain, readings

log = logging.getLogger("sagc")

TIMEOUT_S = 5.0  # of processor time, per answer
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

    A pair that takes more than `timeout` seconds of processor time (TIMEOUT_S), or that the parser fails on, counts as
    wrong. Raises BrokenExecutor where the processes cannot check anything.
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

    from sagc.rewards.answer_numbers import exact, has, precision, rounded

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

_begun: dict[tuple[str, str], Future] = {}


def _begin(pair: tuple[str, str], timeout: float | None) -> Future:
    return _pool().schedule(_check_in_process, (*pair, TIMEOUT_S if timeout is None else timeout))


def _result(task: Future) -> Check:
    found = task.result()
    if isinstance(found, Check):
        return found
    log.warning("a response could not be checked and counts as wrong: %s", found)  # training goes on
    return Check(False, None, found)


@cache
def _pool() -> ThreadPool:
    """Threads, each of which has a process of its own from its first check on.

    Not pebble's pool of processes: where one of them ends before the pool has heard which check it began, that check is
    lost, or the pool breaks.
    """
    pool = ThreadPool(max_workers=min(4, os.cpu_count() or 1))
    atexit.register(pool.stop)  # the processes end with this one
    return pool


_own = threading.local()


def _check_in_process(response: str, answer: str, timeout: float) -> Check | str:
    """A check, or why there is none."""
    if getattr(_own, "process", None) is None or not _own.process.is_alive():
        spawn = multiprocessing.get_context("spawn")
        _own.connection, other = spawn.Pipe()
        _own.process = spawn.Process(target=_serve, args=(other,), name="math answers", daemon=True)
        _own.process.start()
        other.close()  # so that this end sees when the process ends
    try:
        _own.connection.send((response, answer, timeout))
        while _own.process.is_alive() and not _own.connection.poll(1):
            pass  # what was forked from this process may hold the other end too, and then nothing tells that it closed
        if _own.connection.poll():
            return _own.connection.recv()
    except (EOFError, OSError):  # it has ended
        pass
    _own.process.join()
    status = _own.process.exitcode
    if status == -signal.SIGPROF:
        return f"TimeoutError: it took more than {timeout:g} s of processor time"
    if status < 0:
        return f"ChildProcessError: its process was ended by {signal.Signals(-status).name}"
    raise BrokenExecutor(f"a process that checks answers ended with status {status}; its last words are above")


def _serve(connection: Connection) -> None:
    """Check what comes, until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the other process, and so this one
    # The limit ends the process, also inside an operation on large integers, where no handler would be called.
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGPROF])
    check("0", "0")  # imports, seconds on a busy machine, that belong to no answer
    while True:
        try:
            response, answer, timeout = connection.recv()
        except EOFError:
            return
        signal.setitimer(signal.ITIMER_PROF, timeout)
        try:
            found = check(response, answer)
        except Exception as error:  # whatever a parser makes of a model's output
            found = f"{type(error).__name__}: {error}"
        signal.setitimer(signal.ITIMER_PROF, 0)
        connection.send(found)
