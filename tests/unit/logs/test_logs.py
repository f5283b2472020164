"""Logs of this project and of others: what each format gives, and what is refused in one sentence."""

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sagc.errors import UserError
from sagc.logs import read_log
from sagc.tiny.tokenizer import build_tokenizer
from sagc.trace import TraceWriter, read_trace

DATA = Path(__file__).parents[1] / "replay" / "traces"
TRACE = DATA / "tiny-qwen2-grpo" / "16" / "trace.jsonl"


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    build_tokenizer().save_pretrained(folder)
    return str(folder)


def write_csv(path, rows, columns="step,group,length,reward"):
    path.write_text("\n".join([columns, *rows]) + "\n")
    return path


# Our trace -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [TRACE, TRACE.parent])
def test_a_trace_has_everything(path):
    log = read_log(path)
    records = list(read_trace(TRACE))
    assert [step.lengths.tolist() for step in log.steps] == [record.lengths for record in records]
    assert [step.rewards.tolist() for step in log.steps] == [record.rewards for record in records]
    assert log.records == records
    assert (log.limit, log.max_rounds, log.hold, log.sizes) == (400, None, "prompts", [16])
    (note,) = log.notes  # its config.json is one of before
    assert note.startswith(f"{TRACE.parent} is of an older version of sagc")


def test_dynamic_sampling_is_read_from_the_config():
    log = read_log(DATA / "tiny-llama-dapo" / "4")
    assert log.max_rounds == 4
    assert [list(step.rounds) for step in log.steps] == [record.rounds for record in log.records]
    assert [step.kept_groups for step in log.steps] == [16] * 10


def test_a_trace_without_its_config_says_what_is_assumed(tmp_path):
    shutil.copy(DATA / "tiny-llama-dapo" / "4" / "trace.jsonl", tmp_path)
    log = read_log(tmp_path)
    most = max(len(record.rounds) for record in log.records)
    assert log.max_rounds == most and log.limit is None
    assert "no config.json" in log.notes[0] and f"at most {most} rounds" in log.notes[1]


def test_the_trace_of_a_running_job_ends_before_its_half_written_line(tmp_path):
    path = tmp_path / "trace.jsonl"
    path.write_bytes(TRACE.read_bytes()[:-100])
    assert len(read_log(path).steps) == 9


def test_a_trace_of_no_step_yet(tmp_path):
    for content in ("", '{"step": 1, "len'):
        (tmp_path / "trace.jsonl").write_text(content)
        with pytest.raises(UserError, match="holds no whole step"):
            read_log(tmp_path)


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([[5], [6]], "step 1 of .* has one response per group, and a group needs at least two"),
        ([[5, 6], [5, 6, 7]], "step 1 of .* has groups of 2 and 3 responses"),
        ([[5, 401]], "step 1 of .* has a response of 401 tokens, beyond the limit of 400"),
        ([[5, 0]], "step 1 of .* has a length of 0, which is not a whole number of tokens"),
        ([[5, 2.5]], r"line 1: not a step record \(lengths\.0\.1: Input should be a valid integer"),
        ([[5, "x"]], r"line 1: not a step record \(lengths\.0\.1: Input should be a valid integer"),
        ([], "step 1 of .* holds no groups"),
    ],
)
def test_lengths_that_no_rollout_has(tmp_path, lengths, message):
    record = dataclasses.replace(next(read_trace(TRACE)), lengths=lengths, rounds=[len(lengths)])
    TraceWriter(tmp_path / "trace.jsonl").append(record)
    with pytest.raises(UserError, match=message):
        read_log(tmp_path, limit=400)


def test_rewards_that_are_not_one_per_response(tmp_path):
    record = dataclasses.replace(next(read_trace(TRACE)), rewards=[[1.0]])
    TraceWriter(tmp_path / "trace.jsonl").append(record)
    with pytest.raises(UserError, match="rewards that are not one number per response"):
        read_log(tmp_path)


def test_a_line_that_is_no_record_is_named(tmp_path):
    (tmp_path / "trace.jsonl").write_text('{"step": 1}\n')
    with pytest.raises(UserError, match=r"trace\.jsonl, line 1: not a step record"):
        read_log(tmp_path)


# CSV -----------------------------------------------------------------------------------------------------------------


def test_a_csv(tmp_path):
    rows = ["2,b,7,1", "1,a,5,0", "1,b,3,", "1,a,6,1", "1,b,4,0.5", "2,b,9,1"]
    log = read_log(write_csv(tmp_path / "log.csv", rows))
    assert [step.number for step in log.steps] == [1, 2]
    assert [step.lengths.tolist() for step in log.steps] == [[[5, 6], [3, 4]], [[7, 9]]]
    np.testing.assert_array_equal(log.steps[0].rewards, [[0, 1], [np.nan, 0.5]])
    assert log.has_rewards and not log.records and "no hours" in log.notes[0]


def test_a_csv_without_rewards_and_compressed(tmp_path):
    pd.DataFrame({"step": [1, 1], "group": ["x", "x"], "length": [3, 4]}).to_csv(tmp_path / "l.csv.gz", index=False)
    log = read_log(tmp_path / "l.csv.gz")
    assert log.steps[0].lengths.tolist() == [[3, 4]] and not log.has_rewards


@pytest.mark.parametrize(
    ("columns", "rows", "message"),
    [
        ("step,length", ["1,5"], "lacks the column group; it needs step, group, length"),
        ("step,group,length", [], "holds no whole step"),
        ("step,group,length", ["1,a,5", "1,a,long"], "line 3: length is long, which is not a number"),
        ("step,group,length", ["1,a,5", ",a,5"], "line 3: step is nan"),
        ("step,group,length", ["1,a,5", "1,,5"], "line 3: there is no group"),
        ("step,group,length,reward", ["1,a,5,yes"], "line 2: reward is yes"),
        ("step,group,length", ["1,a,5"], "step 1 of .* has one response per group"),
        ("step,group,length", ["1,a,5", "1,a,5", "1,b,6"], "step 1 of .* has groups of 1 and 2 responses"),
        ("step,group,length", ["1,a,5", "1,a,11"], "step 1 of .* has a response of 11 tokens, beyond the limit of 10"),
    ],
)
def test_a_bad_csv(tmp_path, columns, rows, message):
    with pytest.raises(UserError, match=message):
        read_log(write_csv(tmp_path / "log.csv", rows, columns), limit=10)


def test_a_file_that_is_no_csv(tmp_path):
    for content in (b"", b"\xff\xfe\x00", b'a,b\n"1'):
        (tmp_path / "log.csv").write_bytes(content)
        with pytest.raises(UserError):
            read_log(tmp_path / "log.csv")


# TRL's completions ---------------------------------------------------------------------------------------------------


def write_completions(folder, step, prompts, completions, rewards, **extra):
    """As GRPOTrainer.log of TRL 1.16 writes them."""
    (folder / "completions").mkdir(exist_ok=True, parents=True)
    rewards = np.array(rewards, dtype=float)
    advantages = (rewards.reshape(-1, 2) - rewards.reshape(-1, 2).mean(axis=1, keepdims=True)).reshape(-1)
    table = {"step": [step] * len(prompts), "prompt": prompts, "completion": completions}
    table |= {"reward_length": [-1.0] * len(prompts), "reward_answer": rewards, **extra, "advantage": advantages}
    pd.DataFrame(table).to_parquet(folder / "completions" / f"completions_{step:05d}.parquet")


def test_completions_of_trl(tmp_path, tokenizer):
    write_completions(tmp_path, 1, ["2 :", "2 :", "3 :", "3 :"], ["12", "123", "1", "12345678"], [0, 1, 1, 1])
    write_completions(tmp_path, 2, ["4 :"] * 4, ["1", "1", "1", "12"], [0, 0, 0, 1], extra=list("abcd"))
    log = read_log(tmp_path, tokenizer=tokenizer, limit=8)
    assert [step.number for step in log.steps] == [1, 2]
    assert log.steps[0].lengths.tolist() == [[3, 4], [2, 8]]  # the end token added, but not beyond the limit
    assert log.steps[1].lengths.tolist() == [[2, 2, 2, 3]]
    first = log.steps[0].rewards
    assert first[0, 0] != first[0, 1] and first[1, 0] == first[1, 1]
    assert any("end token was added unless" in note for note in log.notes)
    assert read_log(tmp_path / "completions", tokenizer=tokenizer).steps[0].lengths.tolist() == [[3, 4], [2, 9]]


def test_a_prompt_that_was_drawn_twice_makes_two_groups(tmp_path, tokenizer):
    prompts = ["2 :"] * 2 + ["3 :"] * 4
    write_completions(tmp_path, 1, prompts, ["1", "12", "123", "1234", "12345", "123456"], [0, 1, 0, 1, 0, 1])
    log = read_log(tmp_path, tokenizer=tokenizer)
    assert log.steps[0].lengths.tolist() == [[2, 3], [4, 5], [6, 7]]


def test_conversations_count_what_their_messages_say(tmp_path, tokenizer):
    prompts = [[{"role": "user", "content": "2 :"}]] * 2
    completions = [[{"role": "assistant", "content": text}] for text in ("1", "123")]
    write_completions(tmp_path, 1, prompts, completions, [0, 1])
    assert read_log(tmp_path, tokenizer=tokenizer).steps[0].lengths.tolist() == [[2, 4]]


def test_a_rollout_that_is_logged_again_and_steps_that_are_not(tmp_path, tokenizer):
    for step in (2, 3):
        write_completions(tmp_path, step, ["2 :", "2 :"], ["1", "12"], [0, 1])
    write_completions(tmp_path, 12, ["2 :", "2 :"], ["1", "1"], [0, 0])
    log = read_log(tmp_path, tokenizer=tokenizer)
    assert [step.number for step in log.steps] == [2, 12]
    assert any("1 of 3 files hold the rollout of the file before" in note for note in log.notes)
    assert any("up to 10 lie between" in note for note in log.notes)


def test_the_newest_completions_of_a_running_job_may_be_half_written(tmp_path, tokenizer):
    for step in (1, 2):
        write_completions(tmp_path, step, ["2 :", "2 :"], ["1", "1" * step], [0, 1])
    newest = tmp_path / "completions" / "completions_00002.parquet"
    newest.write_bytes(newest.read_bytes()[:-10])
    log = read_log(tmp_path, tokenizer=tokenizer)
    assert [step.number for step in log.steps] == [1]
    assert any("completions_00002.parquet is half-written" in note for note in log.notes)


def test_bad_completions(tmp_path, tokenizer):
    write_completions(tmp_path, 1, ["2 :", "2 :"], ["1", "1" * 30], [0, 1])
    with pytest.raises(UserError, match=r"holds texts; name the run's tokenizer .* with --tokenizer"):
        read_log(tmp_path)
    with pytest.raises(UserError, match=r"--tokenizer .*nowhere cannot be loaded"):
        read_log(tmp_path, tokenizer=str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match="30 tokens with this tokenizer, beyond the limit of 8"):
        read_log(tmp_path, tokenizer=tokenizer, limit=8)
    file = tmp_path / "completions" / "completions_00001.parquet"
    pd.DataFrame({"step": [1], "prompt": ["2 :"]}).to_parquet(file)
    with pytest.raises(UserError, match="lacks the column completion"):
        read_log(file, tokenizer=tokenizer)
    file.write_bytes(b"PAR1")
    with pytest.raises(UserError, match="not a Parquet file that is whole"):
        read_log(file, tokenizer=tokenizer)


# verl's dumps --------------------------------------------------------------------------------------------------------


def write_dump(folder, step, responses):
    """As RayPPOTrainer._dump_generations of verl writes them, with what a reward function adds."""
    rows = [
        {"input": prompt, "output": text, "gts": "7", "score": score, "step": step, "acc": score > 0}
        for prompt, text, score in responses
    ]
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    (folder / f"{step}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_dumps_of_verl(tmp_path, tokenizer):
    write_dump(tmp_path, 10, [("3 :", "1", 1.0), ("3 :", "12", 1.0)])
    mixed = [("2 :", "12", 0.0), ("3 :", "1", 1.0), ("2 :", "123", 1.0), ("3 :", "1234567", 1.0)]
    write_dump(tmp_path, 9, mixed)  # balanced over processes: not in the order of the groups
    log = read_log(tmp_path, tokenizer=tokenizer, limit=8)
    assert [step.number for step in log.steps] == [9, 10]
    assert log.steps[0].lengths.tolist() == [[3, 4], [2, 8]]
    assert log.steps[0].rewards.tolist() == [[0, 1], [1, 1]]
    write_dump(tmp_path, 11, [("3\u2028 :", "1\u2028", 1.0), ("3\u2028 :", "1\x85", 1.0)])  # no ends of lines in JSON
    assert read_log(tmp_path, tokenizer=tokenizer).steps[2].lengths.shape == (1, 2)
    assert "no hours" in log.notes[0]
    assert read_log(tmp_path / "9.jsonl", tokenizer=tokenizer).steps[0].lengths.shape == (2, 2)


def test_the_newest_dump_of_a_running_job_may_be_half_written(tmp_path, tokenizer):
    write_dump(tmp_path, 1, [("3 :", "1", 1.0), ("3 :", "12", 1.0)])
    (tmp_path / "2.jsonl").write_bytes('{"input": "3 é'.encode()[:-1])
    log = read_log(tmp_path, tokenizer=tokenizer)
    assert [step.number for step in log.steps] == [1]
    assert any("2.jsonl is half-written" in note for note in log.notes)


def test_bad_dumps(tmp_path, tokenizer):
    write_dump(
        tmp_path, 1, [("2 :", "1", 0.0), ("2 :", "1", 0.0), ("3 :", "1", 0.0), ("3 :", "1", 0.0), ("3 :", "1", 0.0)]
    )
    with pytest.raises(UserError, match="has groups of 2 and 3 responses"):
        read_log(tmp_path, tokenizer=tokenizer)
    (tmp_path / "1.jsonl").write_text('{"input": "3 :", "score": 1}\n')
    with pytest.raises(UserError, match=r"1\.jsonl, line 1: not a response of verl's"):
        read_log(tmp_path, tokenizer=tokenizer)


# What is none of these -----------------------------------------------------------------------------------------------


def test_what_cannot_be_replayed(tmp_path):
    with pytest.raises(UserError, match="nowhere does not exist"):
        read_log(tmp_path / "nowhere")
    with pytest.raises(UserError, match="holds no log that can be replayed; these can"):
        read_log(tmp_path)
    (tmp_path / "log.txt").write_text("step 1")
    with pytest.raises(UserError, match=r"log\.txt is of an unknown format; these can be replayed"):
        read_log(tmp_path / "log.txt")


def test_logs_of_openrlhf_hold_means_only(tmp_path):
    (tmp_path / "events.out.tfevents.1700000000.host").write_bytes(b"")
    for path in (tmp_path, tmp_path / "events.out.tfevents.1700000000.host"):
        with pytest.raises(UserError, match="a log of OpenRLHF, which holds mean lengths only"):
            read_log(path)
