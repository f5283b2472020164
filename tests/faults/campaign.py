"""Many moments of many faults: every one on a grid of its own, two at a time, with a table at the end.

What is done is kept, and a campaign that was stopped goes on where it was.
"""

import json
import random
import re
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

from sagc.tiny.warm_start import WarmStartSettings, warm_start
from tests.faults.grid import POLL_S, FaultyGrid
from tests.faults.kinds import Fault, Missed, Unable

GOOD = "as the unbroken grid"
WARM_START = WarmStartSettings(steps=60, measured_problems=8, response_limit=32)


@dataclass(frozen=True)
class Outcome:
    """What became of a grid that was hit once."""

    fault: str
    stack: str
    moment: int
    phase: str  # what the grid was at work on
    step: int  # steps of training done
    first_call: str  # how the call ended that was hit
    outcome: str  # GOOD, why it could not be tried ("skipped: ..."), or what was wrong
    seconds: float

    @property
    def good(self) -> bool:
        return self.outcome == GOOD


class Unbroken:
    """A grid that nothing happened to, and how long it was at work on what, in seconds."""

    def __init__(self, stack: str, model: Path, folder: Path):
        self.stack, self.model, self.folder = stack, model, folder
        self.grid = FaultyGrid(_empty(folder / f"unbroken-{stack}"), stack, model)
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

    def hit(self, kind: type[Fault], moment: int) -> Outcome:
        """A grid of the same kind, hit by a fault at the moment of that number, and finished by the same command."""
        name = f"{kind.__name__}-{self.stack}-{moment}"
        chance, started = random.Random(name), time.monotonic()
        fault, at = kind(chance.getrandbits(32)), chance.random()
        said = {"fault": kind.name, "stack": self.stack, "moment": moment, "phase": "", "step": 0, "first_call": ""}
        while True:
            grid = FaultyGrid(_empty(self.folder / name), self.stack, self.model)
            try:
                fault.prepare(grid)
                grid.start()
                said |= self._strike(grid, fault, at)
                outcome = "; ".join(self._finish(grid, fault, said["first_call"])) or GOOD
            except Missed:
                at /= 2
                continue
            except Unable as reason:
                outcome = f"skipped: {reason}"
            except (AssertionError, TimeoutError, OSError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
                outcome = f"{type(error).__name__}: {error}"
            finally:
                grid.end()
                _keep(grid, self.folder / "failed" / name)
                fault.clean(grid)
                shutil.rmtree(grid.folder, ignore_errors=True)
            if outcome == GOOD or outcome.startswith("skipped"):
                shutil.rmtree(self.folder / "failed" / name, ignore_errors=True)
            return Outcome(**said, outcome=outcome, seconds=time.monotonic() - started)

    def _strike(self, grid: FaultyGrid, fault: Fault, at: float) -> dict:
        """Let the fault happen at its moment, and wait for Snakemake to end."""
        wait = at * self.seconds.get(fault.during, 0.0)  # a phase may be too short to be seen
        if fault.during != "the grid" and not grid.wait_until(lambda: grid.at_work(fault.during)):
            raise Missed
        time.sleep(wait)
        if not grid.wait_until(lambda: fault.ready(grid)):
            raise Missed
        said = {"phase": grid.phase(), "step": grid.steps()}
        fault.hit(grid)
        said["first_call"] = _status(grid.finish())
        fault.mend(grid)
        return said

    def _finish(self, grid: FaultyGrid, fault: Fault, first_call: str) -> Iterable[str]:
        """Give the same command again, if that is needed; what is wrong then."""
        if first_call != "finished":
            before = grid.log.read_text() + grid.logs()
            grid.start()
            if grid.finish():
                return [f"the same command failed: {_last(grid.log)}"]
            if fault.must_be_said not in before + grid.logs():
                return [f"nowhere is said {fault.must_be_said!r}", *grid.complaints(self.grid)]
        return grid.complaints(self.grid)


def make_model(folder: Path) -> Path:
    """An embedded model that has learnt a little."""
    model = folder / "model"
    if not model.exists():
        warm_start("qwen2", model, 0, WARM_START)
    return model


def campaign(
    kinds: Iterable[type[Fault]], moments: int, stacks: Iterable[str], folder: Path, at_once: int = 2
) -> Iterator[Outcome]:
    """Every kind at so many moments of every stack that it is for; the outcomes, as they come.

    Those in `folder`/outcomes.jsonl are not tried again.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "outcomes.jsonl"
    done = [Outcome(**json.loads(line)) for line in file.read_text().splitlines()] if file.exists() else []
    yield from done
    known = {(outcome.fault, outcome.stack, outcome.moment) for outcome in done}
    model = make_model(folder)
    for stack in stacks:
        wanted = [
            (k, m) for m in range(moments) for k in kinds if stack in k.stacks and (k.name, stack, m) not in known
        ]
        if not wanted:
            continue
        unbroken = Unbroken(stack, model, folder)
        with ThreadPoolExecutor(at_once) as pool:
            for future in as_completed([pool.submit(unbroken.hit, *each) for each in wanted]):
                outcome = future.result()
                with open(file, "a", encoding="utf-8") as out:
                    out.write(json.dumps(asdict(outcome)) + "\n")
                yield outcome


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


def _empty(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
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
