"""A run's row against numbers worked out by hand."""

import json
import math
import subprocess
import sys

import pytest

from analysis.results.runs import load_run
from analysis.tables.grid import summarize_results
from sagc.errors import UserError
from sagc.run.folder import FORMAT
from sagc.trace import StepRecord, TraceWriter

HASH = "0123456789abcdef"


def record(step, lengths, **changes):
    """A step; what the summary does not read is left at zero."""
    tokens = sum(map(sum, lengths))
    values = {
        "step": step,
        "policy_version": step - 1,
        "group_size": len(lengths[0]),
        "prompts": len(lengths),
        "samples": 0,
        "kept_groups": 0,
        "filtered_groups": 0,
        "rounds": [len(lengths)],
        "prompt_index": [0] * len(lengths),
        "lengths": lengths,
        "rewards": [[0.0] * len(group) for group in lengths],
        "truncated": 0,
        "straggler_events": 0,
        "straggler_rate": 0.0,
        "idle_fraction": 0.0,
        "max_length": 0,
        "mean_length": 0.0,
        "median_length": 0.0,
        "tokens": tokens,
        "reward": 0.0,
        "learning_rate": 0.0,
        "optimizer_steps": 1,
        "rollout_s": 1.0,
        "train_s": 0.5,
        "sync_s": 0.25,
        "step_s": 2.0,
        "processor_s": 1.75,
        "dual_variable": None,
        "budget": None,
        "risks": {},
        "infeasible": False,
        "next_group_size": len(lengths[0]),
    }
    return StepRecord(**{**values, **changes})


RECORDS = [
    record(1, [[10, 20], [30, 40]], straggler_events=1, reward=0.25),  # slots 4 x 40
    # Two rounds: one group of 3 with slots 3 x 10, then two groups with slots 6 x 20.
    record(
        2,
        [[10, 10, 10], [10, 10, 10], [20, 10, 10]],
        rounds=[1, 2],
        straggler_events=2,
        filtered_groups=1,
        truncated=2,
        reward=0.5,
        infeasible=True,
        step_s=4.0,
    ),
    record(3, [[5, 5, 5], [5, 5, 5]], reward=0.75),  # slots 6 x 5
]


def make_run(folder, records=RECORDS, steps=None, event="group", benchmarks=None, evaluated_hash=HASH, **cell):
    run = {
        "cell": {"model": "tiny", "algorithm": "dapo", "stack": "vanilla", "group": "sagc", "seed": 0} | cell,
        "straggler": {"tau": 2.0, "event": event},
        "training": {"steps": steps or len(records)},
    }
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"format": FORMAT, "run": run, "hash": HASH}))
    writer = TraceWriter(folder / "trace.jsonl")
    for each in records:
        writer.append(each)
    (folder / "eval").mkdir()
    content = {"run_hash": evaluated_hash, "benchmarks": benchmarks or {}}
    (folder / "eval" / "evaluation.json").write_text(json.dumps(content))
    return folder


def summarize_run(folder):
    """The row of a run, or why it is not whole."""
    run = load_run(folder)
    if run.incomplete:
        raise UserError(run.incomplete)
    return run.summary


def test_a_run_by_hand(tmp_path):
    heldout = {
        "accuracy": 0.6,
        "accuracy_se": 0.01,
        "pass_at": {"1": 0.6, "2": 0.7, "10": 0.9},
        "majority": 0.65,
        "problems": 9,
        "output_tokens": 35.5,
        "output_tokens_median": 30,
        "cut_off_rate": 0.25,
        "no_answer_rate": 0.125,
        "unchecked": 2,
        "left_out": 1,
    }
    row = summarize_run(make_run(tmp_path / "run", benchmarks={"heldout": heldout}))
    expected = {
        "model": "tiny",
        "algorithm": "dapo",
        "stack": "vanilla",
        "group": "sagc",
        "seed": 0,
        "steps": 3,
        "straggler_rate": 3 / 7,  # of 2 + 3 + 2 groups; the mean of the steps' rates would be 7 / 18
        "idle_fraction": 1 - 230 / 340,  # slots 160 + 30 + 120 + 30
        "mean_group_size": 8 / 3,
        "moves_per_step": 1 / 3,
        "infeasible_steps": 1,
        "filtered_share": 1 / 7,
        "tokens": 230,
        "wall_s": 8.0,
        "rollout_s": 3.0,
        "train_s": 1.5,
        "sync_s": 0.75,
        "processor_s": 5.25,
        "reward": 0.5,
        "cut_off_rate": 2 / 19,
        "accuracy_heldout": 0.6,
        "accuracy_heldout_se": 0.01,
        "pass_heldout": 0.9,
        "majority_heldout": 0.65,
        "output_tokens_heldout": 35.5,
        "median_tokens_heldout": 30,
        "cut_off_rate_heldout": 0.25,
        "no_answer_rate_heldout": 0.125,
        "unchecked_heldout": 2,
        "left_out_heldout": 1,
    }
    assert list(row) == list(expected)
    assert row == pytest.approx(expected)


def test_one_event_per_step(tmp_path):
    """With one event over the whole step, the rate is over steps and not over groups."""
    records = [record(1, [[1, 1], [1, 1]], straggler_events=1), record(2, [[1, 1], [1, 1]])]
    assert summarize_run(make_run(tmp_path / "run", records, event="step"))["straggler_rate"] == 0.5


def test_reward_is_of_the_last_ten_steps(tmp_path):
    rewards = [9.0, *range(9), None]  # eleven steps, the last of which could not be rewarded
    records = [record(step, [[1, 1]], reward=reward) for step, reward in enumerate(rewards, start=1)]
    assert summarize_run(make_run(tmp_path / "run", records))["reward"] == 4.0


def test_a_run_without_rewards_has_none(tmp_path):
    assert summarize_run(make_run(tmp_path / "run", [record(1, [[1, 1]], reward=None)]))["reward"] is None


def test_a_run_with_a_step_without_processor_time_has_none(tmp_path):
    records = [record(1, [[1, 1]]), record(2, [[1, 1]], processor_s=None)]
    assert summarize_run(make_run(tmp_path / "run", records))["processor_s"] is None


def test_a_run_of_an_older_version_is_summarized_and_said(tmp_path, caplog):
    folder = make_run(tmp_path / "run")
    summarize_results(tmp_path)
    assert not caplog.records
    row = summarize_run(folder)
    content = json.loads((folder / "config.json").read_text())
    del content["format"]
    (folder / "config.json").write_text(json.dumps(content))
    assert summarize_run(folder) == row
    summarize_results(tmp_path)
    assert "is of an older version of sagc" in caplog.text


def test_a_static_size_is_text(tmp_path):
    assert summarize_run(make_run(tmp_path / "run", group=16))["group"] == "16"


def test_every_run_gets_its_row_as_a_file(tmp_path):
    folder = make_run(tmp_path / "run")
    summarize_results(tmp_path)
    assert json.loads((folder / "summary.json").read_text()) == summarize_run(folder)


def test_an_unfinished_run_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"does not contain steps 1 to 5 in order; finish training the run"):
        summarize_run(make_run(tmp_path / "run", steps=5))


def test_a_repeated_step_is_refused(tmp_path):
    with pytest.raises(UserError, match="does not contain steps 1 to 3 in order"):
        summarize_run(make_run(tmp_path / "run", [RECORDS[0], RECORDS[0], RECORDS[2]]))


def test_rounds_that_do_not_fit_the_groups_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"line 1: not a step record \(rounds of \[3\] groups, but 2 groups"):
        summarize_run(make_run(tmp_path / "run", [record(1, [[1, 1], [1, 1]], rounds=[3])]))


def test_a_bad_line_of_the_trace_is_named(tmp_path):
    folder = make_run(tmp_path / "run")
    with open(folder / "trace.jsonl", "a") as file:
        file.write("{}\n")
    with pytest.raises(UserError, match=r"trace\.jsonl, line 4: not a step record"):
        summarize_run(folder)


def test_an_evaluation_of_another_run_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"is from another run \(hash feed, this one is 0123456789abcdef\)"):
        summarize_run(make_run(tmp_path / "run", evaluated_hash="feed"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("config.json", "not a run folder"),
        ("trace.jsonl", "has no trace"),
        ("eval/evaluation.json", "not evaluated yet"),
    ],
)
def test_missing_files_are_named(tmp_path, name, message):
    folder = make_run(tmp_path / "run")
    (folder / name).unlink()
    with pytest.raises(UserError, match=message):
        summarize_run(folder)


def test_results_leaves_out_what_is_incomplete(tmp_path, caplog):
    for seed in (0, 1):
        make_run(tmp_path / f"tiny/dapo/vanilla/sagc/seed{seed}", seed=seed)
    make_run(tmp_path / "tiny/dapo/vanilla/16/seed0", group=16, steps=9)
    make_run(tmp_path / "tiny/dapo/vanilla/8/seed0/checkpoints/feed/checkpoint-2", group=8)
    frame = summarize_results(tmp_path)
    assert frame["group"].tolist() == ["sagc", "sagc"]
    assert frame["seed"].tolist() == [0, 1]
    assert [record.getMessage() for record in caplog.records] == [
        f"left out: {tmp_path}/tiny/dapo/vanilla/16/seed0/trace.jsonl does not contain steps 1 to 9 in order; "
        "finish training the run first"
    ]
    assert frame["wall_vs_static16"].map(math.isnan).all()
    assert (tmp_path / "summary.csv").exists()
    assert "2 runs, one per line" in (tmp_path / "summary.md").read_text()


def test_results_without_a_run_are_refused(tmp_path):
    with pytest.raises(UserError, match="holds no complete run"):
        summarize_results(tmp_path)


def test_two_runs_of_one_cell_are_refused(tmp_path):
    make_run(tmp_path / "a")
    make_run(tmp_path / "b")
    with pytest.raises(UserError, match=r"/a and .*/b are both of tiny/dapo/vanilla/sagc/0; keep one of them"):
        summarize_results(tmp_path)


def test_the_command(tmp_path, project):
    folder = make_run(tmp_path / "results" / "run")
    command = [sys.executable, "-m", "sagc.cli", "summarize"]
    done = subprocess.run([*command, tmp_path / "results"], cwd=project, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"1 run: {tmp_path / 'results' / 'summary.md'}\n"
    assert (folder / "summary.json").exists()
    (tmp_path / "none").mkdir()
    refused = subprocess.run([*command, tmp_path / "none"], cwd=project, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert refused.stderr == f"Error: {tmp_path / 'none'} holds no complete run\n"


def test_a_grid_whose_trace_is_damaged_is_one_sentence(tmp_path, project):
    """The DAG's command wants every run whole, and says which one is not."""
    folder = make_run(tmp_path / "run", steps=5)
    command = [sys.executable, "-m", "analysis.report.build", tmp_path]
    refused = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert refused.stderr == (
        f"Error: {folder / 'trace.jsonl'} does not contain steps 1 to 5 in order; finish training the run first\n"
    )
    assert not (tmp_path / "report.html").exists()
