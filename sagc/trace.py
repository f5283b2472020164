"""The trace of a run: one StepRecord per rollout, a line of JSON each, appended and flushed as it happens."""

import dataclasses
import errno
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class StepRecord:
    """What happened in one step: a rollout of `prompts` groups of `group_size` responses and the updates on it.

    Lengths are in tokens, end token included, counted on the raw generation. Rewards are those of the outcome, before
    any length penalty. Groups that dynamic sampling dropped are in `lengths` and `rewards` too: their time was spent.
    With several processes a round may give one of them more groups than it lacks; such a group is neither kept nor
    filtered.
    Times are in seconds; `step_s` is the whole step (checkpoints excluded), of which `rollout_s` went into generating
    and scoring, `sync_s` into handing the new weights to the generator and `train_s` into the updates.
    """

    step: int  # 1 is the first
    policy_version: int  # optimizer steps that the policy had seen when it generated
    group_size: int
    prompts: int  # groups asked for
    samples: int  # responses trained on
    kept_groups: int
    filtered_groups: int  # dropped by dynamic sampling because their rewards are all equal
    rounds: list[int]  # groups generated together, per round of dynamic sampling
    prompt_index: list[int]  # row of the training data, per group
    lengths: list[list[int]]  # per group
    rewards: list[list[float | None]]  # per group; None where no reward could be given
    truncated: int  # responses that the limit cut off
    straggler_events: int
    straggler_rate: float
    idle_fraction: float  # of the rounds' decode slots, see sagc.lengths.idle_fraction
    max_length: int
    mean_length: float
    median_length: float
    tokens: int
    reward: float | None  # mean over all responses generated that have one
    learning_rate: float
    optimizer_steps: int
    rollout_s: float
    train_s: float
    sync_s: float
    step_s: float
    dual_variable: float | None  # lambda of the published controller
    budget: float | None  # b_t of the robust controller
    risks: dict[str, float]  # straggler risk per ladder size, as the controller believes after this step
    infeasible: bool  # no ladder size fits the budget
    next_group_size: int
    vllm_kl: float | None = None  # mean log-ratio of rollout engine to trained policy, before the updates; openrlhf

    def to_json(self) -> str:
        """One line, without a line break. Raises ValueError for NaN and infinities, which JSON lacks."""
        return json.dumps(dataclasses.asdict(self), allow_nan=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, line: str) -> "StepRecord":
        """The inverse of `to_json`; fields that later versions add are ignored. Raises ValueError otherwise, and
        where the rounds are not of the groups."""
        values = json.loads(line)
        fields = dataclasses.fields(cls)
        missing = {field.name for field in fields if field.default is dataclasses.MISSING} - values.keys()
        if missing:
            raise ValueError(f"a step record lacks {', '.join(sorted(missing))}")
        record = cls(**{field.name: values[field.name] for field in fields if field.name in values})
        if sum(record.rounds) != len(record.lengths):
            raise ValueError(f"rounds of {record.rounds} groups, but {len(record.lengths)} groups")
        return record


class TraceWriter:
    """Appends records to a file; every record is on disk when `append` returns.

    Opening a trace that exists continues it: a half-written last line, as a killed process leaves it, is cut off.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        _cut_half_line(self.path)

    def append(self, record: StepRecord) -> None:
        """Write one record. Raises OSError where the disk is full; the records before it stay whole."""
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
    """The records of a trace, in order. A half-written last line is left out; any other bad line is a ValueError."""
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                yield StepRecord.from_json(line.decode("utf-8"))
            except (ValueError, TypeError, AttributeError) as error:
                raise ValueError(f"{path}, line {number}: not a step record ({error})") from None


class TraceFollower:
    """Reads a trace that grows.

    Parameters
    ----------
    path : path
        The trace, which need not be there yet.
    skip : int
        Records at its beginning that are not handed out.
    """

    def __init__(self, path: str | Path, skip: int = 0):
        self.path, self.skip = Path(path), skip
        self._position = 0  # bytes read

    def new(self) -> list[StepRecord]:
        """The records since the last call; all over again where a resumed run has put the trace back.

        Raises ValueError for a line that is no record; one that is half written is left for the next call.
        """
        try:
            with open(self.path, "rb") as file:
                if file.seek(0, os.SEEK_END) < self._position:
                    self._position = 0
                file.seek(self._position)
                whole = file.read().rpartition(b"\n")[0]
        except FileNotFoundError:
            return []
        lines = whole.splitlines(keepends=True)
        self._position += len(whole) + bool(whole)
        fresh, self.skip = lines[self.skip :], max(0, self.skip - len(lines))
        return [StepRecord.from_json(line.decode("utf-8")) for line in fresh]


def _cut_half_line(path: Path) -> None:
    if not path.exists():
        return
    data = path.read_bytes()
    end = data.rfind(b"\n") + 1
    if end != len(data):
        os.truncate(path, end)
