"""The DAG through real Snakemake: what runs, what runs again after a change, and what a user reads when it fails.

Every test works in a copy of the project's Snakefile, workflow/, config/ and profiles/ with a small config/config.yaml,
and calls Snakemake as the README does. One module-wide copy holds a finished grid, which is trained once.
"""

import copy
import importlib.util
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import zipfile
from pathlib import Path

import pandas as pd
import psutil
import pytest
import yaml

from tests.conftest import files_with_secrets
from tests.dag import SMALL, Project
from tests.limits import wait_until


def start_until(project, happened) -> subprocess.Popen:
    """Snakemake in the background, as far as that has happened."""
    snakemake = project.popen("--cores", "2", stderr=subprocess.PIPE, text=True)

    def happened_before_it_ended() -> bool:
        assert snakemake.poll() is None, snakemake.stderr.read() + project.logs()
        return bool(happened())

    wait_until(happened_before_it_ended, 120, project.logs)
    return snakemake


def one_run(folder: Path, source: Path, trained: Project) -> Project:
    """A project with a grid of one run, of the size 4, whose model is there already."""
    single = Project(folder, source)
    shutil.copytree(trained.results / "models", single.results / "models")
    single.change("grid.groups", [4])
    return single


@pytest.fixture
def fresh(tmp_path, project):
    """A project in which nothing has run."""
    return Project(tmp_path, project)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A project whose grid of two runs is finished; shared, so a test that changes it must change it back."""
    finished = Project(tmp_path_factory.mktemp("trained"), Path(__file__).parents[2])
    finished.output = finished.run().stderr
    return finished


@pytest.fixture
def finished(trained):
    """The finished project with its own config, whatever the test then does with it."""
    yield trained
    trained.write(SMALL)


TABLES = {"report": 1}
LIST = {"list_runs": 1}  # where the set of runs changes
RUN = {"train": 1, "evaluate": 1, **TABLES}
EVALUATIONS = {"evaluate": 2, **TABLES}
BOTH = {"train": 2, **EVALUATIONS}


def test_the_default_grid_is_the_papers(fresh, project):
    shutil.copy(project / "config" / "config.yaml", fresh.folder / "config")
    assert fresh.planned() == {
        "warm_start": 2,
        "write_data": 1,
        "train": 23,
        "evaluate": 23,
        **TABLES,
        **LIST,
    }


def test_the_papers_grid_is_listed_on_any_machine(fresh, project):
    """Every job with its GPUs, memory and time, though neither models nor data nor GPUs are here."""
    shutil.copy(project / "config" / "paper.yaml", fresh.folder / "config")
    listed = fresh.snakemake("-n", "-p", "--configfile", "config/paper.yaml").stdout
    assert fresh.planned("--configfile", "config/paper.yaml") == {
        "write_prompts": 2,
        "check_overlap": 1,
        "train": 32,
        "evaluate": 32,
        **TABLES,
        **LIST,
    }
    for job in (
        "train qwen2.5-3b with dapo on vanilla, group size sagc, seed 0 (8 GPUs, 64000 MB, 2880 minutes at most)",
        "train llama-3.2-3b with grpo on openrlhf, group size 16, seed 0 (8 GPUs, 400000 MB, 2880 minutes at most)",
        "evaluate qwen2.5-3b after dapo on openrlhf, group size 4, seed 0 (1 GPUs, 64000 MB, 600 minutes at most)",
    ):
        assert f": {job}\n" in listed
    assert listed.count(" minutes at most)") == 2 * 32 + 2 + 1 + len(TABLES) + len(LIST)  # of every job
    # The vanilla stack has a process per GPU, the openrlhf stack starts its own.
    commands = re.findall(r"-m sagc\.cli train-job results/paper/\S+", listed)
    several = re.findall(r"torch.distributed.run --standalone --nproc-per-node 8 -m sagc\.cli train-job (\S+)", listed)
    assert len(commands) == 32 and len(several) == 16
    assert all("/vanilla/" in folder for folder in several)


def test_a_config_file_on_the_command_line_stands_in_for_the_default(fresh):
    (fresh.folder / "config" / "config.yaml").write_text("broken: [")
    other = copy.deepcopy(SMALL)
    other["grid"]["groups"] = [16]
    (fresh.folder / "other.yaml").write_text(yaml.safe_dump(other))
    assert fresh.planned("--configfile", "other.yaml") == {"warm_start": 1, "write_data": 1, **RUN, **LIST}


def test_single_keys_can_be_changed_on_the_command_line(fresh):
    output = fresh.snakemake("-n", "--config", "results=elsewhere", "grid={seeds: [1, 2]}").stdout
    assert set(re.findall(r"write the tables, such as (\S+),", output)) == {"elsewhere/summary.md"}
    assert len(re.findall(r": train tiny", output)) == 4


def test_prompts_of_the_users_own_are_an_input(fresh):
    fresh.change("data", {"type": "jsonl", "path": "mine.jsonl"})
    missing = fresh.snakemake("-n")
    assert missing.returncode and "mine.jsonl" in missing.stdout + missing.stderr
    (fresh.folder / "mine.jsonl").write_text('{"prompt": "1x +2 = 3:", "answer": "1"}\n')
    assert fresh.planned() == {
        "warm_start": 1,
        "write_prompts": 1,
        "check_overlap": 1,
        "write_data": 1,  # the evaluation's problems
        **BOTH,
        **LIST,
    }


def test_a_pretrained_model_needs_no_warm_start(fresh):
    fresh.change("models.tiny", {"type": "pretrained", "path": "someone/model"})
    assert fresh.planned() == {"write_data": 1, **BOTH, **LIST}


def test_a_controller_of_a_name_of_its_own_is_an_arm(fresh):
    fresh.change("controllers", {"wide": {"type": "sagc-robust", "delta": 0.8}})
    fresh.change("grid.groups", [4, "wide"])
    assert fresh.planned() == {"warm_start": 1, "write_data": 1, **BOTH, **LIST}
    assert "group size wide" in fresh.snakemake("-n").stdout


def test_a_run_beside_the_grid_can_be_asked_for(fresh):
    target = "results/tiny/grpo/vanilla/8/seed7/model"
    assert fresh.planned(target) == {"warm_start": 1, "write_data": 1, "train": 1}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("grid: [", "config.yaml is not valid YAML at line 1, column 8"),
        ("", "must be a mapping of keys to values"),
        (yaml.safe_dump({**SMALL, "results": "r {x}"}), "results is 'r {x}': braces are wildcards of Snakemake; every"),
        (yaml.safe_dump({**SMALL, "results": "~nobody-here/x"}), "~nobody-here is no home folder here"),
        (yaml.safe_dump({**SMALL, "trainig": {}}), "config.yaml: unknown key trainig; allowed here are results, grid"),
        (yaml.safe_dump({**SMALL, "algorithms": {}}), "unknown algorithm 'grpo'; algorithms are none"),
    ],
)
def test_a_mistake_in_the_config_is_one_sentence(fresh, text, sentence):
    (fresh.folder / "config" / "config.yaml").write_text(text)
    done = fresh.snakemake("--cores", "1")
    assert done.returncode != 0
    errors = [line for line in done.stderr.splitlines() if not line.startswith("Using workflow specific profile")]
    assert len(errors) == 1, done.stderr
    assert errors[0].startswith("Error: ")
    assert sentence in errors[0]
    assert "Traceback" not in done.stdout
    assert not fresh.results.exists()


def test_the_grid_ends_in_a_table(trained):
    table = pd.read_csv(trained.results / "summary.csv")
    assert sorted(table["group"].astype(str)) == ["4", "sagc-robust"]
    assert (table["steps"] == 2).all()
    assert "sagc-robust" in (trained.results / "summary.md").read_text()
    for group in ("4", "sagc-robust"):
        run = trained.results / "tiny" / "grpo" / "vanilla" / group / "seed0"
        assert {"config.json", "trace.jsonl", "model", "eval", "summary.json"} <= {path.name for path in run.iterdir()}
        for rule in ("train", "evaluate"):
            assert (trained.results / "logs" / rule / "tiny/grpo/vanilla" / group / "seed0.log").exists()


def test_no_file_holds_a_key_of_the_environment(trained):
    """Logs, traces, configs, event files, tables and the report."""
    assert files_with_secrets(trained.folder) == []


def test_the_grid_ends_in_a_report(trained):
    page = (trained.results / "report.html").read_text()
    assert page.count('<section class="run"') == 2 and "are missing" not in page
    assert {run["group"] for run in json.loads((trained.results / "grid.json").read_text())["runs"]} == {
        4,
        "sagc-robust",
    }
    assert len(list((trained.results / "figures").glob("*.svg"))) == 7
    for table in ("arms.csv", "efficiency.tex", "equal_cost.md", "pareto.csv", "savings.tex", "published.md"):
        assert (trained.results / "tables" / table).stat().st_size > 0


def test_the_report_of_snakemake_has_page_tables_and_figures(finished):
    finished.snakemake("--report", "report.zip")
    names = zipfile.ZipFile(finished.folder / "report.zip").namelist()
    for suffix in ("report.html", "summary.md", "control.svg", "pareto.svg"):
        assert any(name.endswith(suffix) for name in names), names


def test_the_runs_log_to_tensorboard_where_the_config_asks_for_it(trained, read_events):
    for group in ("4", "sagc-robust"):
        run = trained.results / "tiny" / "grpo" / "vanilla" / group / "seed0"
        assert list(read_events(run / "tensorboard")) == [1, 2]


@pytest.mark.skipif(importlib.util.find_spec("wandb") is not None, reason="wandb is installed here")
def test_a_package_that_logging_lacks_is_said_before_anything_is_made(fresh):
    fresh.change("logging.wandb", {"project": "groups"})
    done = fresh.snakemake("--cores", "1")
    assert done.returncode != 0
    assert "Error: logging.wandb needs the package wandb, which is not installed; `pip install wandb`" in done.stderr
    assert not fresh.results.exists()


def test_what_runs_is_said_and_what_comes_next(trained):
    assert "SAGC: 2 runs in results; every job writes its log below results/logs" in trained.output
    assert "SAGC: all done; open results/report.html in a browser; the table over all runs is" in trained.output


def test_a_second_call_does_nothing_and_is_quick(finished):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert "Nothing to be done" in finished.run().stderr
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 15  # however busy the machine is


def test_text_edits_rerun_nothing(finished):
    (finished.folder / "README.md").write_text("read me again\n")
    readme = finished.folder / "config" / "README.md"
    readme.write_text(readme.read_text() + "\n")
    config = finished.folder / "config" / "config.yaml"
    config.write_text("# a comment\n" + config.read_text())
    assert finished.planned() == {}


@pytest.mark.parametrize(
    ("path", "value", "jobs"),
    [
        ("grid.seeds", [0, 1], BOTH | LIST),
        ("grid.groups", [4, "sagc-robust", 8], RUN | LIST),
        ("include", [{"model": "tiny", "algorithm": "grpo", "stack": "vanilla", "group": 6, "seed": 0}], RUN | LIST),
        ("grid.groups", [4], TABLES | LIST),
        ("training.learning_rate", 1e-3, BOTH),
        ("straggler.tau", 3, BOTH),
        ("controllers.sagc-robust.delta", 0.5, RUN),
        ("models.tiny.warm_start.steps", 61, {"warm_start": 1, **BOTH}),
        ("evaluation.temperature", 0.5, EVALUATIONS),
        ("jobs.train.mem_mb", 5000, {}),
        ("jobs.train.threads", 2, {}),
        ("logging", {}, {}),
        ("logging", {"tensorboard": True, "wandb": None}, {}),
    ],
)
def test_a_change_reruns_exactly_what_depends_on_it(finished, path, value, jobs):
    finished.change(path, value)
    assert finished.planned() == jobs


@pytest.mark.parametrize("name", ["tiny_heldout.yaml", "_scores.yaml"])
def test_a_benchmark_file_that_changes_reruns_the_evaluations(finished, name):
    task = finished.folder / "config" / "benchmarks" / name
    text = task.read_text()
    task.write_text(text + "# changed\n")
    assert finished.planned() == EVALUATIONS
    task.write_text(text)
    assert finished.planned() == {}


def test_a_deleted_run_is_made_again_and_a_cleaned_one_is_not(finished, tmp_path):
    run = finished.results / "tiny/grpo/vanilla/4/seed0"
    shutil.move(run, tmp_path / "run")
    assert finished.planned() == RUN
    shutil.move(tmp_path / "run", run)
    assert finished.planned() == {}
    for name in ("model", "eval", "summary.json"):
        shutil.move(run / name, tmp_path / name)
    assert finished.planned() == {}
    for name in ("model", "eval", "summary.json"):
        shutil.move(tmp_path / name, run / name)


def test_added_seeds_are_run_and_the_finished_runs_stay(finished):
    kept = finished.results / "tiny/grpo/vanilla/4/seed0/model/config.json"
    before = os.stat(kept).st_mtime_ns
    finished.change("grid", {**SMALL["grid"], "groups": [4], "seeds": [0, 1]})
    finished.run()
    table = pd.read_csv(finished.results / "summary.csv")
    assert sorted(table["seed"]) == [0, 1]
    assert os.stat(kept).st_mtime_ns == before


def test_a_killed_training_goes_on_from_its_checkpoint(trained, tmp_path, project):
    """SIGKILL of the trainer: Snakemake says which log to read, and the same command finishes the run."""
    killed = one_run(tmp_path, project, trained)
    killed.change("training.steps", 30)
    run = killed.results / "tiny/grpo/vanilla/4/seed0"
    snakemake = start_until(killed, lambda: list(run.glob("checkpoints/*/*/COMPLETE")))
    trainers = [p for p in psutil.Process(snakemake.pid).children(recursive=True) if "sagc.cli" in p.cmdline()]
    for trainer in trainers:
        trainer.send_signal(signal.SIGKILL)
    _, stderr = snakemake.communicate()
    assert snakemake.returncode != 0
    assert "SAGC: train failed, see results/logs/train/tiny/grpo/vanilla/4/seed0.log: step " in stderr
    assert not (run / "model").exists()

    killed.run("results/tiny/grpo/vanilla/4/seed0/model")
    log = (killed.results / "logs/train/tiny/grpo/vanilla/4/seed0.log").read_text()
    assert re.search(r"going on after step \d+ of 30", log)
    steps = [yaml.safe_load(line)["step"] for line in (run / "trace.jsonl").read_text().splitlines()]
    assert steps == list(range(1, 31))
    assert not list(run.glob("checkpoints/*"))


def test_after_sigkill_of_snakemake_the_same_command_ends_what_it_left_and_finishes(trained, tmp_path, project):
    killed = one_run(tmp_path, project, trained)
    killed.change("training.steps", 30)
    run = killed.results / "tiny/grpo/vanilla/4/seed0"
    snakemake = start_until(killed, lambda: list(run.glob("checkpoints/*/*/COMPLETE")))
    [trainer] = [p for p in psutil.Process(snakemake.pid).children(recursive=True) if "sagc.cli" in p.cmdline()]
    trainer.suspend()  # or it would be done before the next call comes to it
    snakemake.kill()
    snakemake.wait()  # its pipe stays open as long as the trainer lives
    killed.run()
    assert not trainer.is_running()
    log = (killed.results / "logs/train/tiny/grpo/vanilla/4/seed0.log").read_text()
    assert f"ending process {trainer.pid}" in log and re.search(r"going on after step \d+ of 30", log)
    steps = [yaml.safe_load(line)["step"] for line in (run / "trace.jsonl").read_text().splitlines()]
    assert steps == list(range(1, 31))
    assert killed.planned() == {}


def test_two_calls_at_once_run_nothing_twice(trained, tmp_path, project):
    both = one_run(tmp_path, project, trained)
    first = start_until(both, lambda: (both.results / ".lock-holder").exists())
    second = both.snakemake("--cores", "1")
    assert second.returncode != 0
    assert f"Error: results is in use by process {first.pid} on" in second.stderr
    assert "Traceback" not in second.stderr
    _, stderr = first.communicate()
    assert first.returncode == 0, stderr + both.logs()
    assert both.planned() == {}


def test_any_name_home_locale_and_umask_will_do(trained, tmp_path, project, monkeypatch):
    """Results and data in a home folder, by odd names, where Python cannot write the names at first."""
    home, name = tmp_path / "höme", "ü 'r' \"[b]*?&;(c)%$x#"
    odd = one_run(tmp_path, project, trained)
    results = home / name
    results.mkdir(parents=True)
    shutil.move(odd.results / "models", results)
    odd.results.rmdir()
    shutil.copy(trained.results / "data" / "tiny" / "train.jsonl", home / "m [b]*?.jsonl")
    odd.results = results
    odd.change("results", f"~/{name}")
    odd.change("data", {"type": "jsonl", "path": "~/m [b]*?.jsonl"})
    for variable, value in {"HOME": str(home), "LC_ALL": "C", "PYTHONUTF8": "0"}.items():
        monkeypatch.setenv(variable, value)
    before = os.umask(0o077)
    try:
        odd.run()
        assert odd.planned() == {}
    finally:
        os.umask(before)
    assert {"tiny", "summary.csv", "report.html"} <= {path.name for path in results.iterdir()}
    assert not odd.folder.joinpath("~").exists() and not list(odd.folder.glob("results*"))
    assert json.loads((results / "tiny/grpo/vanilla/4/seed0/config.json").read_text())["run"]["data"]["path"] == str(
        home / "m [b]*?.jsonl"
    )


def test_an_edit_while_jobs_run_breaks_nothing_and_reruns_nothing(trained, tmp_path, project):
    """Comments in the workflow and a config file, saved while a run trains."""
    edited = one_run(tmp_path, project, trained)
    edited.change("training.steps", 10)
    run = edited.results / "tiny/grpo/vanilla/4/seed0"
    snakemake = start_until(edited, (run / "trace.jsonl").exists)
    for name in ("Snakefile", "workflow/rules/train.smk", "workflow/rules/report.smk", "config/config.yaml"):
        with open(edited.folder / name, "a", encoding="utf-8") as file:
            file.write("\n# a comment\n")
    _, stderr = snakemake.communicate()
    assert snakemake.returncode == 0, stderr + edited.logs()
    assert len((run / "trace.jsonl").read_text().splitlines()) == 10
    assert edited.planned() == {}


def test_a_job_that_fails_names_its_log_and_stops_no_other(trained, tmp_path, project):
    failing = one_run(tmp_path, project, trained)
    failing.change("models.absent", {"type": "pretrained", "path": "./no-such-folder"})
    failing.change("grid.models", ["tiny", "absent"])
    done = failing.snakemake("--cores", "2")
    assert done.returncode != 0
    assert "SAGC: train failed, see results/logs/train/absent/grpo/vanilla/4/seed0.log: " in done.stderr
    assert (failing.results / "tiny/grpo/vanilla/4/seed0/eval/evaluation.json").exists()
