"""Limits of time that guard tests against hanging, in seconds of an idle machine: they stretch with a slower one.

How slow the machine is gets measured: a process that imports NumPy and counts takes REFERENCE_S where nothing else is
at work, and longer on slower processors and on busy ones.
"""

import subprocess
import sys
import time
from collections.abc import Callable

PROBE = """
import sys, time
import numpy
for _ in range(5_000_000):
    pass
print(time.monotonic() - float(sys.argv[1]))
"""
# On two cores of an AMD EPYC, with Python 3.11.7 and NumPy 2.4.6: the median processor time of 30 such processes at the
# highest priority, which is what they take by the clock where they need not wait for a core.
REFERENCE_S = 0.4
EVERY_S = 20.0  # between two measurements of a limit


class Probe:
    """A measurement that goes on beside the test."""

    def __init__(self) -> None:
        # With an empty environment, which has no marks of a test either.
        command = [sys.executable, "-c", PROBE, str(time.monotonic())]
        self.process = subprocess.Popen(command, env={}, stdout=subprocess.PIPE, text=True)

    @property
    def is_done(self) -> bool:
        return self.process.poll() is not None

    def slowness(self) -> float:
        """How many times as long as on the idle machine everything takes, at least 1; waits for the measurement."""
        said, _ = self.process.communicate()
        return max(1.0, float(said) / REFERENCE_S)


def slowness() -> float:
    """How many times as long as on the idle machine everything takes now, at least 1."""
    return Probe().slowness()


def stretched(seconds: float) -> float:
    """A limit that has to be given beforehand: so many seconds of an idle machine, at the speed of this moment."""
    return seconds * slowness()


class Deadline:
    """A limit that is looked at again and again: the seconds pass as slowly as the machine is, measured on the way.

    It has never passed before so many seconds by the clock, nor without a measurement just then.
    """

    def __init__(self, seconds: float):
        self.left = seconds
        self.since = time.monotonic()
        self.probe: Probe | None = None

    def passed(self) -> bool:
        """Whether the time is over. Returns at once."""
        now = time.monotonic()
        if self.probe is None:
            if now - self.since >= min(self.left, EVERY_S):
                self.probe = Probe()
        elif self.probe.is_done:
            self.left -= (now - self.since) / self.probe.slowness()
            self.since, self.probe = now, None
        return self.left <= 0


def wait_until(holds: Callable[[], bool], seconds: float, what: Callable[[], str] = str, every: float = 0.05) -> None:
    """Return when it holds; AssertionError with what `what` says after so many seconds of an idle machine."""
    deadline = Deadline(seconds)
    while not holds():
        assert not deadline.passed(), f"after {seconds:g} s of an idle machine nothing has come of it; {what()}"
        time.sleep(every)


def wait_for(process: subprocess.Popen, seconds: float) -> int:
    """The exit status of a process; subprocess.TimeoutExpired after so many seconds of an idle machine."""
    deadline = Deadline(seconds)
    while True:
        try:
            return process.wait(0.5)
        except subprocess.TimeoutExpired:
            if deadline.passed():
                raise subprocess.TimeoutExpired(process.args, seconds) from None
