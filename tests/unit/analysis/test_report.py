"""The report over made-up results: the verdict by hand, what is missing, escaping, and one file without requests."""

import json
import re
from dataclasses import replace

import pandas as pd
import pytest
from click.testing import CliRunner

from analysis.report.build import build_report
from analysis.report.run_page import page_id
from analysis.report.verdict import NO_REFERENCE, NO_RUNS, verdict
from analysis.tables.arms import summarize_arms
from sagc.cli import main
from sagc.errors import UserError
from sagc.trace import read_trace
from tests.made_results import make_run


def runs_of(*rows) -> pd.DataFrame:
    """Runs by group, seed, seconds and accuracy; stragglers in a tenth of the seconds."""
    columns = ["group", "seed", "wall_s", "accuracy_heldout"]
    frame = pd.DataFrame(rows, columns=columns).assign(model="m", algorithm="a", stack="s")
    ones = ("idle_fraction", "filtered_share", "mean_group_size", "rollout_s", "processor_s", "tokens", "reward")
    same = {name: 1.0 for name in ones}
    return frame.assign(**same, straggler_rate=frame["wall_s"] / 100, output_tokens_heldout=1.0)


# The verdict ---------------------------------------------------------------------------------------------------------


def rivals_of(*rows) -> pd.DataFrame:
    """Stack, controlled arm, static arm, seeds of both, and whether the static one is as good in no more time."""
    columns = ["stack", "group", "static", "difference_n", "as_good"]
    return pd.DataFrame(rows, columns=columns).assign(model="m", algorithm="a", quality="heldout")


def test_a_verdict_by_hand():
    arms = summarize_arms(runs_of(("16", 0, 80.0, 0.75), ("8", 0, 30.0, 0.5), ("sagc", 0, 60.0, 0.7)))
    rivals = rivals_of(("s", "sagc", "8", 1, True), ("s", "sagc", "16", 1, False))
    assert verdict(arms, "heldout", rivals, "") == (
        "sagc takes 0.75 of static 16's training time with stragglers in 60 % of the groups instead of 80 %. "
        "Accuracy on heldout differs from static 16's by -0.050 with sagc; with one seed per arm no interval can "
        "be given. By single runs, with one seed, static 8 is as good as sagc in no more time in 1 of 1 cases."
    )
    text = verdict(arms, "heldout", rivals_of(("s", "sagc", "8", 1, False)), "")
    assert text.endswith("no static size is as good as sagc in no more time in any of 1 cases.")
    reward = verdict(arms, "reward", rivals, "")
    assert "Training reward differs from static 16's by +0.000 with sagc" in reward
    assert reward.endswith("There is no static size to compare with.")


def test_a_verdict_over_seeds_and_stacks():
    first = runs_of(("16", 0, 80.0, 0.75), ("16", 1, 80.0, 0.75), ("sagc", 0, 50.0, 0.7), ("sagc", 1, 50.0, 0.7))
    second = runs_of(("16", 0, 80.0, 0.5), ("sagc", 0, 100.0, 0.75), ("sagc", 1, 100.0, 0.75)).assign(stack="t")
    text = verdict(summarize_arms(pd.concat([first, second])), "heldout", rivals_of(), "")
    assert "sagc takes 0.94 of static 16's training time (0.62 to 1.25)" in text
    assert "as the mean over 2 combinations of model, algorithm and stack" in text
    assert "by +0.100 (-0.050 to +0.250) with sagc" in text
    assert "the 95 % interval of the time is below static 16's in 1 of 1 cases." in text  # the other has one seed


def test_a_verdict_names_the_static_sizes_and_counts_by_intervals():
    """What single runs say does not count beside cases with several seeds."""
    arms = summarize_arms(
        runs_of(("16", 0, 80.0, 0.75), ("16", 1, 80.0, 0.75), ("sagc", 0, 60.0, 0.7), ("sagc-robust", 0, 60.0, 0.7))
    )
    rivals = [("s", "sagc", "4", 5, True), ("s", "sagc", "8", 5, True), ("s", "sagc-robust", "4", 4, False)]
    rivals += [("t", "sagc", "4", 5, True), ("t", "sagc", "8", 5, False), ("u", "sagc-robust", "8", 1, True)]
    assert verdict(arms, "heldout", rivals_of(*rivals), "").endswith(
        "By 95 % intervals over 4 to 5 seeds, with a margin of 0.01, static 4 is as good as sagc in no more time in 2 "
        "of 2 cases, static 8 in 1 of 2; no static size is as good as sagc-robust in no more time in any of 1 cases."
    )


def test_hours_that_do_not_compare_are_said_in_the_verdict_and_before_reading_on(tmp_path):
    make_run(tmp_path, "16")
    make_run(tmp_path, "sagc")
    assert "compare" not in page_of(tmp_path).partition("</section>")[0]
    trace = tmp_path / "tiny" / "grpo" / "vanilla" / "sagc" / "seed0" / "trace.jsonl"
    records = [replace(record, processor_s=record.step_s / 2) for record in read_trace(trace)]
    trace.write_text("".join(record.to_json() + "\n" for record in records))
    head = page_of(tmp_path).partition("</section>")[0]
    assert "Hours cannot, or may not, be compared in tiny/grpo/vanilla (see below); relative processor time" in head
    assert "<li>tiny/grpo/vanilla: wall clocks cannot be compared, because other work shared the machine" in head
    for name in ("equal_cost", "pareto", "savings", "published"):
        lines = (tmp_path / "tables" / f"{name}.md").read_text().splitlines()
        assert lines[0].startswith("# ") and lines[1] == "" and lines[3] == ""
        assert lines[2].startswith("tiny/grpo/vanilla: wall clocks cannot be compared")


def test_a_verdict_needs_a_reference():
    assert verdict(pd.DataFrame(), "reward", rivals_of(), "") == NO_RUNS
    assert (
        verdict(summarize_arms(runs_of(("8", 0, 1.0, 0.5), ("sagc", 0, 1.0, 0.5))), "heldout", rivals_of(), "")
        == NO_REFERENCE
    )


# The page ------------------------------------------------------------------------------------------------------------


def page_of(results) -> str:
    return build_report(results).read_text(encoding="utf-8")


def test_the_page_has_everything(tmp_path):
    for group in ("4", "16", "sagc", "sagc-robust"):
        make_run(tmp_path, group)
    page = page_of(tmp_path)
    for wanted in ("of static 16&#39;s training time", "Training efficiency", "At equal cost", "Where the time went"):
        assert wanted in page
    assert page.count('<section class="run"') == 4 and page.count("<figure>") == 7
    assert 'id="run-tiny-grpo-vanilla-sagc-robust-0"' in page and "delta: 0.5" in page
    tables = {path.name for path in (tmp_path / "tables").iterdir()}
    wanted = {
        f"{name}.{kind}" for name in ("equal_cost", "pareto", "savings", "published") for kind in ("csv", "md", "tex")
    }
    assert tables == wanted
    assert {path.suffix for path in (tmp_path / "figures").iterdir()} == {".svg", ".png", ".csv"}


def test_the_page_says_where_the_runs_come_from(tmp_path):
    path = make_run(tmp_path, "16") / "config.json"
    config = json.loads(path.read_text()) | {"code": {"commit": "c0ffee", "changed": True}}
    path.write_text(json.dumps(config))
    page = page_of(tmp_path)
    wanted = ("<dt>commits of the runs</dt><dd>c0ffee, with changes that are in no commit</dd>",)
    wanted += (
        "<dt>config hash</dt><dd>0123456789abcdef</dd>",
        "<dd>host, Linux, 2</dd>",
        "<dt>python</dt><dd>3.11.7</dd>",
    )
    assert [text for text in wanted if text not in page] == []


def test_the_page_asks_for_nothing(tmp_path):
    for group in ("16", "sagc"):
        make_run(tmp_path, group)
    page = page_of(tmp_path)
    assert not re.findall(r"""(?:src|href)=["'](?!data:|\#)""", page)
    assert "default-src &#39;none&#39;" in page or "default-src 'none'" in page


def test_the_same_runs_give_the_same_page(tmp_path):
    make_run(tmp_path, "16")
    make_run(tmp_path, "sagc")
    assert page_of(tmp_path) == page_of(tmp_path)


def test_missing_and_unfinished_runs_are_shown(tmp_path):
    make_run(tmp_path, "16", steps=5)
    make_run(tmp_path, "sagc", steps=3, planned=5)
    cell = {"model": "tiny", "algorithm": "grpo", "stack": "vanilla", "seed": 0}
    expected = [{**cell, "group": group} for group in (4, 16, "sagc")]
    (tmp_path / "grid.json").write_text(json.dumps({"runs": expected}))
    page = page_of(tmp_path)
    assert "1 of the grid&#39;s 3 runs are missing" in page
    assert "1 of 2 runs are unfinished; tables and verdict leave them out" in page
    assert "<td>tiny/grpo/vanilla/4/0</td><td>missing</td>" in page
    assert ">tiny/grpo/vanilla/sagc/0</a></td><td>unfinished</td><td>3/5</td>" in page


def test_runs_of_an_older_version_are_shown_and_said(tmp_path):
    for group in ("16", "sagc"):
        config = make_run(tmp_path, group) / "config.json"
        content = json.loads(config.read_text())
        del content["format"]
        config.write_text(json.dumps(content))
    page = page_of(tmp_path)
    assert "tiny/grpo/vanilla/16/seed0 and 1 more: of an older version of sagc" in page
    assert page.count('<section class="run"') == 2


def test_runs_that_are_not_of_the_grid_are_left_out(tmp_path):
    make_run(tmp_path, "16")
    make_run(tmp_path, "8")
    cell = {"model": "tiny", "algorithm": "grpo", "stack": "vanilla", "seed": 0, "group": 16}
    (tmp_path / "grid.json").write_text(json.dumps({"runs": [cell]}))
    page = page_of(tmp_path)
    assert "tiny/grpo/vanilla/8/seed0 is not in the grid that was run last; it is left out" in page
    assert page.count('<section class="run"') == 1


@pytest.mark.parametrize("folders", [0, 1])
def test_nothing_to_show_is_said(tmp_path, folders):
    for _ in range(folders):
        (make_run(tmp_path, "sagc", steps=2, evaluated=False) / "trace.jsonl").write_text("")
    page = page_of(tmp_path)
    assert NO_RUNS in page and "There is nothing to draw yet" in page
    assert ("the folder contains no runs" in page) == (folders == 0)


def test_what_a_run_wrote_is_text(tmp_path):
    script = "<script>alert(1)</script>"
    make_run(tmp_path, "16")
    path = make_run(tmp_path, "sagc") / "config.json"
    config = json.loads(path.read_text())
    config["run"]["training"]["note"] = script
    config["versions"]["sagc"] = script
    config["machine"]["host"] = script
    path.write_text(json.dumps(config))
    page = page_of(tmp_path)
    assert script not in page and page.count("<script>") == 1
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_pages_of_different_runs_have_different_ids():
    cell = {"model": "a b", "algorithm": "x", "stack": "vanilla", "group": "16", "seed": 0}
    assert page_id(cell) == "run-a_20_b-x-vanilla-16-0"
    assert page_id(cell) != page_id({**cell, "model": "a/b"})


def test_a_folder_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(UserError, match="does not exist"):
        build_report(tmp_path / "nowhere")


def test_the_command_writes_the_page_and_says_where(tmp_path):
    make_run(tmp_path, "16", steps=2)
    result = CliRunner().invoke(main, ["report", str(tmp_path)])
    assert (result.exit_code, result.output) == (0, f"{tmp_path / 'report.html'}\n")
    nowhere = CliRunner().invoke(main, ["report", str(tmp_path / "nowhere")])
    assert nowhere.exit_code == 2 and "does not exist" in nowhere.output
