"""The upstream names that openrlhf_patch builds on are there, and its README lists every one."""

from pathlib import Path

import pytest

from openrlhf_patch import names
from openrlhf_patch.names import missing_names, problem, rows

README = Path(names.__file__).with_name("README.md").read_text(encoding="utf-8")
FIT = """
openrlhf.trainer.ppo_trainer
    PPOTrainer.fit(global_step)
        the loop
"""


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row.module}.{row.name}")
def test_every_name_is_in_the_installed_packages(row):
    assert not problem(row), problem(row)


def test_nothing_is_missing_where_every_name_is_there():
    assert missing_names() == []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("ppo_trainer", "gone"), "openrlhf.trainer.gone.PPOTrainer.fit is gone: there is no module"),
        (("openrlhf.trainer.ppo_trainer", "none"), "none.PPOTrainer.fit is gone: there is no module"),
        (("fit", "train"), "openrlhf.trainer.ppo_trainer.PPOTrainer.train is gone; it is needed here"),
        (("PPOT", "T"), "openrlhf.trainer.ppo_trainer.Trainer.fit is gone; it is needed here because: the"),
        (("step)", "step, gone)"), "openrlhf.trainer.ppo_trainer.PPOTrainer.fit no longer takes gone;"),
    ],
)
def test_a_name_that_is_gone_is_a_sentence(monkeypatch, change, sentence):
    monkeypatch.setattr(names, "TABLE", FIT + FIT.replace(*change).strip())
    (found,) = missing_names()
    assert found.startswith(sentence) and found.endswith("the loop")


def test_the_table_is_read_with_parameters_and_marks(monkeypatch):
    monkeypatch.setattr(names, "TABLE", FIT + "a.b\n    C\n        CPU: why, whatever it is\n    d(e, f)\n        so\n")
    assert [tuple(row) for row in rows()] == [
        ("openrlhf.trainer.ppo_trainer", "PPOTrainer.fit", ["global_step"], "the loop", False),
        ("a.b", "C", [], "why, whatever it is", True),
        ("a.b", "d", ["e", "f"], "so", False),
    ]


def test_the_readme_has_the_table():
    table = [f"| `{row.module}.{row.name}` | {row.reason} | {'CPU' if row.cpu else ''} |" for row in rows()]
    assert [line for line in README.splitlines() if line.startswith("| `")] == table
