"""A real Slurm on this machine: munge, slurmctld and slurmd with one node, two partitions and two made-up GPUs.

Its settings must be in /etc/slurm: the executor's job steps drop SLURM_CONF. Files there that are not from here are
never touched. Everything else is in a folder of the test session, and what was started is ended by its process id.
"""

import math
import os
import re
import shutil
import socket
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.limits import Deadline, stretched

MARK = "# Written by tests/slurm/conftest.py, which removes it."
SETTINGS = Path("/etc/slurm")
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "squeue", "scancel", "sinfo")

# slurmd refuses GPUs without a device file, and shows jobs none whose file is no device.
GRES_CONF = "NodeName={host} Name=gpu File={folder}/gpu[0-1]"
SLURM_CONF = """\
ClusterName=sagc
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire={expire_s}
CredType=cred/munge
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2,sched_min_interval=0
MpiDefault=none
SwitchType=switch/none
DefMemPerCPU=256
ReturnToService=2
MinJobAge=86400
MessageTimeout=100
TCPTimeout=30
BatchStartTimeout=300
InactiveLimit=0
KillWait=2
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=20000 Gres=gpu:2 State=UNKNOWN
PartitionName=cpu Nodes={host} Default=YES MaxTime=01:00:00 State=UP
PartitionName=gpu Nodes={host} MaxTime=01:00:00 State=UP
"""


class Slurm:
    """The cluster, as its commands show it."""

    def __init__(self, folder: Path):
        self.folder = folder

    def call(self, *command: str) -> str:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def start(self) -> None:
        host, ports = socket.gethostname().partition(".")[0], _free_ports(2)
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        for number in (0, 1):
            os.mknod(self.folder / f"gpu{number}", 0o666 | 0o020000, os.makedev(1, 3))
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        for name, text in (("slurm.conf", SLURM_CONF), ("gres.conf", GRES_CONF)):
            text = text.format(host=host, ports=ports, folder=self.folder, expire_s=math.ceil(stretched(5)))
            (SETTINGS / name).write_text(f"{MARK}\n{text.rstrip()}\n")
        self.call(
            "munged",
            "--force",  # the folder of a test session is no place that munge would trust
            *(f"--{name}-file={self.folder}/munge.{name}" for name in ("key", "pid", "log", "seed")),
            f"--socket={self.folder}/munge.socket",
        )
        self.call("slurmctld")
        self.call("slurmd")
        self.wait(lambda: "idle" in self.call("sinfo", "--noheader", "--format=%T"), "the node is idle", 30)

    def stop(self) -> None:
        try:
            self.call("scancel", "--quiet", "--user=root")
            self.wait(lambda: not self.call("squeue", "--noheader"), "all jobs have ended", 30)
        finally:
            for name in ("slurmd", "slurmctld", "munge"):
                file = self.folder / f"{name}.pid"
                if file.exists():
                    _end(int(file.read_text()))
            for name in ("slurm.conf", "gres.conf"):
                (SETTINGS / name).unlink(missing_ok=True)

    def wait(self, condition, what: str, seconds: float = 90):
        """What the condition returns once that is true."""
        deadline = Deadline(seconds)
        while not (found := condition()):
            if deadline.passed():
                raise TimeoutError(f"after {seconds} s of an idle machine it is not so that {what}\n{self.logs()}")
            time.sleep(0.2)
        return found

    def jobs(self) -> list[dict[str, str]]:
        """Every job of the session with what `scontrol show job` says of it, by rising id."""
        shown = self.call("scontrol", "show", "job", "--oneliner")
        jobs = [
            dict(pair.partition("=")[::2] for pair in line.split()) for line in shown.splitlines() if "JobId" in line
        ]
        return sorted(jobs, key=lambda job: int(job["JobId"]))

    def logs(self) -> str:
        return "\n".join(f"== {path.name}\n{path.read_text()}" for path in sorted(self.folder.glob("*.log")))


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [taken.getsockname()[1] for taken in sockets]
    for taken in sockets:
        taken.close()
    return ports


def _end(pid: int) -> None:
    try:
        process = psutil.Process(pid)
        process.terminate()
        process.wait(stretched(10))
    except psutil.NoSuchProcess:
        pass
    except psutil.TimeoutExpired:
        if process.status() != psutil.STATUS_ZOMBIE:  # nobody may reap it here
            process.kill()


def why_not() -> str | None:
    """Why there can be no Slurm for the tests on this machine."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"Slurm is not installed, {missing[0]} is missing (Debian: apt-get install slurm-wlm munge)"
    if os.geteuid() != 0:
        return "Slurm can only be set up by root"
    for name in ("slurm.conf", "gres.conf"):
        path = SETTINGS / name
        if path.exists() and not path.read_text().startswith(MARK):
            return f"{path} is not from these tests, and is left alone"
    if (SETTINGS / "slurm.conf").exists():
        started = re.findall(r"^SlurmctldPidFile=(.*)", (SETTINGS / "slurm.conf").read_text(), re.MULTILINE)
        if any(Path(file).exists() and psutil.pid_exists(int(Path(file).read_text())) for file in started):
            return "another session of these tests has a Slurm running"
    return None


@pytest.fixture(scope="session")
def slurm(tmp_path_factory):
    """The running cluster; ended with the session."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    cluster = Slurm(tmp_path_factory.mktemp("slurm"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
