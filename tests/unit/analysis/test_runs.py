"""Runs as the report reads them: tables of steps by hand, every bad input a sentence and never an error."""

import json
import math

import pytest

from analysis.results.runs import load_results
from analysis.results.steps import COLUMNS, read_steps
from sagc.errors import UserError
from sagc.trace import TraceWriter
from tests.made_results import make_run
from tests.unit.analysis.test_summary import RECORDS, record


def write(path, records):
    writer = TraceWriter(path)
    for each in records:
        writer.append(each)
    return path


# One trace -----------------------------------------------------------------------------------------------------------


def test_a_trace_by_hand(tmp_path):
    steps = read_steps(write(tmp_path / "trace.jsonl", RECORDS), tau=2.0)
    assert list(steps.table.columns) == list(COLUMNS) and not steps.problems
    assert steps.table["slots"].tolist() == [160, 150, 30]
    assert steps.table["rounds"].tolist() == [1, 2, 1]
    assert steps.table["responses"].tolist() == [4, 9, 6]
    assert steps.table["elapsed_s"].tolist() == [2.0, 6.0, 8.0]
    assert steps.table["q25"].tolist() == [17.5, 10.0, 5.0]  # of 10, 20, 30, 40: a quarter of the way from 10 to 40
    assert steps.table["dual_variable"].isna().all() and len(steps.risks) == len(steps.realised) == 0


def test_realised_rates_are_exact_for_sub_groups(tmp_path):
    risks = {"2": 0.5, "3": 0.75, "16": 0.9}
    lengths = [[10, 20, 30, 90], [20, 20, 20, 40]]
    steps = read_steps(write(tmp_path / "trace.jsonl", [record(1, lengths, risks=risks)]), tau=2.0)
    assert steps.risks.to_dict() == {2: {1: 0.5}, 3: {1: 0.75}, 16: {1: 0.9}}
    # Of the sub-groups of three, 3 of 4 in the first group and none in the second (sagc.lengths has the example); two
    # responses never have max / median above 2.
    assert steps.realised[3].tolist() == [0.375] and steps.realised[2].tolist() == [0.0]
    assert math.isnan(steps.realised[16].iloc[0])


def test_a_half_written_last_line_is_left_out(tmp_path):
    path = write(tmp_path / "trace.jsonl", RECORDS)
    path.write_bytes(path.read_bytes()[:-20])
    assert len(read_steps(path, 2.0).table) == 2


def test_steps_before_a_bad_line_are_read(tmp_path):
    path = write(tmp_path / "trace.jsonl", RECORDS)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(lines[0] + "{}\n" + lines[2])
    steps = read_steps(path, 2.0)
    assert len(steps.table) == 1
    assert "the trace cannot be read beyond step 1" in steps.problems[0]


def test_steps_without_a_reward_are_said(tmp_path):
    path = write(tmp_path / "trace.jsonl", RECORDS)
    path.write_text(path.read_text().replace('"reward":0.5,', '"reward":null,'))
    steps = read_steps(path, 2.0)
    assert steps.table["reward"].isna().tolist() == [False, True, False]
    assert steps.problems == ["1 of 3 steps have no reward"]


def test_rewards_that_are_nan_are_said(tmp_path):
    path = write(tmp_path / "trace.jsonl", RECORDS)
    path.write_text(path.read_text().replace('"reward":0.5,', '"reward":NaN,'))
    assert read_steps(path, 2.0).problems == [
        f"the trace cannot be read beyond step 1: {path}, line 2: not a step record (NaN is no number in JSON)"
    ]


def test_repeated_steps_are_said(tmp_path):
    steps = read_steps(write(tmp_path / "trace.jsonl", [RECORDS[0], RECORDS[0]]), 2.0)
    assert steps.problems == ["the trace does not contain its steps in order from 1"]


# A folder ------------------------------------------------------------------------------------------------------------


def test_runs_come_in_natural_order_with_their_states(tmp_path):
    make_run(tmp_path, "sagc", steps=4, planned=9)
    make_run(tmp_path, "16", steps=4, evaluated=False)
    make_run(tmp_path, "8", steps=4)
    (make_run(tmp_path, "4", steps=4) / "trace.jsonl").unlink()
    results = load_results(tmp_path)
    assert [(run.cell["group"], run.state) for run in results.runs] == [
        ("4", "empty"),
        ("8", "done"),
        ("16", "not evaluated"),
        ("sagc", "unfinished"),
    ]
    assert [len(run.steps) for run in results.runs] == [0, 4, 4, 4]
    assert results.table()["group"].tolist() == ["8"]
    assert "is not evaluated yet" in results.runs[2].problems[0]


def test_a_grid_inside_the_folder_is_left_out(tmp_path):
    make_run(tmp_path, "16", steps=2)
    make_run(tmp_path / "quick", "16", steps=2)
    results = load_results(tmp_path)
    assert [run.name for run in results.runs] == ["tiny/grpo/vanilla/16/seed0"]
    assert results.problems == ["quick is a results folder of its own; its runs are left out here"]


def test_runs_may_lie_anywhere(tmp_path):
    make_run(tmp_path / "made", "16", steps=2).rename(tmp_path / "mine")
    make_run(tmp_path / "made", "sagc", steps=2).rename(tmp_path / "yours")
    assert [run.name for run in load_results(tmp_path).runs] == ["mine", "yours"]


def test_copies_in_checkpoints_and_models_are_no_runs(tmp_path):
    run = make_run(tmp_path, "16", steps=2)
    places = run / "checkpoints" / "abc", run / "kept" / "abc" / "10", run / "model", tmp_path / "models" / "tiny"
    for copy in places:
        copy.mkdir(parents=True)
        (copy / "config.json").write_bytes((run / "config.json").read_bytes())
        (copy / "trace.jsonl").write_bytes((run / "trace.jsonl").read_bytes())
    results = load_results(tmp_path)
    assert len(results.runs) == 1 and not results.problems


def test_two_runs_of_a_cell_are_said(tmp_path):
    make_run(tmp_path / "made", "16", steps=2).rename(tmp_path / "a")
    make_run(tmp_path / "made", "16", steps=2).rename(tmp_path / "b")
    config = json.loads((tmp_path / "b" / "config.json").read_text())
    (tmp_path / "b" / "config.json").write_text(json.dumps(config | {"hash": "other"}))
    results = load_results(tmp_path)
    assert [run.name for run in results.runs] == ["a"]
    assert results.problems == ["a and b are of the same cell, with different configs; only the first is shown"]


def test_settings_that_arms_do_not_share_are_said(tmp_path):
    make_run(tmp_path, "16", settings={"learning_rate": 1e-4})
    make_run(tmp_path, "sagc", settings={"learning_rate": 2e-4})
    [problem] = load_results(tmp_path).problems
    assert problem.endswith("differ in training.learning_rate, which a comparison of their arms does not account for")


@pytest.mark.parametrize("content", ["", "[]", '{"run": {}}', '{"run": {"cell": 3}}'])
def test_a_folder_that_is_no_run_is_said(tmp_path, content):
    (make_run(tmp_path, "16") / "config.json").write_text(content)
    results = load_results(tmp_path)
    assert results.runs == [] and len(results.problems) == 1
    assert len(results.table()) == 0


def test_a_broken_evaluation_is_said(tmp_path):
    path = make_run(tmp_path, "16") / "eval" / "evaluation.json"
    content = json.loads(path.read_text())
    del content["benchmarks"]["heldout"]["accuracy"]
    path.write_text(json.dumps(content))
    [run] = load_results(tmp_path).runs
    assert run.state == "not evaluated"
    assert run.problems == ["the evaluation lacks 'accuracy'; evaluate the run again"]


def test_a_folder_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(UserError, match="does not exist"):
        load_results(tmp_path / "nowhere")
