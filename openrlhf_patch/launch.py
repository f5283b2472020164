"""One run of the `openrlhf` stack: checked, started in a process of its own, watched, and cleaned up after."""

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from openrlhf_patch import cpu, preflight
from openrlhf_patch.checkpoints import restore
from openrlhf_patch.flags import build_flags
from openrlhf_patch.job import Spec, command_time
from openrlhf_patch.processes import run_to_end, wait_for_supervisor
from sagc.config.batches import check_prompts
from sagc.config.run import RunConfig
from sagc.data.prompts import read_prompts
from sagc.errors import UserError
from sagc.run.folder import RunFolder
from sagc.run.progress import Progress
from sagc.system import vllm_environment
from sagc.system.files import folder_atomically
from sagc.system.paths import PATTERN, without_patterns
from sagc.trace import StepRecord, TraceFollower

LOG = "openrlhf.log"
ERROR = re.compile(r"(?:[\w.]+\.)?\w*(?:Error|Exception|Interrupt)\b: .+")

QUIET = {
    **vllm_environment.QUIET,
    "RAY_USAGE_STATS_ENABLED": "0",
    "TOKENIZERS_PARALLELISM": "false",
    "PYTHONUNBUFFERED": "1",
}
# Ray takes the loopback interface where it thinks that there can be no cluster. Otherwise it listens to the network,
# and whoever reaches its ports can run code here.
ON_ONE_MACHINE = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "VLLM_HOST_IP": "127.0.0.1",
    "GLOO_SOCKET_IFNAME": "lo",
}
ON_CPU = {
    **vllm_environment.ON_CPU,
    cpu.ENVIRONMENT: "1",
    "DS_ACCELERATOR": "cpu",
    "RAY_worker_niceness": "0",  # workers that give way starve on a busy machine
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


def train(run: RunConfig, folder: RunFolder, model: str, data: Path, on_step: Callable[[StepRecord], None]) -> None:
    """Train a run that `preflight.check` has passed, going on from its last whole checkpoint; the model comes last.

    `on_step` is called in this process with every record that the trace has got, within a second.

    Raises
    ------
    UserError
        For what cannot train here; before any process is started.
    RuntimeError
        Where OpenRLHF failed; the message is its error, and where its log is.
    """
    model = preflight.local_model(run, model)
    preflight.check_gpu_memory(run.openrlhf, Path(model))
    rows = read_prompts(data)
    check_prompts(run, len(rows))
    prompts = preflight.measure_prompts(run, model, rows)
    log = folder.path / LOG
    wait_for_supervisor(log)
    checkpoints = folder.checkpoints(run).absolute()
    done = restore(checkpoints, folder)
    if run.openrlhf.ray_address and PATTERN.search(f"{model} {folder.path.absolute()} {data.absolute()}"):
        raise UserError(
            f"on a cluster, the paths of the run {folder.path.absolute()}, of its model {model} and of its data {data} "
            "may not hold any of * ? [ ] { } and ::, which upstream takes for patterns"
        )
    with (
        without_patterns(folder.path) as named,
        without_patterns(Path(model)) as model_named,
        without_patterns(data) as data_named,
        folder_atomically(folder.model) as output,
        tempfile.TemporaryDirectory(prefix="sagc-", dir=_short_folder()) as scratch,
        Progress(str(folder.path), run.training.steps, done) as progress,
    ):
        flags = build_flags(
            run,
            model=str(model_named),
            data=data_named.absolute(),
            checkpoints=(named / checkpoints.relative_to(folder.path.absolute())).absolute(),
            output=(named / output.name).absolute(),
            prompt_tokens=prompts.tokens,
            chat=prompts.chat,
            seed=(run.seeds["rollout"] + done) % 2**31,  # the engine's random numbers are not in a checkpoint
        )
        trace, kept = (str(path.absolute()) for path in (folder.trace, folder.kept(run.hash)))
        spec = Spec(run.model_dump(mode="json"), flags, str(data.absolute()), trace, kept, scratch)
        steps = TraceFollower(folder.trace, skip=done)
        status = run_to_end(
            [sys.executable, "-m", "openrlhf_patch.driver", str(spec.write(Path(scratch) / "job.json"))],
            environment(run) | {"TMPDIR": scratch},  # vLLM leaves its sockets behind
            log,
            watch=lambda: [(progress.step(record), on_step(record)) for record in steps.new()],
        )
        if status:
            raise RuntimeError(f"OpenRLHF ended with exit status {status}: {_last_error(log)} (the whole log is {log})")
    shutil.rmtree(checkpoints.parent, ignore_errors=True)


def _short_folder() -> str | None:
    """Where Ray's files go: it keeps sockets there, whose paths may have 107 characters, most of them its own."""
    return "/tmp" if len(tempfile.gettempdir()) > 20 and Path("/tmp").is_dir() else None


def environment(run: RunConfig) -> dict[str, str]:
    """Of the driver, from which all its processes have theirs."""
    variables = {**QUIET, **os.environ, **command_time()}
    if not run.openrlhf.ray_address:
        variables |= ON_ONE_MACHINE
    if run.openrlhf.device == "cpu":
        variables |= ON_CPU
    if run.model.type == "tiny":
        variables["HF_HUB_OFFLINE"] = "1"
    return variables


def _last_error(log: Path) -> str:
    """The last line that reads like an exception's, or the last line."""
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    errors = [found.group() for line in lines[-400:] if (found := ERROR.search(line))]
    return (errors or lines or ["it wrote nothing"])[-1]
