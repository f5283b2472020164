"""tests.limits: seconds of an idle machine, on machines that are as slow as these tests have them."""

import subprocess
import time

import psutil
import pytest

from tests import limits
from tests.limits import Deadline, Probe, stretched, wait_for, wait_until


class Machine:
    """A clock that the test moves, and a machine of a speed that it sets."""

    def __init__(self):
        self.now, self.slowness, self.measured = 1000.0, 1.0, 0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def probe(self) -> "Machine":
        self.measured += 1
        return self.Measurement(self.slowness)

    class Measurement:
        is_done = True

        def __init__(self, slowness: float):
            self.slowness = lambda: slowness


@pytest.fixture
def machine(monkeypatch):
    machine = Machine()
    monkeypatch.setattr(limits, "time", machine)
    monkeypatch.setattr(limits, "Probe", machine.probe)
    return machine


def seconds_until_passed(machine, deadline) -> float:
    started = machine.now
    while not deadline.passed():
        machine.sleep(0.1)
        assert machine.now - started < 10_000
    return machine.now - started


@pytest.mark.parametrize("times_slower", [1.0, 2.0, 8.0])
def test_a_limit_stretches_with_the_slowness_of_the_machine(machine, times_slower):
    machine.slowness = times_slower
    assert seconds_until_passed(machine, Deadline(300)) == pytest.approx(300 * times_slower, rel=0.02)


def test_a_limit_follows_load_that_comes_and_goes(machine):
    """Of 100 s, 50 pass on the idle machine, 25 during 100 s of four times the time, and 25 on the idle one again."""
    deadline, taken = Deadline(100), 0.0
    for times_slower, seconds in ((1.0, 50.0), (4.0, 100.0)):
        machine.slowness, until = times_slower, machine.now + seconds
        while machine.now < until:
            assert not deadline.passed()
            machine.sleep(0.1)
        taken += seconds
    machine.slowness = 1.0
    taken += seconds_until_passed(machine, deadline)
    assert taken == pytest.approx(50 + 100 + 25, abs=limits.EVERY_S)


def test_a_limit_that_is_met_measures_nothing_and_none_passes_without_a_measurement(machine):
    deadline = Deadline(limits.EVERY_S - 1)
    machine.sleep(limits.EVERY_S - 2)
    assert not deadline.passed() and machine.measured == 0
    machine.sleep(1)
    assert not deadline.passed() and machine.measured == 1
    assert deadline.passed()


def test_waiting_ends_when_it_holds_or_with_the_limit(machine):
    begun = machine.now
    wait_until(lambda: machine.now > begun + 5, 10)
    with pytest.raises(AssertionError, match=r"after 10 s of an idle machine .*; the log"):
        wait_until(lambda: False, 10, lambda: "the log")


def test_a_process_is_waited_for_as_long_as_its_limit(monkeypatch):
    monkeypatch.setattr(limits, "EVERY_S", 0.5)
    with subprocess.Popen(["sleep", "600"]) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            wait_for(process, 1)
        process.kill()
        assert wait_for(process, 60) == -9


def test_time_without_a_core_counts_as_slowness(monkeypatch):
    """A measurement that is held up for a second is one of a machine that is so much slower."""
    monkeypatch.setattr(limits, "PROBE", "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)\n" + limits.PROBE)
    probe = Probe()
    process = psutil.Process(probe.process.pid)
    wait_until(lambda: process.status() == psutil.STATUS_STOPPED, 30)
    time.sleep(1)
    process.resume()
    assert 1 / limits.REFERENCE_S <= probe.slowness() < 1000


def test_a_measurement_goes_on_beside_the_test():
    probe = Probe()
    wait_until(lambda: probe.is_done, 60)
    assert 1.0 <= probe.slowness() < 1000
    assert 10.0 <= stretched(10.0) < 10_000
