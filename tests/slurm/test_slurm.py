"""The DAG through workflow/profiles/slurm and a real Slurm: what jobs ask for, and that no lost job loses its training.

Two runs go through the profile in one call of Snakemake. Both trainers stop at their first checkpoint; then one job is
requeued, as after a preemption, and the other reaches its time limit.
"""

import json
import re
import signal
import subprocess
from pathlib import Path

import pytest

from sagc.tiny.warm_start import WarmStartSettings, warm_start
from tests.dag import SMALL, Project
from tests.limits import wait_for
from tests.marks import command_of

# As on a cluster, only that Snakemake asks sooner whether a job has ended.
PROFILE = ("--profile", "workflow/profiles/slurm", "--slurm-init-seconds-before-status-checks", "2")
STEPS = 60
JOBS = {
    "train": {"mem_mb": 2000, "runtime": 30, "gpus": 1},
    "evaluate": {"mem_mb": 1500, "runtime": 20, "gpus": 1},
    "warm_start": {"mem_mb": 1000, "runtime": 10},
}
TABLES = {"report": 1}  # how many


class SlurmProject(Project):
    """A copy of the workflow with a model that is there already, and what its jobs left behind."""

    def __init__(self, folder: Path, model: Path):
        super().__init__(folder, Path(__file__).parents[2])
        self.change("models.tiny", {"type": "pretrained", "path": str(model)})
        self.change("jobs", JOBS)
        self.change("training", {**SMALL["training"], "steps": STEPS})

    def run_folder(self, group) -> Path:
        return self.results / f"tiny/grpo/vanilla/{group}/seed0"

    def start(self, *arguments: str) -> subprocess.Popen:
        with open(self.folder / "output.log", "w") as log:
            return self.popen(*PROFILE, *arguments, stderr=log, stdout=log)

    def output(self) -> str:
        return (self.folder / "output.log").read_text() + self.logs()

    def checkpoint(self, group) -> int:
        """The step of the last whole checkpoint, or 0."""
        sealed = self.run_folder(group).glob("checkpoints/*/*/COMPLETE")
        return max((int(re.findall(r"\d+", path.parent.name)[-1]) for path in sealed), default=0)

    def stop_trainer(self, group) -> bool:
        """Stop the process that trains, if it has a checkpoint: it stays, and does no more."""
        if not self.checkpoint(group):
            return False
        folder = str(self.run_folder(group).relative_to(self.folder))
        for process in self.mark.processes():
            if {"sagc.cli", "train-job", folder} <= set(command_of(process)):
                process.suspend()
                return True
        return False

    def assert_gone_on(self, group, before: int) -> None:
        """The last attempt began after the checkpoint's step or a later one, and the trace has every step once."""
        log = (self.results / f"logs/train/tiny/grpo/vanilla/{group}/seed0.log").read_text()
        gone_on = re.search(rf"going on after step (\d+) of {STEPS}", log)
        assert gone_on and int(gone_on[1]) >= before > 0, log
        trace = self.run_folder(group) / "trace.jsonl"
        assert [json.loads(line)["step"] for line in trace.read_text().splitlines()] == list(range(1, STEPS + 1))
        assert not list(self.run_folder(group).glob("checkpoints/*"))


@pytest.fixture(scope="module")
def model(slurm, tmp_path_factory):
    """An embedded model that has learnt next to nothing; for these tests it need not."""
    folder = tmp_path_factory.mktemp("model") / "tiny"
    warm_start("qwen2", folder, 0, WarmStartSettings(steps=5, measured_problems=2, response_limit=32))
    return folder


@pytest.fixture(scope="module")
def grid(slurm, model, tmp_path_factory):
    """The finished grid of two runs, each of which lost a training job at its first checkpoint or after."""
    project = SlurmProject(tmp_path_factory.mktemp("grid"), model)
    snakemake = project.start()
    try:
        stopped = slurm.wait(
            lambda: snakemake.poll() is not None or all([project.stop_trainer(group) for group in (4, "sagc-robust")]),
            "both runs have a checkpoint",
        )
        assert stopped and snakemake.poll() is None, project.output()
        project.before = {group: project.checkpoint(group) for group in (4, "sagc-robust")}
        slurm.call("scontrol", "requeue", jobs(slurm, project, "train", 4)[0]["JobId"])
        limited = jobs(slurm, project, "train", "sagc-robust")[0]["JobId"]
        slurm.call("scontrol", "update", f"JobId={limited}", "EndTime=now")  # Slurm looks at time limits every 30 s
        assert wait_for(snakemake, 300) == 0, project.output() + slurm.logs()
    finally:
        end(snakemake)
    project.jobs = {rule: jobs(slurm, project, rule) for rule in ("train", "evaluate", *TABLES)}
    return project


@pytest.fixture
def project(model, tmp_path):
    return SlurmProject(tmp_path, model)


def jobs(slurm, project: SlurmProject, rule: str = "", group="") -> list[dict[str, str]]:
    """The project's jobs by rising id, as `scontrol show job` shows them."""
    comment = re.compile(rf"rule_{rule or '.*'}(_wildcards_(.*_)?{group}.*)?$")
    return [job for job in slurm.jobs() if job["WorkDir"] == str(project.folder) and comment.match(job["Comment"])]


def end(snakemake: subprocess.Popen) -> None:
    """Ctrl-C, which takes its jobs along."""
    if snakemake.poll() is None:
        snakemake.send_signal(signal.SIGINT)
        wait_for(snakemake, 60)


def test_a_grid_of_two_runs_goes_through_a_slurm_without_accounting(grid, slurm):
    """Partition, GPUs, memory and time of every job as profile and config say."""
    asked = ("Partition", "TresPerJob", "MinMemoryNode", "TimeLimit", "Requeue", "JobState")
    shown = {rule: [tuple(job.get(name) for name in asked) for job in found] for rule, found in grid.jobs.items()}
    train = ("gpu", "gres:gpu:1", "2000M", "00:30:00", "1", "COMPLETED")
    assert train in shown["train"] and len(shown["train"]) == 3
    assert shown["evaluate"] == [("gpu", "gres:gpu:1", "1500M", "00:20:00", "1", "COMPLETED")] * 2
    small = ("cpu", None, "1000M", "00:10:00", "1", "COMPLETED")
    report = ("cpu", None, "2000M", "00:20:00", "1", "COMPLETED")
    for rule, count in TABLES.items():
        assert shown[rule] == [report if rule == "report" else small] * count
    assert len(jobs(slurm, grid)) == 5 + sum(TABLES.values())
    assert len((grid.results / "summary.csv").read_text().splitlines()) == 1 + 2
    assert grid.planned(*PROFILE) == {}


def test_a_job_that_was_requeued_goes_on_from_its_checkpoint(grid):
    (job,) = [job for job in grid.jobs["train"] if "sagc-robust" not in job["Comment"]]
    assert (job["Restarts"], job["JobState"]) == ("1", "COMPLETED")
    grid.assert_gone_on(4, grid.before[4])


def test_a_job_that_reached_its_time_limit_is_submitted_again_and_goes_on(grid):
    states = [job["JobState"] for job in grid.jobs["train"] if "sagc-robust" in job["Comment"]]
    assert states == ["TIMEOUT", "COMPLETED"]
    grid.assert_gone_on("sagc-robust", grid.before["sagc-robust"])


def test_memory_escalates_on_retry(grid):
    memory = [job["MinMemoryNode"] for job in grid.jobs["train"] if "sagc-robust" in job["Comment"]]
    assert memory == ["2000M", "4000M"]


def test_after_scancel_the_same_command_goes_on_from_the_checkpoint(project, slurm):
    command = ("--retries", "0", "results/tiny/grpo/vanilla/4/seed0/model")
    snakemake = project.start(*command)
    try:
        slurm.wait(lambda: snakemake.poll() is not None or project.checkpoint(4), "there is a checkpoint")
        (job,) = jobs(slurm, project, "train")
        slurm.call("scancel", job["JobId"])
        assert wait_for(snakemake, 120) != 0
    finally:
        end(snakemake)
    assert "SLURM status is: 'CANCELLED'" in project.output()
    assert not (project.run_folder(4) / "model").exists()
    before = project.checkpoint(4)
    assert before < STEPS

    again = project.snakemake(*PROFILE, *command)
    assert again.returncode == 0, again.stderr + project.logs()
    assert [job["JobState"] for job in jobs(slurm, project, "train")] == ["CANCELLED", "COMPLETED"]
    project.assert_gone_on(4, before)


def test_rules_that_the_profile_does_not_name_go_to_the_cpu_partition_and_end_with_ctrl_c(project, slurm):
    project.change("models.tiny", SMALL["models"]["tiny"])
    snakemake = project.start("results/models/tiny")
    try:
        (job,) = slurm.wait(lambda: jobs(slurm, project, "warm_start"), "the job is there")
    finally:
        end(snakemake)
    assert (job["Partition"], job.get("TresPerJob"), job["MinMemoryNode"]) == ("cpu", None, "1000M")
    slurm.wait(lambda: jobs(slurm, project)[0]["JobState"] == "CANCELLED", "the job was cancelled")
