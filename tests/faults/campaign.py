"""Many moments of many faults, two grids at a time, with a table at the end.

A grid is hit several times in a row by one kind of fault, until it is finished or has had its share, with the same
command after each that ended the call: starting takes longer than all the rest, and trouble does come twice. What is
done is kept, and a campaign that was stopped goes on where it was.
"""

import json
import random
import re
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import psutil

from sagc.tiny.warm_start import WarmStartSettings, warm_start
from tests.faults.grid import POLL_S, FaultyGrid
from tests.faults.kinds import Fault, Missed, Unable

GOOD = "as the unbroken grid"
IN_A_ROW = 10  # hits of a grid at most
WARM_START = WarmStartSettings(steps=60, measured_problems=8, response_limit=32)


@dataclass(frozen=True)
class Outcome:
    """A hit, and what became of the grid in the end."""

    fault: str
    stack: str
    moment: int
    phase: str  # what the grid was at work on
    step: int  # steps of training done
    call: str  # how the call ended that was hit
    outcome: str  # GOOD, why it could not be tried ("skipped: ..."), or what was wrong
    seconds: float  # of the grid, shared by its hits

    @property
    def good(self) -> bool:
        return self.outcome == GOOD


class Unbroken:
    """A grid that nothing happened to, and how long it was at work on what, in seconds."""

    def __init__(self, stack: str, model: Path, folder: Path, number: int = 0):
        self.stack, self.model, self.folder = stack, model, folder
        self.grid = FaultyGrid(_empty(folder / f"unbroken-{stack}-{number}"), stack, model)
        seen: dict[str, list[float]] = {}
        started = time.monotonic()
        self.grid.start()
        while self.grid.snakemake_.poll() is None:
            for phase in self.grid.phases():
                seen.setdefault(phase, []).append(time.monotonic())
            time.sleep(POLL_S)
        if self.grid.finish():
            raise RuntimeError(f"the unbroken grid failed: {self.grid.log.read_text()}\n{self.grid.logs()}")
        self.seconds = {phase: max(times) - min(times) for phase, times in seen.items()}
        self.seconds["the grid"] = time.monotonic() - started

    def hit(self, kind: type[Fault], moments: Sequence[int]) -> list[Outcome]:
        """A grid of the same kind, hit by a fault at the moments of these numbers, as many as it takes to finish, and
        finished by the same command. At least the first of the moments is in the outcomes."""
        name = f"{kind.__name__}-{self.stack}-{moments[0]}"
        started, fault = time.monotonic(), kind(random.Random(name).getrandbits(32))
        at = {moment: random.Random(f"{kind.__name__}-{self.stack}-{moment}").random() for moment in moments}
        if not fault.ends_the_call:
            moments = sorted(moments, key=at.get)
        places = [at[moment] for moment in moments]
        while True:
            grid, hits = FaultyGrid(_empty(self.folder / name), self.stack, self.model), []
            try:
                fault.prepare(grid)
                ended = self._strike_on(grid, fault, places, hits)
                outcome = "; ".join(self._finish(grid, fault, ended)) or GOOD
            except Missed:
                places[0] /= 2
                if places[0] > 1e-3:
                    continue
                outcome = "the moment never came"
            except Unable as reason:
                outcome = f"skipped: {reason}"
            except (AssertionError, TimeoutError, OSError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
                outcome = f"{type(error).__name__}: {error}"
            finally:
                grid.end()
                _keep(grid, self.folder / "failed" / name)
                remove(grid.folder)
            if outcome == GOOD or outcome.startswith("skipped"):
                shutil.rmtree(self.folder / "failed" / name, ignore_errors=True)
            seconds = (time.monotonic() - started) / max(1, len(hits))
            hits = hits or [{"phase": "", "step": 0, "call": ""}]
            same = {"fault": kind.name, "stack": self.stack, "outcome": outcome, "seconds": seconds}
            return [Outcome(**same, moment=moment, **hit) for moment, hit in zip(moments, hits, strict=False)]

    def _strike_on(self, grid: FaultyGrid, fault: Fault, places: Iterable[float], hits: list[dict]) -> str:
        """Let the fault happen again and again, with the same command where it has ended; how the last call ended."""
        ended = ""
        for at in places:
            if not grid.calls or ended:
                grid.start()
                started = time.monotonic()
            try:
                hits.append(self._strike(grid, fault, started, at))
            except Missed:
                if not hits:
                    raise
                break
            if fault.ends_the_call:
                hits[-1]["call"] = ended = _status(grid.finish())
                fault.mend(grid)
            if ended == "finished":
                break
        ended = _status(grid.finish())
        for hit in hits:
            hit["call"] = hit["call"] or ended
        return ended

    def _strike(self, grid: FaultyGrid, fault: Fault, started: float, at: float) -> dict:
        """Let the fault happen at its moment of the call, or of a phase of it."""
        if fault.during != "the grid":
            if not grid.wait_until(lambda: grid.at_work(fault.during)):
                raise Missed
            started = time.monotonic()
        moment = started + at * self.seconds.get(fault.during, 0.0)  # a phase may be too short to be seen
        time.sleep(max(0.0, moment - time.monotonic()))
        if not grid.wait_until(lambda: fault.ready(grid)) or grid.snakemake_.poll() is not None:
            raise Missed
        said = {"phase": grid.phase(), "step": grid.steps(), "call": ""}
        fault.hit(grid)
        return said

    def _finish(self, grid: FaultyGrid, fault: Fault, ended: str) -> Iterable[str]:
        """Give the same command again, if that is needed; what is wrong then."""
        said = grid.log.read_text() + grid.logs()  # a job's log is written anew with the job
        if ended != "finished":
            grid.start()
            if grid.finish():
                return [f"the same command failed: {_last(grid.log)}"]
        failed = grid.calls > 1
        if failed and fault.must_be_said not in said + grid.logs():
            return [f"nowhere is said {fault.must_be_said!r}", *grid.complaints(self.grid)]
        return grid.complaints(self.grid)


def make_model(folder: Path) -> Path:
    """An embedded model that has learnt a little."""
    model = folder / "model"
    if not model.exists():
        warm_start("qwen2", model, 0, WARM_START)
    return model


def campaign(
    kinds: Sequence[type[Fault]], moments: int, stacks: Sequence[str], folder: Path, at_once: int = 2
) -> Iterator[Outcome]:
    """Every kind at so many moments of every stack that it is for; the outcomes, as they come.

    Those in `folder`/outcomes.jsonl are not tried again.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "outcomes.jsonl"
    done = [Outcome(**json.loads(line)) for line in file.read_text().splitlines()] if file.exists() else []
    known = {(outcome.fault, outcome.stack, outcome.moment): outcome for outcome in done}
    asked = {(kind.name, stack, moment) for kind in kinds for stack in stacks for moment in range(moments)}
    yield from (outcome for place, outcome in known.items() if place in asked)
    model = make_model(folder)
    for stack in stacks:
        wanted = {
            kind: [moment for moment in range(moments) if (kind.name, stack, moment) not in known]
            for kind in kinds
            if stack in kind.stacks
        }
        if not any(wanted.values()):
            continue
        with ThreadPoolExecutor(at_once) as pool:
            # As many at once as are hit at once, so that all take as long, and a moment comes where it should.
            unbroken, *others = pool.map(partial(Unbroken, stack, model, folder), range(at_once))
            if found := [complaint for other in others for complaint in other.grid.complaints(unbroken.grid)]:
                raise RuntimeError(f"two unbroken grids are not the same: {found}")
            for hits in _hit_all(pool, at_once, unbroken, wanted):
                with open(file, "a", encoding="utf-8") as out:
                    out.writelines(json.dumps(asdict(outcome)) + "\n" for outcome in hits)
                yield from hits


def _hit_all(
    pool: ThreadPoolExecutor, at_once: int, unbroken: Unbroken, wanted: dict[type[Fault], list[int]]
) -> Iterator[list[Outcome]]:
    """The outcomes of grid after grid, so many at once, the kinds in turn, until all moments have been."""
    running = {}
    left = {kind: list(moments) for kind, moments in wanted.items() if moments}
    while left or running:
        while left and len(running) < at_once:
            kind = next(iter(left))
            moments = left.pop(kind)
            running[pool.submit(unbroken.hit, kind, moments[:IN_A_ROW])] = kind, moments
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            kind, moments = running.pop(future)
            yield future.result()
            hit = {outcome.moment for outcome in future.result()}
            if rest := [moment for moment in moments if moment not in hit]:
                left[kind] = rest


def table(outcomes: Iterable[Outcome]) -> str:
    """Markdown: fault, stack, where it hit, how often, what became of it."""
    rows: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        rows.setdefault((outcome.fault, outcome.stack), []).append(outcome)
    lines = ["| fault | stack | hit during | times | outcome |", "|---|---|---|---|---|"]
    for (fault, stack), hits in rows.items():
        where = _counts(_where(hit) for hit in hits if hit.phase)
        lines.append(f"| {fault} | {stack} | {where} | {len(hits)} | {_counts(hit.outcome for hit in hits)} |")
    return "\n".join(lines)


def _where(hit: Outcome) -> str:
    return "start" if hit.phase == "between jobs" and not hit.step else hit.phase


def _counts(values: Iterable[str]) -> str:
    found = list(values)
    return ", ".join(f"{value} ({found.count(value)})" for value in sorted(set(found), key=found.count, reverse=True))


def _status(code: int) -> str:
    return "finished" if code == 0 else f"killed by signal {-code}" if code < 0 else f"exit status {code}"


def _last(log: Path) -> str:
    said = re.findall(r"^(?:SAGC|Error|\w+Error|\w+Exception).*", log.read_text(), re.MULTILINE)
    return (said or ["it said nothing"])[-1]


def remove(folder: Path) -> None:
    """A folder, whatever a fault has mounted in it, and a campaign that was killed has left mounted."""
    for place in psutil.disk_partitions(all=True):
        if Path(place.mountpoint).is_relative_to(folder):
            subprocess.run(["umount", "--lazy", place.mountpoint], check=True)
    shutil.rmtree(folder, ignore_errors=True)


def _empty(folder: Path) -> Path:
    remove(folder)
    folder.mkdir(parents=True)
    return folder


def _keep(grid: FaultyGrid, place: Path) -> None:
    """The logs, before the grid is removed."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for file in (grid.log, *grid.run_folder.glob("*.log"), *grid.run_folder.glob("trace.jsonl")):
        if file.exists():
            shutil.copy(file, place)
    (place / "jobs.log").write_text(grid.logs())
