"""The faults: what happens to a grid at a moment, and what must be said about it.

A fault has a moment in [0, 1) of the whole call of Snakemake or of one of its phases; `hit` is called there. Afterwards
Snakemake ends, by itself or at once, and `mend` makes the machine whole again, before the same command is given again.
A fault that lets Snakemake go on may happen several times in one call.
"""

import os
import random
import shutil
import signal
import subprocess
from pathlib import Path

import psutil

from tests.faults.grid import FaultyGrid

CLOCK = Path(__file__).with_name("clock.c")


class Unable(Exception):
    """The fault cannot be made on this machine; says why."""


class Missed(Exception):
    """The moment came too late: there is nothing left to hit."""


class Fault:
    """One kind of fault. Subclasses say what it is."""

    name = ""
    stacks = ("vanilla", "openrlhf")
    during = "the grid"  # or a phase of tests/faults/grid.py
    ends_the_call = True  # sooner than it would have ended
    must_be_said = "failed, see results/logs/"  # in Snakemake's output or the log of the training, if it failed

    def __init__(self, seed: int):
        self.random = random.Random(seed)

    def prepare(self, grid: FaultyGrid) -> None:
        """Before Snakemake is started."""

    def ready(self, grid: FaultyGrid) -> bool:
        """Whether the moment may come now, where `during` is not enough."""
        return True

    def hit(self, grid: FaultyGrid) -> None:
        raise NotImplementedError

    def mend(self, grid: FaultyGrid) -> None:
        """After Snakemake has ended."""


class _Kill(Fault):
    """SIGKILL of a process of a phase, a random one where there are several."""

    def hit(self, grid):
        if not (found := grid.at_work(self.during)):
            raise Missed
        try:
            self.random.choice(found).kill()
        except psutil.NoSuchProcess:
            raise Missed from None


class KillTrainer(_Kill):
    name, during = "SIGKILL of the trainer", "training"


class KillWorker(_Kill):
    name, during, stacks = "SIGKILL of a Ray worker", "Ray's workers", ("openrlhf",)


class KillEngine(_Kill):
    name, during, stacks = "SIGKILL of vLLM's engine", "vLLM's engine", ("openrlhf",)


class KillSnakemake(Fault):
    name, must_be_said = "SIGKILL of Snakemake", ""

    def hit(self, grid):
        grid.snakemake_.kill()


class Interrupt(Fault):
    """Ctrl-C: the terminal sends SIGINT to all processes of the group."""

    name, must_be_said = "SIGINT of Snakemake", ""

    def hit(self, grid):
        os.killpg(grid.snakemake_.pid, signal.SIGINT)


class Terminate(Fault):
    name, must_be_said = "SIGTERM of Snakemake", ""

    def hit(self, grid):
        grid.snakemake_.terminate()


class FullDisk(Fault):
    """The results are on a file system of their own, which something else fills up."""

    name, megabytes = "disk full", 64

    def prepare(self, grid):
        grid.results.mkdir()
        mount("-t", "tmpfs", "-o", f"size={self.megabytes}m", "tmpfs", str(grid.results))

    def hit(self, grid):
        with open(grid.results / ".ballast", "wb", buffering=0) as file:
            try:
                while file.write(bytes(4096)):
                    pass
            except OSError:
                pass

    def mend(self, grid):
        (grid.results / ".ballast").unlink(missing_ok=True)


class ReadOnly(Fault):
    """The results are remounted read-only, as a file system is after an error of its disk: files that are open stay
    writable, no file can be opened for writing any more."""

    name, must_be_said = "read-only results", "Read-only file system"

    def prepare(self, grid):
        grid.results.mkdir()
        mount("--bind", str(grid.results), str(grid.results))  # to see whether it can be
        self.mend(grid)

    def hit(self, grid):
        mount("--bind", str(grid.results), str(grid.results))
        mount("-o", "remount,bind,ro", str(grid.results))

    def mend(self, grid):
        subprocess.run(["umount", "--lazy", str(grid.results)], check=False, capture_output=True)


class _DamagedCheckpoint(Fault):
    """The trainer is killed, and its last checkpoint is damaged in a random file: the first one, or a later one."""

    during = "training"

    def prepare(self, grid):
        self.least = self.random.choice((1, 2))  # checkpoints that are there

    def ready(self, grid):
        return len(grid.checkpoints()) >= self.least

    def hit(self, grid):
        self.least = self.random.choice((1, 2))
        trainers, last = grid.at_work("training"), grid.checkpoints()[-1:]
        if not trainers or not last:
            raise Missed
        grid.kill(spared={grid.snakemake_.pid})
        files = sorted(p for p in last[0].rglob("*") if p.is_file() and p.stat().st_size and p.name != "COMPLETE")
        if not files:  # the last one was being removed: the run was over
            raise Missed
        self.damage(self.random.choice(files))

    def damage(self, file: Path) -> None:
        raise NotImplementedError


class CutCheckpoint(_DamagedCheckpoint):
    name, must_be_said = "checkpoint cut in half", "is not what was written"

    def damage(self, file):
        os.truncate(file, file.stat().st_size // 2)


class FlippedCheckpoint(_DamagedCheckpoint):
    name, must_be_said = "checkpoint with flipped bytes", "is not what was written"

    def damage(self, file):
        content = bytearray(file.read_bytes())
        for place in self.random.sample(range(len(content)), min(8, len(content))):
            content[place] ^= 0xFF
        file.write_bytes(content)


class ClockJump(Fault):
    """The clock of all processes jumps, an hour back or a day ahead. The files that are there move the other way, so
    that new ones are as much older or younger than they as the jump makes them."""

    name, ends_the_call = "clock jumps", False

    def prepare(self, grid):
        if shutil.which("cc") is None:
            raise Unable("there is no C compiler for the clock that jumps")
        library, self.offset = grid.folder / "clock.so", grid.folder / "offset"
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", str(library), str(CLOCK)], check=True)
        self.offset.write_text("0")
        self.seconds = 0  # ahead of the machine's
        grid.environment = grid.environment | {"LD_PRELOAD": str(library), "CLOCK_OFFSET": str(self.offset)}

    def hit(self, grid):
        seconds = self.random.choice([-3600, 86400])
        self.seconds += seconds
        for path in grid.folder.rglob("*"):
            try:
                found = path.lstat()
                os.utime(path, (found.st_atime - seconds, found.st_mtime - seconds), follow_symlinks=False)
            except FileNotFoundError:
                continue
        self.offset.write_text(str(self.seconds))


class SecondCall(Fault):
    """Somebody else gives the same command meanwhile, and is refused."""

    name, ends_the_call = "a second call meanwhile", False

    def ready(self, grid):
        return (grid.results / ".lock-holder").exists()  # before that, either of them may be the one that is refused

    def hit(self, grid):
        command = grid.command("--cores", "1")
        second = subprocess.run(command, cwd=grid.folder, env=grid.environment, capture_output=True, text=True)
        if grid.snakemake_.poll() is not None or "Nothing to be done" in second.stderr:  # it is just ending
            raise Missed
        if second.returncode == 0 or "is in use by process" not in second.stderr:
            raise AssertionError(f"the second call was not refused: {second.stderr[-2000:]}")


def mount(*arguments: str) -> None:
    """mount(8); Unable where this machine does not let us."""
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True)
    if done.returncode:
        raise Unable(f"nothing can be mounted here: {done.stderr.strip()}")


KINDS = (
    KillTrainer,
    KillSnakemake,
    KillWorker,
    KillEngine,
    Interrupt,
    Terminate,
    FullDisk,
    ReadOnly,
    CutCheckpoint,
    FlippedCheckpoint,
    ClockJump,
    SecondCall,
)
