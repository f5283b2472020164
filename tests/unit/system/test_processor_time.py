"""sagc.system.processor_time: what a process and its descendants compute counts, and nothing else of the machine."""

import contextlib
import subprocess
import sys
import time

import psutil
import pytest

from sagc.system.processor_time import processor_seconds

BUSY = "import time\nwhile time.process_time() < {seconds}: pass"
GRANDCHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BUSY.format(seconds=0.5)!r}])"


def compute(seconds):
    started = time.process_time()
    while time.process_time() - started < seconds:
        pass


def test_what_the_process_computes_counts_and_what_it_waits_does_not():
    before = processor_seconds()
    compute(0.3)
    time.sleep(0.5)
    assert 0.25 <= processor_seconds() - before < 0.6


def test_children_count_that_have_ended_and_those_that_have_not():
    before = processor_seconds()
    subprocess.run([sys.executable, "-c", GRANDCHILD], check=True)
    ended = processor_seconds() - before
    assert ended >= 0.45
    process = subprocess.Popen([sys.executable, "-c", BUSY.format(seconds=1e9)])
    try:
        while psutil.Process(process.pid).cpu_times().user < 0.5:
            time.sleep(0.01)
        assert processor_seconds() - before >= ended + 0.45
    finally:
        process.kill()
        process.wait()


def test_a_process_of_somebody_else_does_not_count():
    with contextlib.ExitStack() as stack:
        idle, busy = (
            stack.enter_context(subprocess.Popen([sys.executable, "-c", code]))
            for code in ("import time; time.sleep(1e6)", BUSY.format(seconds=1e9))
        )
        try:
            while psutil.Process(busy.pid).cpu_times().user < 0.7:
                time.sleep(0.01)
            assert processor_seconds(idle.pid) < 0.5
        finally:
            idle.kill()
            busy.kill()


def test_a_process_that_is_gone_is_an_error():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    with pytest.raises(psutil.NoSuchProcess):
        processor_seconds(process.pid)
