"""A process that starts many others, and leaves none of them behind.

Ray and vLLM start processes that outlive a parent that is killed. Linux gives orphans to the nearest ancestor that asks
for them; so the launcher, once its driver has ended, finds whatever is left among its own descendants.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
PATIENCE = 2.0  # seconds that processes have to end by themselves


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent dies, however that happens."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == 1:  # it was dead before the call
        os.kill(os.getpid(), signal.SIGKILL)


def run_to_end(
    command: list[str], environment: dict[str, str], log: Path, watch: Callable[[], None], interval: float = 0.5
) -> int:
    """Run a command with its output appended to `log`, and end every process that is left when it has ended.

    `watch` is called every `interval` seconds. Returns the exit status. SIGTERM to this process ends the command, as
    Ctrl-C does.
    """
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    others = {child.pid for child in psutil.Process().children()}
    with open(log, "ab") as output, _sigterm_raises():
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    return process.wait(interval)
                watch()
        finally:
            watch()
            _end_descendants(others)


def _end_descendants(others: set[int]) -> None:
    """End all descendants but `others` (children by pid) and theirs: politely, then not."""
    for signal_ in (signal.SIGTERM, signal.SIGKILL):
        left = [child for child in _descendants(others) if child.status() != psutil.STATUS_ZOMBIE]
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal_)
        psutil.wait_procs(left, timeout=PATIENCE)
    for process in _descendants(others):  # those that the kernel gave to this process: take their exit status
        with contextlib.suppress(ChildProcessError):
            os.waitpid(process.pid, os.WNOHANG)


def _descendants(others: set[int]) -> list[psutil.Process]:
    mine = [child for child in psutil.Process().children() if child.pid not in others]
    found = list(mine)
    for child in mine:
        with contextlib.suppress(psutil.NoSuchProcess):
            found += child.children(recursive=True)
    return found


@contextlib.contextmanager
def _sigterm_raises() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) failed")
