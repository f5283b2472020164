"""openrlhf_patch.processes: nothing that a run started is left when it ends, however it ends."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from openrlhf_patch.processes import run_to_end, wait_for_supervisor
from tests.limits import stretched, wait_for, wait_until

# A command with a child in a session of its own and a grandchild that ignores SIGTERM: like Ray's raylet and workers.
FAMILY = """
import subprocess, sys, time

GRANDCHILD = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
CHILD = '''
import subprocess, sys, time
process = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE)
process.stdout.readline()
print(process.pid, flush=True)
time.sleep(600)
'''
command = [sys.executable, "-c", CHILD, GRANDCHILD]
process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE, text=True)
print("pids", process.pid, process.stdout.readline(), flush=True)
"""
LAUNCHER = """
import os, signal, sys
from pathlib import Path
from openrlhf_patch.processes import run_to_end

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests themselves run in the background
run_to_end([sys.executable, "-c", sys.argv[1]], dict(os.environ), Path(sys.argv[2]), lambda: None, 0.1)
"""
DRIVER = """
import os, time
from openrlhf_patch.processes import die_with_parent

die_with_parent()
print("pids", os.getpid(), flush=True)
time.sleep(600)
"""
UNTIL_WATCHED = """
import os, sys, time
for _ in range(600):
    if os.path.getsize(sys.argv[1]) > 1:
        sys.exit()
    time.sleep(0.1)
"""


def pids(log: Path) -> list[int]:
    return [int(pid) for line in log.read_text().splitlines() if line.startswith("pids") for pid in line.split()[1:]]


def wait_for_pids(log: Path) -> None:
    wait_until(lambda: log.exists() and pids(log), 30, lambda: "the command did not start")


def alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


@pytest.mark.parametrize(
    ("ending", "status"), [("", 0), ("sys.exit(3)", 3), ("import os; os.kill(os.getpid(), 9)", -9)]
)
def test_no_descendant_outlives_the_command(tmp_path, ending, status):
    log = tmp_path / "log"
    assert run_to_end([sys.executable, "-c", FAMILY + ending], dict(os.environ), log, lambda: None, 0.1) == status
    assert len(pids(log)) == 2
    assert not any(map(alive, pids(log)))


def test_other_children_of_this_process_are_left_alone(tmp_path):
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        run_to_end([sys.executable, "-c", FAMILY], dict(os.environ), tmp_path / "log", lambda: None, 0.1)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


@pytest.mark.parametrize("signal_", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_launcher_ends_everything(tmp_path, signal_):
    log = tmp_path / "log"
    command = [sys.executable, "-c", LAUNCHER, FAMILY + "time.sleep(600)", str(log)]
    launcher = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    wait_for_pids(log)
    launcher.send_signal(signal_)
    assert wait_for(launcher, 30) != 0
    assert not any(map(alive, pids(log)))


def test_a_killed_launcher_takes_its_driver_along(tmp_path):
    log = tmp_path / "log"
    launcher = subprocess.Popen([sys.executable, "-c", LAUNCHER, DRIVER, str(log)])
    wait_for_pids(log)
    launcher.kill()
    launcher.wait()
    wait_until(lambda: not any(map(alive, pids(log))), 5)


def test_a_killed_launcher_takes_everything_along(tmp_path):
    log = tmp_path / "log"
    launcher = subprocess.Popen([sys.executable, "-c", LAUNCHER, FAMILY + "time.sleep(600)", str(log)])
    wait_for_pids(log)
    launcher.kill()
    launcher.wait()
    wait_for_supervisor(log, stretched(60))
    assert not any(map(alive, pids(log)))


def test_a_supervisor_that_is_still_at_work_is_waited_for(tmp_path):
    log = tmp_path / "log"
    launcher = subprocess.Popen([sys.executable, "-c", LAUNCHER, FAMILY + "time.sleep(600)", str(log)])
    wait_for_pids(log)
    with pytest.raises(TimeoutError, match="processes of an earlier run still hold"):
        wait_for_supervisor(log, timeout=0.3)
    launcher.terminate()
    launcher.wait()
    wait_for_supervisor(log, timeout=0.3)


def test_the_command_is_watched_while_it_runs_and_once_more(tmp_path):
    """The command ends when it has been watched twice, or after a minute."""
    calls = tmp_path / "calls"
    calls.touch()

    def watch():
        with open(calls, "a") as file:
            file.write(".")

    run_to_end([sys.executable, "-c", UNTIL_WATCHED, str(calls)], dict(os.environ), tmp_path / "log", watch, 0.2)
    assert calls.stat().st_size >= 3
