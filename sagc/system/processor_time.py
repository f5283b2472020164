"""Processor time of a process and of all that it has started.

Wall clock on a machine that other work shares says as much about that work as about the run; processor seconds are the
run's own. They still depend on the machine, and a busy one makes them somewhat longer: caches and cores are shared.
"""

import contextlib

import psutil


def processor_seconds(pid: int | None = None) -> float:
    """Seconds that a process and its descendants have computed so far, all their threads together.

    Descendants that have ended count as soon as their parent has taken their exit status. `pid` is this process where
    it is None. Raises psutil.NoSuchProcess where the process is gone.
    """
    root = psutil.Process(pid)
    total = sum(root.cpu_times()[:4])  # user, system, and both of the children that have ended
    for process in root.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # it has ended since
            total += sum(process.cpu_times()[:4])
    return total
