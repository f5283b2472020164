"""tests.marks: what a test started is found, wherever it has gone; what somebody else started is not."""

import os
import subprocess
import sys

import psutil
import pytest

from tests.limits import wait_until
from tests.marks import Mark

# Of all that Ray calls itself, what a search by name would find.
NAMES = ["raylet", "gcs_server", "ray::IDLE", "VLLM::EngineCore"]
DETACHED = """
import os, subprocess, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvp(sys.executable, [sys.executable, "-c", sys.argv[1], sys.argv[2]])
    os._exit(0)
"""
NOTES_ITS_PID = """
import os, sys, time
with open(sys.argv[1] + ".part", "w") as file:
    file.write(str(os.getpid()))
os.rename(sys.argv[1] + ".part", sys.argv[1])
time.sleep(600)
"""
NAMES_ITSELF = "import setproctitle; setproctitle.setproctitle('VLLM::EngineCore')\n" + NOTES_ITS_PID


@pytest.fixture
def start():
    """Starts a process; killed after the test."""
    started = []

    def start(*command, **options):
        started.append(subprocess.Popen(command, **options))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def only(mark: Mark) -> psutil.Process:
    wait_until(mark.processes, 30)
    [process] = mark.processes()
    return process


@pytest.mark.parametrize("name", NAMES)
def test_a_foreign_process_with_a_name_of_rays_is_not_found(start, name):
    foreign, ours = Mark(), Mark()
    other = start(name, "600", executable="/bin/sleep", env=os.environ | foreign.environment)
    assert only(foreign).pid == other.pid
    mine = start(name, "600", executable="/bin/sleep", env=os.environ | ours.environment)
    assert only(ours).pid == mine.pid
    assert Mark().processes() == set()


@pytest.mark.parametrize("code", [NOTES_ITS_PID, NAMES_ITSELF], ids=["plain", "names itself"])
def test_a_descendant_that_left_the_process_tree_is_found(tmp_path, code):
    """Two forks and a session of its own: nothing leads from this process to it, and a new title hides nothing."""
    mark, note = Mark(), tmp_path / "pid"
    command = [sys.executable, "-c", DETACHED, code, str(note)]
    subprocess.run(command, env=os.environ | mark.environment, check=True)
    wait_until(note.exists, 30)
    process = only(mark)
    assert process.pid == int(note.read_text())
    assert process not in psutil.Process().children(recursive=True)
    process.kill()
    wait_until(lambda: not mark.processes(), 30)


def test_what_has_ended_is_not_found(start):
    mark = Mark()
    process = start("sleep", "600", env=os.environ | mark.environment)
    assert only(mark).pid == process.pid
    process.kill()
    wait_until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE, 30)  # nobody has asked for its end
    assert mark.processes() == set()


def test_a_process_has_the_marks_of_all_that_started_it(start, mark):
    """The test's, and that of a part of it."""
    part = Mark()
    process = start("sleep", "600", env=os.environ | part.environment)
    assert only(mark).pid == only(part).pid == process.pid
