"""Processor time of a process and all its descendants.

On a shared machine, wall-clock time depends on the other work as much as on the run; processor seconds are the run's
own. They still depend on the machine, and a busy one makes them somewhat longer, because caches and cores are shared.
"""

import contextlib

import psutil


def processor_seconds(pid: int | None = None) -> float:
    """Seconds that a process and its descendants have computed so far, over all threads.

    Descendants that have ended count once their parent has collected their exit status. `pid` None means this process.

    Raises
    ------
    psutil.NoSuchProcess
        If the process is gone.
    """
    root = psutil.Process(pid)
    total = sum(root.cpu_times()[:4])  # user and system, of the process and of its ended children
    for process in root.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # it has just ended
            total += sum(process.cpu_times()[:4])
    return total
