"""What `sagc replay --suggest` proposes: why, for how many steps, and that it can be pasted into a config."""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
import yaml

from sagc.config.grid import validate_grid
from sagc.errors import UserError
from sagc.logs import Log, LoggedStep, read_log
from sagc.replay.estimate import estimate_static
from sagc.replay.suggest import MARGIN, suggest

PROJECT = Path(__file__).resolve().parents[3]
LOG = Path(__file__).parent / "traces" / "tiny-qwen2-grpo" / "16"


@pytest.fixture(scope="module")
def log():
    return read_log(LOG)


def rate(log, tau, size):
    return estimate_static(log, tau, size).values["straggler_rate"]


def test_the_values_are_what_their_reasons_say(log):
    found = suggest(log)
    small, middle, large = (rate(log, found.tau, size) for size in (4, 8, 16))
    upper = estimate_static(log, found.tau, 4).intervals["straggler_rate"][1]
    assert min(middle - small, large - middle) >= min(
        rate(log, 2, 8) - rate(log, 2, 4), rate(log, 2, 16) - rate(log, 2, 8)
    )
    assert found.delta == pytest.approx(max((small + middle) / 2, upper + MARGIN), abs=0.01) and found.delta > upper
    price = math.log2(16 / 4) / (large - small)
    assert found.eta == pytest.approx(price / (large - found.delta) / math.sqrt(60), rel=0.05)
    tau, delta, eta, tried = found.reasons
    assert f"tau {found.tau:g}: groups of 4, 8 and 16 are straggler events in {100 * small:.0f} %" in tau
    assert f"up to {upper:.2f} in another run" in delta and "no size fits" in delta
    assert "root of 60 (as config.json says)" in eta
    assert "sagc has a straggler rate of" in tried and "sagc-robust has a straggler rate of" in tried


def test_eta_falls_with_the_root_of_the_horizon(log):
    assert suggest(log, steps=400).eta == pytest.approx(suggest(log, steps=100).eta / 2, rel=0.1)
    assert "root of 400 (as given)" in suggest(log, steps=400).reasons[2]
    bare = dataclasses.replace(log, run={})
    assert "root of 10 (as many as the log has" in suggest(bare).reasons[2]


def test_the_values_can_be_pasted_into_the_config(log):
    raw = yaml.safe_load((PROJECT / "config" / "config.yaml").read_text(encoding="utf-8"))
    found = suggest(log)
    grid = validate_grid(raw | yaml.safe_load(found.config), source="pasted")
    assert grid.straggler.tau == found.tau
    assert grid.controllers["sagc"] == {"delta": found.delta, "eta": found.eta}
    for cell in grid.cells():
        grid.run(cell).build_controller()


def lognormal(sigma, steps, size=16):
    rng = np.random.default_rng(0)
    lengths = np.ceil(np.exp(4 + sigma * rng.normal(size=(steps, 16, size)))).astype(int)
    return Log("log", [LoggedStep(i, rows, None, (16,), 16) for i, rows in enumerate(lengths)])


@pytest.mark.parametrize("sigma", [0.3, 0.5, 0.8, 1.2])
def test_delta_is_within_what_the_ladder_can_do(sigma):
    log = lognormal(sigma, 20)
    found = suggest(log, steps=100)
    assert rate(log, found.tau, 4) < found.delta < rate(log, found.tau, 16)
    assert found.eta > 0


def test_logs_that_tell_too_little():
    with pytest.raises(UserError, match="has groups of 4; a suggestion needs groups of at least 8"):
        suggest(lognormal(0.5, 20, size=4))
    with pytest.raises(UserError, match="has 2 steps, too few"):
        suggest(lognormal(0.5, 2))
    flat = Log("log", [LoggedStep(1, np.full((4, 16), 7), None, (4,), 4)] * 10)
    with pytest.raises(UserError, match="sizes that are not far enough apart for a budget"):
        suggest(flat)
