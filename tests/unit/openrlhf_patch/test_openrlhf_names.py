"""The upstream names that openrlhf_patch builds on are there, and its README lists every one."""

import dataclasses
from pathlib import Path

import pytest

from openrlhf_patch import names
from openrlhf_patch.names import UPSTREAM, Upstream, missing_names

README = Path(names.__file__).with_name("README.md").read_text(encoding="utf-8")


def test_every_name_is_in_the_installed_packages():
    assert missing_names() == []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"module": "openrlhf.trainer.gone"}, "openrlhf.trainer.gone.PPOTrainer.fit is gone: there is no module"),
        ({"module": "no_such_package"}, "no_such_package.PPOTrainer.fit is gone: there is no module"),
        ({"name": "PPOTrainer.train"}, "openrlhf.trainer.ppo_trainer.PPOTrainer.train is gone; it is needed here"),
        ({"name": "Trainer.fit"}, "openrlhf.trainer.ppo_trainer.Trainer.fit is gone; it is needed here because: the"),
        ({"parameters": ("global_step", "gone")}, "openrlhf.trainer.ppo_trainer.PPOTrainer.fit no longer takes gone;"),
    ],
)
def test_a_name_that_is_gone_is_a_sentence(monkeypatch, change, sentence):
    fit = Upstream("openrlhf.trainer.ppo_trainer", "PPOTrainer.fit", "the loop", ("global_step",))
    monkeypatch.setattr(names, "UPSTREAM", (fit, dataclasses.replace(fit, **change)))
    (problem,) = missing_names()
    assert problem.startswith(sentence) and problem.endswith("the loop")


def test_the_readme_has_the_table():
    for upstream in UPSTREAM:
        mark = "CPU" if upstream.cpu else ""
        assert f"| `{upstream.module}.{upstream.name}` | {upstream.reason} | {mark} |" in README
    assert README.count("\n| `openrlhf.") + README.count("\n| `vllm.") + README.count("\n| `deepspeed.") == len(
        UPSTREAM
    )
