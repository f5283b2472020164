"""A command that starts many processes, and leaves none of them behind.

Ray and vLLM start processes that outlive a parent that is killed. So the launcher has the command run by a supervisor,
a process of its own that Linux gives all orphans below it to: when the command has ended, or the launcher has, however
that happened, the supervisor ends whatever is left. It holds a lock on the log meanwhile.

    python -m openrlhf_patch.processes LOG COMMAND...
"""

import contextlib
import ctypes
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
PATIENCE = 2.0  # seconds that processes have to end by themselves


def die_with_parent(with_signal: int = signal.SIGKILL) -> None:
    """Have the kernel send this process a signal when its parent dies, however that happens."""
    parent = os.getppid()
    _prctl(PR_SET_PDEATHSIG, with_signal)
    if parent == 1 or os.getppid() != parent:  # it was dead before the call
        os.kill(os.getpid(), with_signal)


def run_to_end(
    command: list[str], environment: dict[str, str], log: Path, watch: Callable[[], None], interval: float = 0.5
) -> int:
    """Run a command with its output appended to `log`, and end every process that is left when it has ended.

    `watch` is called every `interval` seconds, and once more at the end. Returns the exit status, negative for a
    signal. SIGTERM to this process ends the command, as Ctrl-C does; so does the death of this process.
    """
    supervisor = [sys.executable, "-m", "openrlhf_patch.processes", str(log), *command]
    with _sigterm_raises():
        # In a session of its own, so that Ctrl-C reaches this process alone.
        process = subprocess.Popen(supervisor, env=environment, start_new_session=True)
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    status = process.wait(interval)
                    return status if status < 128 else 128 - status
                watch()
        finally:
            process.terminate()
            process.wait()
            watch()


def wait_for_supervisor(log: Path, timeout: float = 60.0) -> None:
    """Wait until no supervisor holds the log: that of a launcher that was killed may still be ending processes.

    Raises TimeoutError.
    """
    if not log.exists():
        return
    deadline = time.monotonic() + timeout
    with open(log, "ab") as file:
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"processes of an earlier run still hold {log}")
            time.sleep(0.1)


def supervise(log: Path, command: list[str]) -> int:
    """Run the command, end all that is left of it, and return its exit status as a shell does (128 + signal)."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    with _sigterm_raises(), open(log, "ab") as output:
        fcntl.flock(output, fcntl.LOCK_EX)
        die_with_parent(signal.SIGTERM)
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        try:
            status = process.wait()
        finally:
            process.kill()  # at once: it must not write into the run's files after its launcher
            process.wait()
            _end_descendants()
    return status if status >= 0 else 128 - status


def _end_descendants() -> None:
    """End all descendants of this process: politely, then not. Every orphan becomes a child of this process."""
    asked, deadline = set(), time.monotonic() + PATIENCE
    while _reap():
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if time.monotonic() > deadline:
                    process.kill()
                elif process not in asked:
                    process.terminate()
                    asked.add(process)
        time.sleep(0.05)


def _reap() -> bool:
    """Take the exit status of children that ended. Whether there are others: without one there is no descendant."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


@contextlib.contextmanager
def _sigterm_raises() -> Iterator[None]:
    """SIGTERM ends this process as an exception does, once: the kernel sends one for each thread of a dead parent."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number, frame):
        signal.signal(number, signal.SIG_IGN)  # clean up in peace
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) failed")


if __name__ == "__main__":
    sys.exit(supervise(Path(sys.argv[1]), sys.argv[2:]))
