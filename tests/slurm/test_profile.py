"""What Snakemake makes of workflow/profiles/slurm; needs no Slurm."""

import os
import subprocess
import sys

import pytest
from snakemake.cli import parse_args

from tests.slurm import conftest

ALWAYS = {"keep_going": True, "rerun_incomplete": True}  # of profiles/default, which Snakemake loads by itself
CLUSTER = ALWAYS | {"executor": "slurm", "retries": 3, "jobs": 64, "cores": None, "slurm_status_command": "squeue"}


@pytest.mark.parametrize(
    ("command", "settings"),
    [
        (["--profile", "workflow/profiles/slurm"], CLUSTER),
        (["--workflow-profile", "workflow/profiles/slurm"], CLUSTER),
        (["--profile", "workflow/profiles/slurm", "--retries", "0"], CLUSTER | {"retries": 0}),
        (["--cores", "2"], ALWAYS | {"executor": None, "retries": 0, "cores": 2}),
    ],
)
def test_the_settings_that_count(monkeypatch, project, command, settings):
    monkeypatch.chdir(project)
    _, found = parse_args(command)
    assert {name: getattr(found, name) for name in settings} == settings


def test_no_job_asks_for_more_memory_than_a_node_has(project):
    command = "-n --profile workflow/profiles/slurm --configfile config/paper.yaml --resources mem_mb=50000".split()
    listed = subprocess.run(
        [sys.executable, "-m", "snakemake", *command], cwd=project, capture_output=True, text=True, check=True
    ).stdout
    assert "8 GPUs, 50000 MB, 2880 minutes at most" in listed and "64000 MB" not in listed
    assert "write the training prompts of qwen2.5-3b" in listed and "0 GPUs, 2000 MB, 30 minutes at most" in listed


def test_settings_of_another_slurm_are_left_alone(monkeypatch, tmp_path):
    monkeypatch.setattr(conftest, "SETTINGS", tmp_path)
    monkeypatch.setattr(conftest.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(conftest.os, "geteuid", lambda: 0)
    assert conftest.why_not() is None
    (tmp_path / "slurm.conf").write_text(f"{conftest.MARK}\nClusterName=left-by-a-killed-session\n")
    assert conftest.why_not() is None
    (tmp_path / "slurmctld.pid").write_text(str(os.getpid()))
    (tmp_path / "slurm.conf").write_text(f"{conftest.MARK}\nSlurmctldPidFile={tmp_path}/slurmctld.pid\n")
    assert conftest.why_not() == "another session of these tests has a Slurm running"
    (tmp_path / "gres.conf").write_text("NodeName=real\n")
    assert conftest.why_not() == f"{tmp_path}/gres.conf is not from these tests, and is left alone"


def test_what_is_missing_for_slurm_is_said(monkeypatch):
    monkeypatch.setattr(conftest.shutil, "which", lambda name: None if name == "slurmd" else f"/usr/bin/{name}")
    assert conftest.why_not() == ("Slurm is not installed, slurmd is missing (Debian: apt-get install slurm-wlm munge)")
