"""The paper's numbers next to ours: which cells match, the ratios by hand, and that theirs are marked."""

import math
import re

import pandas as pd
import pytest

from analysis.tables.published import published, write_published
from tests.unit.analysis.test_equal_cost import make_run, make_steps

TINY = {"model": {"type": "tiny", "architecture": "llama"}}
ONE = "[\N{EN DASH}], n = 1"
PAPERS = {"model": {"type": "pretrained", "path": "meta-llama/Llama-3.2-3B"}}


def run(group, rate, hours, seed=0, model="tiny-llama", algorithm="dapo", config=TINY, planned=None):
    """Two steps of ten groups each with this straggler rate, in half of these hours each."""
    steps = make_steps([0.5, 0.5], seconds=hours * 1800, groups=10, straggler_events=rate * 10, infeasible=False)
    return make_run(group, steps, seed=seed, model=model, algorithm=algorithm, config=config, planned=planned)


def rows(*runs) -> list[dict]:
    return published(runs).to_dict(orient="records")


def test_what_is_published():
    static, sagc = rows()
    assert (static["group"], static["straggler_rate_published"], static["wall_s_published"]) == ("16", 0.996, 106200.0)
    assert (sagc["group"], sagc["straggler_rate_published"], sagc["wall_s_published"]) == ("sagc", 0.434, 57600.0)
    assert sagc["straggler_rate_vs_static16_published"] == pytest.approx(43.4 / 99.6)
    assert sagc["wall_s_vs_static16_published"] == pytest.approx(16 / 29.5)
    for row in (static, sagc):
        assert (row["model"], row["algorithm"], row["stack"], row["scale"]) == ("Llama-3.2-3B", "dapo", None, "no run")
        assert row["seeds"] == 0 and math.isnan(row["wall_s"]) and math.isnan(row["wall_s_vs_static16"])


def test_ours_by_hand():
    static, sagc = rows(
        run("16", 0.8, 4.0, seed=0),
        run("16", 1.0, 6.0, seed=1),
        run("sagc", 0.4, 3.0, seed=0),
        run("sagc", 0.2, 1.5, seed=2),
        run("sagc", 0.0, 0.1, seed=1, planned=9),  # did not finish training
        run("sagc-robust", 0.1, 1.0, seed=0),  # not the paper's
    )
    assert (static["scale"], static["seeds"], sagc["seeds"]) == ("embedded scale", 2, 2)
    assert (static["straggler_rate"], static["straggler_rate_se"]) == (pytest.approx(0.9), pytest.approx(0.1))
    assert (static["wall_s"], static["wall_s_vs_static16"]) == (5 * 3600, 1.0)
    assert sagc["straggler_rate_vs_static16"] == pytest.approx(0.5)  # of seed 0, which both have
    assert sagc["wall_s_vs_static16"] == pytest.approx(0.75)
    assert math.isnan(sagc["wall_s_vs_static16_low"])


@pytest.mark.parametrize(
    ("model", "scale"),
    [
        (PAPERS["model"], "the paper's model"),
        ({"type": "pretrained", "path": "/data/llama-3.2-3b/"}, "the paper's model"),
        ({"type": "pretrained", "path": "meta-llama/Llama-3.2-1B"}, "another model"),
        (TINY["model"], "embedded scale"),
    ],
)
def test_a_model_of_the_family_is_named_for_what_it_is(model, scale):
    assert {row["scale"] for row in rows(run("16", 0.5, 1.0, config={"model": model}))} == {scale}


@pytest.mark.parametrize(
    "other",
    [
        run("16", 0.5, 1.0, algorithm="grpo"),
        run("16", 0.5, 1.0, config={"model": {"type": "tiny", "architecture": "qwen2"}}),
        run("16", 0.5, 1.0, config={"model": {"type": "pretrained", "path": "/llama/Qwen2.5-3B"}}),
        run("16", 0.5, 1.0, config={}),
    ],
    ids=["algorithm", "architecture", "path", "no model"],
)
def test_other_cells_do_not_match(other):
    assert {row["scale"] for row in rows(other)} == {"no run"}


def test_every_cell_that_matches_is_shown():
    frame = published([run("16", 0.5, 1.0), run("sagc", 0.5, 1.0, model="llama-3.2-3b", config=PAPERS)])
    assert frame["model"].tolist() == ["tiny-llama"] * 2 + ["llama-3.2-3b"] * 2
    assert frame["seeds"].tolist() == [1, 0, 0, 1]


# The table -----------------------------------------------------------------------------------------------------------


def read(runs, folder) -> str:
    write_published(published(runs), folder)
    assert sorted(path.name for path in folder.iterdir()) == ["published.csv", "published.md", "published.tex"]
    text = (folder / "published.md").read_text()
    assert "nan" not in text
    return text


def test_the_table_marks_what_is_theirs(tmp_path):
    text = read([run("16", 0.8, 4.0), run("sagc", 0.4, 3.0)], tmp_path)
    titles, _, static, sagc = ([c.strip() for c in line.strip("|").split("|")] for line in text.splitlines()[6:10])
    assert all(title.endswith(("theirs", "ours")) for title in titles[5:])
    assert static[3:] == [
        "embedded scale",
        "16",
        "1",
        "99.6",
        "80.0",
        "1.00",
        f"1.00 {ONE}",
        "29.50",
        "4.000",
        "1.00",
        f"1.00 {ONE}",
    ]
    assert sagc[3:] == [
        "embedded scale",
        "sagc",
        "1",
        "43.4",
        "40.0",
        "0.44",
        f"0.50 {ONE}",
        "16.00",
        "3.000",
        "0.54",
        f"0.75 {ONE}",
    ]
    assert "on other hardware" in text and "no more than the direction" in text and "arXiv 2606.02218" in text
    assert "embedded scale & sagc & 1 & 43.4 & 40.0" in (tmp_path / "published.tex").read_text()
    assert pd.read_csv(tmp_path / "published.csv")["source"].str.contains("2606.02218").all()


def test_what_is_missing_is_said(tmp_path):
    assert "No run here trains a Llama model with DAPO." in read([], tmp_path)
    text = read([run("sagc", 0.0, 1.0), run("16", 0.0, 1.0, planned=9)], tmp_path)
    assert "\N{EN DASH} marks a missing value" in text and "| 0.44 | \N{EN DASH} |" in re.sub(" +", " ", text)


def test_a_static_arm_without_stragglers_has_no_ratio(tmp_path):
    _, sagc = rows(run("16", 0.0, 1.0), run("sagc", 0.0, 0.5))
    assert math.isnan(sagc["straggler_rate_vs_static16"]) and sagc["wall_s_vs_static16"] == 0.5
