"""sagc.cli: exit statuses, one-sentence errors, and what reaches the trainer and the evaluation."""

import errno
import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
import yaml
from click.testing import CliRunner

import sagc.run.inputs
from sagc.cli import main, train_job
from sagc.config.changes import load_changed
from sagc.config.run import RunConfig
from sagc.config.sections import LoggingConfig
from sagc.errors import UserError
from sagc.run.stacks import STACKS, Stack
from tests.configs import load_grid


def call(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def refused(*arguments) -> str:
    result = call(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1, "one sentence"
    return result.stderr.removeprefix("Error: ").rstrip("\n")


@pytest.fixture
def trained(monkeypatch):
    """The arguments of each call of sagc.run.train.train, which trains nothing."""
    calls = []
    stub = SimpleNamespace(
        check=lambda run, logging: None, train=lambda *given, end_orphan=False: calls.append((*given, end_orphan))
    )
    monkeypatch.setitem(sys.modules, "sagc.run.train", stub)
    return calls


@pytest.fixture
def embedded_model(tmp_path):
    """A folder that says it is the warm-started model of the minimal config."""
    folder = tmp_path / "results" / "models" / "tiny"
    folder.mkdir(parents=True)
    made = {"architecture": "qwen2", "seed": 0, "settings": {"steps": 1600}}
    (folder / "warm_start.json").write_text(json.dumps(made))
    return folder


def test_help_lists_the_commands():
    result = call("--help")
    assert result.exit_code == 0
    assert {"train", "evaluate", "summarize", "doctor"} <= set(result.stdout.split())


def test_help_imports_nothing_heavy():
    code = (
        "import sys, sagc.cli; print([m for m in ('torch', 'transformers', 'pandas', 'snakemake') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_train_takes_the_grids_first_run_where_nothing_is_said(trained, config_file, embedded_model, tmp_path):
    assert call("train", tmp_path / "run", "--config", config_file()).exit_code == 0
    [(run, folder, model, data, logging, end_orphan)] = trained
    assert run.cell.path == "tiny/grpo/vanilla/4/seed0"
    assert logging == LoggingConfig() and not end_orphan
    assert (folder, model) == (tmp_path / "run", str(embedded_model))
    assert data == tmp_path / "results" / "data" / "tiny" / "train.jsonl"
    assert data.exists()


def test_train_takes_names_and_changes(trained, config_file, embedded_model, tmp_path):
    arguments = [
        "--group-size",
        "sagc",
        "--seed",
        3,
        "--set",
        "training.steps=3",
        "--set",
        "controllers.sagc.delta=0.3",
        "--set",
        "logging.tensorboard=true",
    ]
    assert call("train", tmp_path / "run", "--config", config_file(), *arguments).exit_code == 0
    [(run, *_, logging, _)] = trained
    assert logging == LoggingConfig(tensorboard=True)
    assert run.cell.path == "tiny/grpo/vanilla/sagc/seed3"
    assert run.training.steps == 3
    assert run.controller["delta"] == 0.3


def test_train_reads_config_yaml_of_the_working_folder(trained, config_file, embedded_model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config").mkdir()
    config_file().rename(tmp_path / "config" / "config.yaml")
    assert call("train", "run").exit_code == 0
    assert len(trained) == 1


def test_train_gives_a_pretrained_model_as_it_is_named(trained, config_file, tmp_path):
    models = {"tiny": {"type": "pretrained", "path": "someone/model"}}
    assert call("train", tmp_path / "run", "--config", config_file({"models": models})).exit_code == 0
    assert trained[0][2] == "someone/model"


def test_train_takes_the_run_that_the_dag_resolved(trained, config_file, tmp_path):
    grid = load_grid(config_file())
    run = grid.run(grid.cells()[0])
    options = ["--resolved", run.model_dump_json(), "--model", "m", "--data", tmp_path / "d.jsonl"]
    assert call("train-job", tmp_path / "run", *options).exit_code == 0
    assert call("train-job", tmp_path / "run", *options, "--logging", '{"tensorboard": true}').exit_code == 0
    rest = (run, tmp_path / "run", "m", tmp_path / "d.jsonl")
    assert trained == [(*rest, LoggingConfig(), True), (*rest, LoggingConfig(tensorboard=True), True)]
    assert RunConfig.model_validate_json(run.model_dump_json()).hash == run.hash


@pytest.mark.parametrize(
    ("run", "logging", "sentence"),
    [
        ("{", "{}", "--resolved: config is '{': invalid JSON"),
        ("{}", "{}", "--resolved: key cell is missing (and 7 more)"),
        ("{}", "{", "--resolved: key cell is missing"),
    ],
)
def test_each_mistake_of_a_job_is_one_sentence(trained, tmp_path, run, logging, sentence):
    options = ["--resolved", run, "--model", "m", "--data", "d", "--logging", logging]
    assert sentence in refused("train-job", tmp_path / "run", *options)
    assert trained == []


def test_what_a_job_needs_is_asked_for(tmp_path):
    for command, option in (("train-job", "--resolved"), ("evaluate-job", "--evaluation")):
        result = call(command, tmp_path / "run")
        assert result.exit_code == 2 and f"Missing option '{option}'" in result.output


def test_no_option_of_a_job_is_taken_for_one_of_torchruns():
    """torchrun reads the whole command line: an option that begins like one of its own is refused or swallowed."""
    torchrun = pytest.importorskip("torch.distributed.run").get_args_parser()
    job = ["train-job", "run", *(word for parameter in train_job.params for word in (*parameter.opts, "x"))]
    parsed = torchrun.parse_args(["--standalone", "--nproc-per-node", "2", "-m", "sagc.cli", *job])
    assert parsed.training_script_args == job


def test_the_commands_of_the_dag_are_not_listed():
    assert "-job" not in call("--help").stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--model", "big"], "unknown model 'big'; models are tiny"),
        (["--algorithm", "ppo"], "unknown algorithm 'ppo'; algorithms are grpo"),
        (["--stack", "trl"], "stack is 'trl': input should be 'vanilla' or 'openrlhf'"),
        (["--group-size", "big"], "unknown group 'big'; a group is a size, or one of sagc, sagc-robust"),
        (["--group-size", "1"], "group 1: group_size must be an integer of at least 2"),
        (["--seed", "-1"], "seed is -1: input should be greater than or equal to 0"),
        (["--set", "training.stepz=3"], "unknown key training.stepz; allowed here are steps"),
        (["--set", "training.steps=few"], "training.steps is 'few': input should be a valid integer"),
        (["--set", "training.steps"], "--set 'training.steps' is not of the form key=value"),
        (["--set", "=3"], "--set '=3' is not of the form key=value"),
        (["--set", "training.steps=["], "--set training.steps: '[' is not valid YAML"),
        (["--set", "results.x=1"], "--set results.x: results is not a section of the config"),
        (["--set", "results.x.y=1"], "--set results.x.y: results.x is not a section of the config"),
        (["--set", "logging.wandb.project=a/b"], "logging.wandb.project is 'a/b': string should match pattern"),
        (["--set", "logging.wandb={}"], "key logging.wandb.project is missing"),
        (
            ["--set", "logging.wandb={project: a, key: secret}"],
            "unknown key logging.wandb.key; allowed here are project, entity, mode",
        ),
    ],
)
def test_each_mistake_of_train_is_one_sentence(trained, config_file, tmp_path, arguments, sentence):
    assert sentence in refused("train", tmp_path / "run", "--config", config_file(), *arguments)
    assert trained == []
    assert not (tmp_path / "results").exists(), "nothing is made for a run that is refused"


def test_a_config_that_is_not_there(tmp_path):
    sentence = refused("train", tmp_path / "run", "--config", tmp_path / "no.yaml")
    assert sentence.endswith("no.yaml does not exist; run in the project's folder, or name one with --config")


def test_an_empty_config(tmp_path):
    (tmp_path / "empty.yaml").touch()
    assert "must be a mapping" in refused("train", tmp_path / "run", "--config", tmp_path / "empty.yaml")
    assert "must be a mapping" in refused(
        "train", tmp_path / "run", "--config", tmp_path / "empty.yaml", "--set", "training.steps=3"
    )


@pytest.mark.parametrize("made", ["", '{"architecture": "llama", "seed": 0, "settings": {"steps": 1600}}'])
def test_train_refuses_an_embedded_model_that_is_not_the_configs(trained, config_file, embedded_model, tmp_path, made):
    (embedded_model / "warm_start.json").write_text(made)
    sentence = refused("train", tmp_path / "run", "--config", config_file())
    assert str(embedded_model) in sentence
    assert "remove it" in sentence
    assert trained == []


def test_train_refuses_an_embedded_model_with_other_steps(trained, config_file, embedded_model, tmp_path):
    config = config_file({"models": {"tiny": {"type": "tiny", "architecture": "qwen2", "warm_start": {"steps": 5}}}})
    assert "(qwen2, 0, 1600)" in refused("train", tmp_path / "run", "--config", config).replace("'", "")


def test_a_model_that_cannot_be_loaded_is_refused_before_openrlhf_starts(config_file, embedded_model, tmp_path):
    sentence = refused("train", tmp_path / "run", "--config", config_file(), "--stack", "openrlhf")
    assert re.match(r"model .*/results/models/tiny has no \.safetensors file", sentence)


def test_evaluate_passes_the_configs_evaluation(config_file, tmp_path, monkeypatch):
    calls = []
    stub = SimpleNamespace(evaluate=lambda *given, end_orphan=False: calls.append((*given, end_orphan)) or {"score": 1})
    monkeypatch.setitem(sys.modules, "sagc.evaluation.job", stub)
    benchmarks = {"heldout": {"task": "tiny_heldout", "samples": 2}}
    path = config_file({"evaluation": {"benchmarks": benchmarks}})
    result = call("evaluate", tmp_path / "run", "--config", path, "--set", "evaluation.temperature=0.5")
    assert json.loads(result.stdout) == {"score": 1}
    exact = load_changed(path, ("evaluation.temperature=0.5",)).evaluation
    data = tmp_path / "results" / "data" / "tiny"
    assert (
        call("evaluate-job", tmp_path / "run", "--evaluation", exact.model_dump_json(), "--data", data).exit_code == 0
    )
    assert calls == [(tmp_path / "run", exact, data, of_the_dag) for of_the_dag in (False, True)]


def test_summarize_needs_a_folder(tmp_path):
    assert refused("summarize", tmp_path / "none").endswith("none does not exist")


def test_doctor_says_what_can_run_here():
    result = call("doctor")
    assert result.exit_code == 0
    facts = dict(line.split("  ", 1) for line in result.stdout.splitlines())
    assert facts.keys() >= {"python", "processors", "memory", "disk", "gpu", "package sagc", "stack openrlhf"}
    assert facts["stack vanilla"].strip() == facts["stack openrlhf"].strip() == "can run here"


def test_doctor_says_why_a_stack_cannot_run(monkeypatch):
    import sagc.doctor.machine
    from openrlhf_patch import names

    stack = Stack("sagc.vanilla", ("json", "no_such_module", "nor_this"))
    monkeypatch.setitem(STACKS, "vanilla", stack)
    assert sagc.doctor.machine.verdict("vanilla") == "cannot run here: no_such_module, nor_this not installed"
    monkeypatch.setattr(names, "missing_names", lambda: ["PPOTrainer.fit is gone"])
    assert sagc.doctor.machine.verdict("openrlhf") == "cannot run here: PPOTrainer.fit is gone"


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device", "results/x"),
        OSError(errno.EDQUOT, "Disk quota exceeded", "results/x"),
        RuntimeError("safetensors: I/O error: No space left on device (os error 28)"),
    ],
)
def test_a_full_disk_is_one_sentence(monkeypatch, tmp_path, error):
    def fill(_):
        raise error

    monkeypatch.setitem(sys.modules, "analysis.tables.grid", SimpleNamespace(summarize_results=fill))
    assert ("No space left" in (sentence := refused("summarize", tmp_path))) or "quota" in sentence


def test_a_full_disk_is_found_behind_what_it_caused(monkeypatch, tmp_path):
    def fill(_):
        try:
            with open("/dev/full", "w") as file:
                file.write("x")
        except OSError as error:
            raise RuntimeError("could not save") from error

    monkeypatch.setitem(sys.modules, "analysis.tables.grid", SimpleNamespace(summarize_results=fill))
    assert refused("summarize", tmp_path) == "No space left on device"


def test_a_library_that_is_missing_is_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "analysis.tables.grid", None)
    assert refused("summarize", tmp_path).endswith("is not installed; `sagc doctor` says what this command lacks")


def test_our_own_bugs_keep_their_traceback(monkeypatch, tmp_path):
    def fail(_):
        raise KeyError("a bug")

    monkeypatch.setitem(sys.modules, "analysis.tables.grid", SimpleNamespace(summarize_results=fail))
    result = call("summarize", tmp_path)
    assert result.exit_code == 1
    assert isinstance(result.exception, KeyError)


def test_the_installed_command_refuses_without_a_traceback(config_file, tmp_path):
    command = [sys.executable, "-m", "sagc.cli", "train", str(tmp_path / "run"), "--config", str(config_file())]
    result = subprocess.run([*command, "--model", "big"], capture_output=True, text=True)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr == "Error: unknown model 'big'; models are tiny\n"


def test_a_shared_folder_is_made_once(config_file, tmp_path, monkeypatch):
    """Two commands that start together find one model: the second waits for the first."""
    script = (
        "import sys; from sagc.run.inputs import data_folder; from tests.configs import load_grid\n"
        "print(data_folder(load_grid(sys.argv[1])))"
    )
    command = [sys.executable, "-c", script, str(config_file())]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert {process.communicate()[0].strip() for process in both} == {str(tmp_path / "results" / "data" / "tiny")}
    assert len(list((tmp_path / "results" / "data" / "tiny").glob("*.jsonl"))) == 3


def test_changes_do_not_touch_the_file(config_file):
    path = config_file()
    before = path.read_text()
    assert load_changed(path, ("training.steps=3", "training.learning_rate=1e-3")).training.learning_rate == 1e-3
    assert path.read_text() == before
    assert yaml.safe_load(before).get("training") is None


def test_a_warm_start_that_fails_is_one_sentence(config_file, tmp_path, monkeypatch):
    monkeypatch.setattr(sagc.run.inputs.sys, "executable", "/bin/false")
    grid = load_grid(config_file())
    with pytest.raises(UserError, match=r"the embedded model tiny could not be made in .*models/tiny"):
        sagc.run.inputs.starting_model(grid, grid.run(grid.cells()[0]))


# sagc replay ---------------------------------------------------------------------------------------------------------

REPLAYED = Path(__file__).parent / "replay" / "traces" / "tiny-qwen2-grpo"


def test_replay_prints_a_table_per_log_and_writes_the_numbers(tmp_path):
    result = call("replay", REPLAYED / "16", REPLAYED / "8", "--delta", 0.65, "--csv", tmp_path / "numbers.csv")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    assert "16, played" in result.stdout and "8, played" in result.stdout
    assert "sagc-robust (class RobustSAGC) with delta 0.65 moves" in result.stdout
    numbers = pd.read_csv(tmp_path / "numbers.csv")
    assert numbers["arm"].tolist() == "4 6 8 12 16 sagc sagc-robust 4 6 8 sagc sagc-robust".split()
    assert numbers["log"].nunique() == 2 and (numbers["tau"] == 2).all()
    assert (numbers["hours_low"] <= numbers["hours_high"]).all()


def test_replay_with_another_tau():
    result = call("replay", REPLAYED / "16", "--tau", 3, "--eta", 2)
    assert "for tau 3." in result.stdout
    assert "sagc (class SAGC) with delta 0.5, eta 2.0 moves" in " ".join(result.stdout.split())
    assert "sagc-robust (class RobustSAGC) with delta 0.5 moves" in " ".join(result.stdout.split())


def test_replay_suggests_sections_of_a_config():
    result = call("replay", REPLAYED / "16", "--suggest", "--steps", 200)
    assert result.exit_code == 0, result.output
    path, config, reasons = result.stdout.rstrip("\n").split("\n\n")
    assert path.endswith("trace.jsonl")
    assert set(yaml.safe_load(config)) == {"straggler", "controllers"}
    assert [line[:6] for line in reasons.splitlines() if line.startswith("- ")] == [
        "- tau ",
        "- delt",
        "- eta ",
        "- Repl",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere does not exist"),
        ([REPLAYED], "holds no log that can be replayed"),
        ([REPLAYED / "16", "--tau", "1"], "--tau is 1; max / median is never below 1, so it is a number above 1"),
        ([REPLAYED / "16", "--delta", "1.5"], "sagc: delta must be a straggler rate between 0 and 1"),
        ([REPLAYED / "16", "--max-tokens", "100"], "beyond the limit of 100"),
        ([REPLAYED / "16", "--steps", "10"], "--steps belongs to --suggest"),
        ([REPLAYED / "16", "--suggest", "--tau", "2"], "--suggest chooses tau, delta and eta itself"),
        ([REPLAYED / "4", "--suggest"], "a suggestion needs groups of at least 8"),
    ],
)
def test_replay_refuses_in_one_sentence(arguments, message):
    assert message in refused("replay", *arguments)
