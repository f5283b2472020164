"""Runs in progress, in the terminal: `sagc watch RESULTS`."""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean

import click

from sagc.errors import UserError
from sagc.run.folder import RunFolder
from sagc.trace import StepRecord, TraceFollower

LAST_STEPS = 10  # straggler rate, reward and step time are means over these
TITLES = ("run", "state", "step", "G", "lambda or b", "stragglers", "reward", "left")
ACTIVE_STATES = ("training", "evaluating")


@dataclass
class WatchedRun:
    """A run folder and the records read from its trace so far."""

    place: RunFolder
    name: str
    steps: int
    trace: TraceFollower
    last: deque[StepRecord] = field(default_factory=lambda: deque(maxlen=LAST_STEPS))

    @property
    def state(self) -> str:
        if self.place.complete:
            if self.place.in_use:
                return "evaluating"
            return "done" if (self.place.evaluation / "evaluation.json").is_file() else "trained"
        if self.place.in_use:
            return "training"
        return "stopped" if self.last else "waiting"

    def update(self) -> None:
        """Read new records of the trace; if a line is not a record, only this run shows nothing new."""
        try:
            self.last.extend(self.trace.new())
        except ValueError:
            self.last.clear()

    def cells(self) -> list[str]:
        """The cells of the run's line in the table."""
        state = self.state
        if not self.last:
            return [self.name, state, f"0/{self.steps}", *["-"] * (len(TITLES) - 3)]
        now = self.last[-1]
        rewards = [record.reward for record in self.last if record.reward is not None]
        price = now.dual_variable if now.dual_variable is not None else now.budget
        left = mean(record.step_s for record in self.last) * (self.steps - now.step)
        return [
            self.name,
            state,
            f"{now.step}/{self.steps}",
            str(now.group_size),
            "-" if price is None else f"{price:.2f}",
            f"{mean(record.straggler_rate for record in self.last):.2f}",
            f"{mean(rewards):.3f}" if rewards else "-",
            _duration(left) if state == "training" else "-",
        ]


class Watch:
    """The runs below a results folder; new ones are found whenever `update` is called."""

    def __init__(self, results: Path):
        self.results = results
        self.runs: dict[Path, WatchedRun] = {}

    def update(self) -> None:
        """Look for new runs, and read what all runs have written since the last call."""
        for path in self.results.rglob("config.json"):
            folder = path.parent
            if folder not in self.runs and (steps := _steps_of_a_run(path)):
                place, name = RunFolder(folder), str(folder.relative_to(self.results))
                self.runs[folder] = WatchedRun(place, name, steps, TraceFollower(place.trace))
        for run in self.runs.values():
            run.update()

    @property
    def at_work(self) -> bool:
        return any(run.state in ACTIVE_STATES for run in self.runs.values())

    def table(self) -> str:
        """One line per run, sorted by name, and the number of runs in each state."""
        runs = [self.runs[folder] for folder in sorted(self.runs)]
        lines = [list(TITLES), *(run.cells() for run in runs)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        states = [run.state for run in runs]
        counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
        text = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
        ]
        return "\n".join([*text, "", counts])


def watch(results: Path, every: float, show: Callable[[str], None]) -> None:
    """Show the table every `every` seconds until no run is active; only once if the output is not a terminal.

    Raises
    ------
    UserError
        If the folder does not exist or has no runs.
    """
    if not results.is_dir():
        raise UserError(f"results folder {results} does not exist")
    runs = Watch(results)
    runs.update()
    if not runs.runs:
        raise UserError(f"{results} contains no runs")
    if not sys.stdout.isatty():
        show(runs.table())
        return
    while True:
        click.clear()
        show(runs.table())
        if not runs.at_work:
            return
        time.sleep(every)
        runs.update()


def _steps_of_a_run(config: Path) -> int | None:
    """The steps that a run's config asks for; None if the file is another config.json, such as a model's."""
    try:
        content = json.loads(config.read_text(encoding="utf-8"))
        return content["run"]["training"]["steps"] if "hash" in content else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _duration(seconds: float) -> str:
    """Hours, minutes and seconds, without leading zeros."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
