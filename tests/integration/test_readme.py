"""What the README says: its examples run, its figures and defaults are those of the code, and what it names exists."""

import ast
import inspect
import logging
import re
from pathlib import Path

import click
import numpy as np
import pytest
import yaml

from sagc import SAGC, RobustSAGC
from sagc.cli import main
from sagc.run.folder import RunFolder
from sagc.tiny.models import build_model
from sagc.tiny.tokenizer import build_tokenizer
from sagc.trace import read_trace
from tests.configs import load_grid

PROJECT = Path(__file__).resolve().parents[2]
README = (PROJECT / "README.md").read_text(encoding="utf-8")
PROSE = re.sub(r"^```.*?^```", "", README, flags=re.MULTILINE | re.DOTALL)
# Words in code style or in indented blocks; a path is one with a slash, or with an ending that files here have.
CODE = re.findall(r"`([^`\n]+)`", PROSE) + re.findall(r"^ {4}(.+)$", PROSE, flags=re.MULTILINE)
PATH = re.compile(r"(?<![\w/:.\"])(?:\w[\w.-]*/[\w./-]*|[\w-]+\.(?:py|md|yaml|jsonl?|csv|smk|cff)\b)")
# While examples and runs go on; all else that is made is below results/.
MADE = {"sums/trace.jsonl", "checkpoints", "kept", "tensorboard", "wandb", "PWD/.snakemake/cache"}


def rows_of(table_start: str) -> dict[str, list[str]]:
    """The rows of the table after a heading's text: first cell -> the others."""
    lines = README[README.index(table_start) :].splitlines()
    cells = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|"))
    return {first: others for first, *others in cells}


# Examples ------------------------------------------------------------------------------------------------------------


def example(name: str) -> str:
    """An example's text, which the README shows as it is."""
    text = (PROJECT / "examples" / f"{name}.py").read_text(encoding="utf-8")
    assert text in re.findall(r"^```python\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL), f"copy {name} again"
    return text


def run_example(text: str, **constants) -> dict:
    """Run the text with other values for the constants at its top; returns its names."""
    for name, value in constants.items():
        text, count = re.subn(rf"^{name} = .*$", f"{name} = {value!r}", text, flags=re.MULTILINE)
        assert count == 1
    names = {"__name__": "example"}
    exec(compile(text, "example", "exec"), names)
    return names


def test_the_trainer_of_the_readme_trains_any_model(tmp_path, monkeypatch):
    tokenizer = build_tokenizer()
    build_model("llama", tokenizer, seed=0).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    names = run_example(example("own_trainer"), MODEL=str(tmp_path / "model"), STEPS=2)
    records = list(read_trace(tmp_path / "sums" / "trace.jsonl"))
    assert [record.prompts for record in records] == [8, 8]
    assert [record.samples for record in records] == [8 * record.group_size for record in records]
    assert names["controller"].steps == 2
    assert names["reward"](["4, or 5", "no", "45"], ["4", "4", "4"]) == [1.0, 0.0, 0.0]


def test_the_plain_loop_of_the_readme_runs(capsys):
    names = run_example(example("plain_loop"))
    steps = [line.split() for line in capsys.readouterr().out.splitlines()[:50]]
    assert {int(size) for _, size, _, _ in steps} == {4, 8, 16}
    assert names["controller"].steps == 50


# Figures and defaults ------------------------------------------------------------------------------------------------


def test_the_readme_gives_the_defaults_of_the_code():
    sagc, robust = (
        {name: parameter.default for name, parameter in inspect.signature(controller).parameters.items()}
        for controller in (SAGC, RobustSAGC)
    )
    rows = rows_of("| | `sagc` | `sagc-robust` |")
    for column, defaults in enumerate((sagc, robust)):
        ladder = ", ".join(map(str, defaults["ladder"]))
        assert rows["ladder, first size"][column].startswith(f"{ladder}, first {defaults['start']} [ours")
        values = [defaults[name] for name in ("tau", "delta", "rho")]
        assert rows["tau, delta, rho"][column] == f"{', '.join(f'{value:g}' for value in values)} [ours]"
    step_size = rows["step size"]
    assert step_size[0] == f"eta {sagc['eta']:g}, lambda_0 {sagc['initial_dual']:g} [ours]"
    assert step_size[1] == f"k_i {robust['integral_gain']:g}, h {robust['hysteresis']:g} [ours]"
    assert (sagc["prior"], sagc["radius"], sagc["event"], robust["budget_range"]) == ((1.0, 1.0), 1, "group", 0.15)


def test_the_readme_describes_the_default_grid():
    grid = load_grid(PROJECT / "config" / "config.yaml")
    assert f"{len(grid.cells())} runs of {grid.training.steps} steps" in README
    for controller in grid.controllers.values():
        assert f"The embedded grid uses delta {controller['delta']}" in README
    assert f"and eta {grid.controllers['sagc']['eta']} for `sagc`" in README


def simulate(controller, delta: float, sigmas: tuple[float, float], seed: int, steps: int = 300) -> list[float]:
    """Distance from delta, rate of the second half, moves per step, mean 1/G of the second half."""
    rng, rates, sizes = np.random.default_rng(100 + seed), [], []
    for step in range(steps):
        prompt = rng.normal(0, 0.4, (8, 1))
        response = sigmas[step >= steps // 2] * rng.normal(size=(8, controller.group_size))
        sizes.append(controller.group_size)
        rates.append(controller.step(np.clip(np.exp(3.3 + prompt + response), 4, 600).round()).straggler_rate)
    rolling = np.convolve(rates, np.ones(20) / 20, "valid")[40:]
    late = np.array(sizes[steps // 2 :])
    return [abs(rolling - delta).mean(), np.mean(rates[steps // 2 :]), np.mean(np.diff(sizes) != 0), (1 / late).mean()]


@pytest.mark.parametrize(
    ("lengths", "sigmas"),
    [("stationary", (0.5, 0.5)), ("drifting", (0.35, 0.6)), ("infeasible, then easy", (0.9, 0.4))],
)
def test_the_simulation_gives_the_figures_of_the_readme(lengths, sigmas, caplog):
    caplog.set_level(logging.ERROR)
    cells = rows_of("| lengths | delta |")[lengths]
    delta = float(cells[0])
    sagc, robust = (
        np.mean([simulate(make(seed), delta, sigmas, seed) for seed in range(10)], axis=0)
        for make in (lambda seed: SAGC(delta=delta, seed=seed), lambda seed: RobustSAGC(delta=delta))
    )
    assert [float(cell) for cell in cells[1:3]] == pytest.approx([sagc[0], robust[0]], abs=0.0011)
    remarks = {
        "stationary": f"moves per step {sagc[2]:.2f} and {robust[2]:.2f}; mean 1/G {sagc[3]:.3f} and {robust[3]:.3f}",
        "infeasible, then easy": f"rate of the second half {sagc[1]:.2f} and {robust[1]:.2f}",
    }
    assert cells[3].startswith(remarks.get(lengths, ""))


# Names ---------------------------------------------------------------------------------------------------------------


def test_every_make_target_exists():
    targets = re.search(r"^\.PHONY: (.+)$", (PROJECT / "Makefile").read_text(), flags=re.MULTILINE)[1].split()
    named = {match for text in CODE for match in re.findall(r"\bmake ([a-z]+)", text)}
    assert {"setup", "grid", "quick", "test", "bench"} <= named <= set(targets)


def test_every_sagc_command_and_option_exists():
    calls = [text for text in CODE if text.startswith("sagc ")]
    assert {call.split()[1] for call in calls} >= {"train", "evaluate", "summarize", "doctor"}
    for call in calls:
        _, name, *arguments = call.split()
        command = main.commands.get(name)
        assert isinstance(command, click.Command), f"sagc {name}"
        options = {option for parameter in command.params for option in parameter.opts} | {"--help"}
        assert {argument for argument in arguments if argument.startswith("--")} <= options, call


def test_every_file_and_folder_exists():
    links = re.findall(r"\]\(([^)#:]+)\)", PROSE)
    paths = {path for text in CODE for path in PATH.findall(text)}
    run_folder = {path.name for path in vars(RunFolder("run")).values()}
    in_config = {path.name for path in (PROJECT / "config").iterdir()}
    missing = [
        path
        for path in [*links, *sorted(paths)]
        if not (PROJECT / path).exists()
        and not path.startswith("results")
        and path.strip("/") not in run_folder | in_config | MADE
    ]
    assert links and paths and not missing


def test_the_table_of_the_run_folder_is_whole():
    rows = rows_of("| in the run folder | what it is |")
    named = {first.strip("`/") for first in rows if first.startswith("`")}
    assert {path.name for path in vars(RunFolder("run")).values()} - {"run"} <= named


def test_the_citation_is_yaml_with_what_its_format_requires():
    citation = yaml.safe_load((PROJECT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["cff-version"] == "1.2.0"
    version = ast.literal_eval(re.search(r"__version__ = (.+)", (PROJECT / "sagc/__init__.py").read_text())[1])
    assert citation["version"] == version
    assert citation["license"] == "Apache-2.0" and "Version 2.0, January 2004" in (PROJECT / "LICENSE").read_text()
    paper = citation["preferred-citation"]
    assert "2606.02218" in paper["url"] and "2606.02218" in README
