"""The scalars of every step, for TensorBoard and Weights & Biases if the config's `logging` asks for them.

The trace remains the record of a run. The scalars are derived from it, and may fail without ending the run.
"""

import contextlib
import importlib.util
import logging
import secrets
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from typing import Protocol

from sagc.config.run import RunConfig
from sagc.config.sections import LoggingConfig, WandbConfig
from sagc.errors import UserError
from sagc.run.folder import RunFolder
from sagc.system.files import write_atomically
from sagc.trace import StepRecord, read_trace

log = logging.getLogger("sagc")

LAST_STEPS = 10  # steps over which the step time is averaged, as in `sagc watch`
FINISH_S = 60.0  # most seconds that a finished run waits for W&B, which without a network would wait forever
# Fields of a StepRecord, grouped as TensorBoard and W&B show them.
GROUPS = {
    "control": (
        *("group_size", "next_group_size", "dual_variable", "budget", "infeasible"),
        *("straggler_rate", "straggler_events"),
    ),
    "train": (
        *("reward", "learning_rate", "optimizer_steps", "policy_version", "samples"),
        *("kept_groups", "filtered_groups", "vllm_kl"),
    ),
    "rollout": ("prompts", "tokens", "idle_fraction", "mean_length", "median_length", "max_length", "truncated"),
    "time": ("step_s", "rollout_s", "train_s", "sync_s", "processor_s"),
}


def scalars(record: StepRecord) -> dict[str, float]:
    """The numbers of a step, named GROUP/FIELD; times in seconds, lengths in tokens.

    Besides the fields in `GROUPS` there are `control/risk_G` for every ladder size G and `rollout/rounds`, the number
    of generation rounds. Missing values (no reward, no dual variable) are left out; a flag is 0 or 1.
    """
    values = {f"{group}/{name}": getattr(record, name) for group, names in GROUPS.items() for name in names}
    values["rollout/rounds"] = len(record.rounds)
    values |= {f"control/risk_{size}": risk for size, risk in record.risks.items()}
    return {name: float(value) for name, value in values.items() if value is not None}


def check(wanted: LoggingConfig) -> None:
    """Check that the loggers asked for are installed, before anything is created for the run.

    Raises
    ------
    UserError
        If one is not.
    """
    for name, asked in (("tensorboard", wanted.tensorboard), ("wandb", wanted.wandb is not None)):
        if asked and not _is_installed(name):
            raise UserError(
                f"logging.{name} needs the package {name}, which is not installed; "
                f"`pip install {name}`, or leave the key out"
            )


def _is_installed(name: str) -> bool:
    spec = importlib.util.find_spec(name)
    return (
        spec is not None and spec.origin is not None
    )  # no origin: just a folder of that name, like the one W&B leaves behind


class Sink(Protocol):
    """A destination for scalars."""

    name: str

    def open(self) -> None:
        """Prepare, before training starts.

        Raises
        ------
        UserError
            If the user has to do something first.
        """

    def write(self, step: int, values: dict[str, float], moment: float) -> None:
        """Take the scalars of a step that ended at `moment`, in seconds since 1970."""

    def close(self, failed: bool) -> None:
        """Finish, after a run that succeeded or `failed`."""


class ScalarLog:
    """Passes the scalars of every step to TensorBoard and W&B; does nothing if neither is asked for.

    Before the first step it writes the earlier steps in the trace, which a resumed run has, whether or not they were
    logged then. The scalars include `time/left_s`, the time left, estimated as by `sagc watch`.

    A sink that fails gets no more scalars; a warning says so, and the run goes on.

    Parameters
    ----------
    wanted : LoggingConfig
    folder : RunFolder
    run : RunConfig

    Raises
    ------
    UserError
        If W&B refuses to start, for instance because there is no login.
    """

    def __init__(self, wanted: LoggingConfig, folder: RunFolder, run: RunConfig):
        self._trace, self._steps = folder.trace, run.training.steps
        self._times: deque[float] = deque(maxlen=LAST_STEPS)
        self._begun = False
        self._sinks: list[Sink] = [TensorBoard(folder.path / "tensorboard")] if wanted.tensorboard else []
        if wanted.wandb is not None:
            self._sinks.append(WeightsAndBiases(wanted.wandb, folder, run))
        for sink in list(self._sinks):
            with self._dropping(sink):
                sink.open()

    def write(self, record: StepRecord) -> None:
        """Log a step that is already in the trace."""
        if not self._sinks:
            return
        if not self._begun:
            self._begun = True
            with self._dropping(*self._sinks):
                self._catch_up(record)
        self._send(record.step, self._values(record), time.time())

    def close(self, failed: bool = False) -> None:
        """Finish the logs; `failed` means that the run did not succeed."""
        for sink in list(self._sinks):
            with self._dropping(sink):
                sink.close(failed)
        self._sinks.clear()

    def __enter__(self) -> "ScalarLog":
        return self

    def __exit__(self, kind, *exception) -> None:
        self.close(failed=kind is not None)

    def _catch_up(self, first: StepRecord) -> None:
        """Write the steps before the first one, dated as if there had been no interruption."""
        past = [(record.step, self._values(record)) for record in read_trace(self._trace) if record.step < first.step]
        moment = time.time() - first.step_s - sum(values["time/step_s"] for _, values in past)
        for step, values in past:
            moment += values["time/step_s"]
            self._send(step, values, moment)

    def _values(self, record: StepRecord) -> dict[str, float]:
        self._times.append(record.step_s)
        return {**scalars(record), "time/left_s": mean(self._times) * (self._steps - record.step)}

    def _send(self, step: int, values: dict[str, float], moment: float) -> None:
        for sink in list(self._sinks):
            with self._dropping(sink):
                sink.write(step, values, moment)

    @contextlib.contextmanager
    def _dropping(self, *sinks: Sink) -> Iterator[None]:
        """Give up sinks that fail: a full disk or a network error must not end hours of training."""
        try:
            yield
        except UserError:
            raise
        except Exception as error:
            for sink in set(sinks) & set(self._sinks):
                self._sinks.remove(sink)
                log.warning("%s gets no more scalars of this run, which goes on: %s", sink.name, _first_line(error))


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


class TensorBoard:
    """Event files in the run folder, flushed at every step.

    Every process that trains the run writes its own file, which begins by purging all steps from its first on, so
    TensorBoard shows each step once, with its last values, however often the run was interrupted.
    """

    name = "TensorBoard"

    def __init__(self, folder: Path):
        self.folder = folder
        self._writer = None

    def open(self) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._make = SummaryWriter

    def write(self, step: int, values: dict[str, float], moment: float) -> None:
        if self._writer is None:
            self._writer = self._make(str(self.folder), purge_step=step)
        for name, value in values.items():
            self._writer.add_scalar(name, value, step, walltime=moment)
        self._writer.flush()

    def close(self, failed: bool) -> None:
        if self._writer is not None:
            self._writer.close()


class WeightsAndBiases:
    """A run in Weights & Biases, which a resumed run continues.

    W&B only appends steps to a run. Steps repeated after an interruption keep their first values there (`vanilla` draws
    the same responses again, so only times differ; the trace has the second ones), and missing steps are added.
    Offline, W&B cannot know which steps it has: every attempt has its own folder below RUN_DIR/wandb; the last one
    holds the whole run and is the one to `wandb sync`.

    The account comes from `wandb login` or WANDB_API_KEY, which is never written to disk.
    """

    name = "Weights & Biases"

    def __init__(self, wanted: WandbConfig, folder: RunFolder, run: RunConfig):
        self.wanted, self.folder, self.run = wanted, folder, run

    def open(self) -> None:
        """Start or resume the W&B run.

        Raises
        ------
        UserError
            If W&B refuses, for instance because there is no login.
        """
        import wandb

        try:
            self._run = wandb.init(
                project=self.wanted.project,
                entity=self.wanted.entity,
                mode=self.wanted.mode,
                id=self._id(),
                resume="allow",
                name=self.run.cell.path,
                dir=str(self.folder.path),
                config={"hash": self.run.hash, **self.run.model_dump(mode="json")},
                settings={"console": "off", "finish_timeout": FINISH_S},
            )
        except wandb.errors.UsageError as error:
            raise UserError(f"logging.wandb: {_first_line(error)}") from error
        self._next = self._run.step  # the first step that W&B lacks

    def write(self, step: int, values: dict[str, float], moment: float) -> None:
        if step >= self._next:
            self._run.log(values, step=step)

    def close(self, failed: bool) -> None:
        self._run.finish(exit_code=int(failed))

    def _id(self) -> str:
        """Kept next to the checkpoints and removed with them: a run trained from scratch is a new W&B run."""
        file = self.folder.checkpoints(self.run).with_name(f"{self.run.hash}.wandb")
        if not file.exists():
            write_atomically(file, f"{self.run.hash}-{secrets.token_hex(4)}")
        return file.read_text(encoding="utf-8")
