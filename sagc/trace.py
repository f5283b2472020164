"""The trace of a run: one StepRecord per rollout, a line of JSON each, appended and flushed as it happens."""

import dataclasses
import errno
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from sagc.system.jsonl import numbered_lines, parse_object

if TYPE_CHECKING:
    from pydantic import BaseModel

INTEGER_LIMIT = 2**63  # tables and arrays hold integers in 64 bits


@dataclass(frozen=True)
class StepRecord:
    """What happened in one step: a rollout of `prompts` groups of `group_size` responses and the updates on it.

    Lengths are in tokens, end token included, counted on the raw generation. Rewards are outcome rewards, before any
    length penalty. Groups dropped by dynamic sampling are in `lengths` and `rewards` too, since they took time. With
    several processes, a round may give one process more groups than it lacks; such a group is neither kept nor
    filtered.
    Times are in seconds; `step_s` is the whole step (checkpoints excluded), of which `rollout_s` was spent generating
    and scoring, `sync_s` handing the new weights to the generator, and `train_s` on the updates. On a shared machine
    these times depend on the other work as well; `processor_s` is what the step's own processes computed.
    """

    step: int  # from 1
    policy_version: int  # optimizer steps done before this generation
    group_size: int
    prompts: int  # groups requested
    samples: int  # responses trained on
    kept_groups: int
    filtered_groups: int  # dropped by dynamic sampling because all their rewards are equal
    rounds: list[int]  # groups generated together, per round of dynamic sampling
    prompt_index: list[int]  # row of the training data, per group
    lengths: list[list[int]]  # per group
    rewards: list[list[float | None]]  # per group; None if no reward could be given
    truncated: int  # responses cut off at the limit
    straggler_events: int
    straggler_rate: float
    idle_fraction: float  # of the rounds' decode slots, see sagc.lengths.idle_fraction
    max_length: int
    mean_length: float
    median_length: float
    tokens: int
    reward: float | None  # mean over all generated responses that have one
    learning_rate: float
    optimizer_steps: int
    rollout_s: float
    train_s: float
    sync_s: float
    step_s: float
    dual_variable: float | None  # lambda of the published controller
    budget: float | None  # b_t of the robust controller
    risks: dict[str, float]  # straggler risk per ladder size, estimated by the controller after this step
    infeasible: bool  # no ladder size fits delta or the budget
    next_group_size: int
    vllm_kl: float | None = None  # mean log-ratio of rollout engine to trained policy, before the updates; openrlhf
    processor_s: float | None = None  # all processes and threads; None if some cannot be seen

    def to_json(self) -> str:
        """One line, without a line break.

        Raises
        ------
        ValueError
            If a number is NaN or infinite, which JSON lacks.
        """
        return json.dumps(dataclasses.asdict(self), allow_nan=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, line: str | bytes) -> "StepRecord":
        """The inverse of `to_json`; fields added by later versions are ignored.

        Raises
        ------
        ValueError
            If a field is missing or has a value of the wrong kind, or the rounds do not add up to the groups.
        """
        values = parse_object(line)
        fields = dataclasses.fields(cls)
        missing = {field.name for field in fields if field.default is dataclasses.MISSING} - values.keys()
        if missing:
            raise ValueError(f"a step record lacks {', '.join(sorted(missing))}")
        record = _validated({field.name: values[field.name] for field in fields if field.name in values})
        if sum(record.rounds) != len(record.lengths):
            raise ValueError(f"rounds of {record.rounds} groups, but {len(record.lengths)} groups")
        return record


def _validated(values: dict[str, object]) -> StepRecord:
    from pydantic import ValidationError

    try:
        record = StepRecord(**vars(_kinds().model_validate(values)))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    counts = [value for value in vars(record).values() if type(value) is int]
    for numbers in (counts, record.rounds, record.prompt_index, *record.lengths):
        if max(map(abs, numbers), default=0) >= INTEGER_LIMIT:
            raise ValueError(f"an integer beyond {INTEGER_LIMIT}")
    return record


@cache
def _kinds() -> "type[BaseModel]":
    """The kinds of the fields; built here because writing a trace does not need pydantic."""
    from pydantic import ConfigDict, create_model

    fields = dataclasses.fields(StepRecord)
    kinds = {f.name: (f.type, ... if f.default is dataclasses.MISSING else f.default) for f in fields}
    return create_model("StepRecord", __config__=ConfigDict(strict=True, allow_inf_nan=False), **kinds)


class TraceWriter:
    """Appends records to a file; every record is on disk when `append` returns.

    Opening an existing trace continues it: a half-written last line, left by a killed process, is cut off.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        _cut_half_line(self.path)

    def append(self, record: StepRecord) -> None:
        """Write one record.

        Raises
        ------
        OSError
            If the record cannot be written, for instance because the disk is full; earlier records stay whole.
        """
        line = (record.to_json() + "\n").encode()
        with open(self.path, "ab", buffering=0) as file:
            start = file.tell()
            try:
                if file.write(line) != len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
                os.fsync(file.fileno())
            except OSError:
                os.truncate(self.path, start)
                raise


def read_trace(path: str | Path) -> Iterator[StepRecord]:
    """The records of a trace, in order, without a half-written last line.

    Raises
    ------
    ValueError
        If any other line is not a record.
    """
    whole, newline, _ = Path(path).read_bytes().rpartition(b"\n")
    for number, line in numbered_lines(whole + newline):
        try:
            yield StepRecord.from_json(line)
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: not a step record ({error})") from None


class TraceFollower:
    """Reads a growing trace.

    Parameters
    ----------
    path : path
        The trace, which need not exist yet.
    skip : int
        How many records to skip at its beginning.
    """

    def __init__(self, path: str | Path, skip: int = 0):
        self.path, self.skip = Path(path), skip
        self._position = 0  # bytes read

    def new(self) -> list[StepRecord]:
        """The records since the last call, or all of them again if a resumed run has shortened the trace.

        A half-written line is left for the next call.

        Raises
        ------
        ValueError
            If a line is not a record.
        """
        try:
            with open(self.path, "rb") as file:
                if file.seek(0, os.SEEK_END) < self._position:
                    self._position = 0
                file.seek(self._position)
                whole = file.read().rpartition(b"\n")[0]
        except FileNotFoundError:
            return []
        lines = [line for _, line in numbered_lines(whole)]
        self._position += len(whole) + bool(whole)
        fresh, self.skip = lines[self.skip :], max(0, self.skip - len(lines))
        return [StepRecord.from_json(line) for line in fresh]


def _cut_half_line(path: Path) -> None:
    if not path.exists():
        return
    data = path.read_bytes()
    end = data.rfind(b"\n") + 1
    if end != len(data):
        os.truncate(path, end)
