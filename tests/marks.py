"""Marks on what a test starts, so that it finds its own processes and nobody else's, whatever they are called."""

import os
import uuid

import psutil


class Mark:
    """A variable with a name of its own in the environment of processes.

    Their descendants inherit it, also those that left the process tree by a double fork, `setsid` or the death of their
    parent. A process may have several marks.
    """

    def __init__(self) -> None:
        self.variable = f"SAGC_TEST_{uuid.uuid4().hex}"

    @property
    def environment(self) -> dict[str, str]:
        """What the environment of a process must have for it and its descendants to be found."""
        # Ray's and vLLM's processes name themselves with setproctitle, which writes over their environment otherwise.
        return {self.variable: "1", "SPT_NOENV": "1"}

    def processes(self) -> set[psutil.Process]:
        """Those with this mark that have not ended.

        Only programs that were started with it: a fork of this very process does not show what was put into
        `os.environ` later, nor do processes that clear their environment.
        """
        return {process for process in psutil.process_iter() if self._is_on(process)}

    def _is_on(self, process: psutil.Process) -> bool:
        try:
            return process.pid != os.getpid() and self.variable in process.environ()
        except (psutil.AccessDenied, psutil.NoSuchProcess):  # of another user, or it has just ended
            return False


def command_of(process: psutil.Process) -> list[str]:
    """Its command line, word by word; empty where it has ended."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []
