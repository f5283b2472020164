"""`make study` as a whole, on a small study of its own."""

import os
import subprocess
import sys


def study(project, folder, config):
    """Call Snakemake on the study in a folder, with this checkout's code."""
    command = [sys.executable, "-m", "snakemake", "--snakefile", project / "workflow" / "study.smk", "--cores", "2"]
    environment = os.environ | {"PYTHONPATH": str(project)}
    options = {"cwd": folder, "env": environment, "capture_output": True, "text": True}
    return subprocess.run([*command, "--configfile", config], **options)


def test_the_study_is_done_once(small_study, project, tmp_path):
    first = study(project, tmp_path, small_study)
    assert first.returncode == 0, first.stderr
    results = tmp_path / "study"
    assert {path.name for path in results.glob("*.md")} == {"table.md", "verdict.md", "variants.md"}
    assert len(list((results / "figures").glob("*.svg"))) == 3
    again = study(project, tmp_path, small_study)
    assert again.returncode == 0 and "Nothing to be done" in again.stderr + again.stdout


def test_a_mistake_in_the_config_is_one_sentence(small_study, project, tmp_path):
    small_study.write_text(small_study.read_text().replace("seeds: 2", "seeds: 1", 1))
    refused = study(project, tmp_path, small_study)
    assert refused.returncode != 0
    sentence = f"Error: {small_study}: seeds is 1: input should be greater than or equal to 2"
    assert sentence in (refused.stderr + refused.stdout).splitlines()
