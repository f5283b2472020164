"""The task "guess and compare": splits, prompts, expert traces, outcome reward, data files."""

import errno
import json
import random
from collections import Counter
from pathlib import Path

import pytest

from sagc.tiny.data import load_problems, write_datasets
from sagc.tiny.task import (
    LARGE_COEFFICIENT,
    LARGE_OFFSET,
    SPLITS,
    Problem,
    all_problems,
    expert_trace,
    outcome_reward,
)

PROBLEM = Problem(coefficient=3, offset=12, solution=9)


def test_a_problem_as_text():
    assert PROBLEM.prompt == "3x +12 = 39:"
    assert PROBLEM.answer == "9"
    assert PROBLEM.id == "3x+12=39"


def test_splits_are_disjoint_and_cover_every_problem():
    by_split = {split: {problem.id for problem in load_problems(split)} for split in SPLITS}
    everything = [problem.id for problem in all_problems()]
    assert len(set(everything)) == len(everything)
    assert sum(len(ids) for ids in by_split.values()) == len(everything)
    assert set.union(*by_split.values()) == set(everything)


def test_splits_are_large_enough():
    rows = Counter(problem.split for problem in all_problems())
    assert rows["train"] > 1500
    assert rows["heldout"] >= 500
    assert rows["harder"] >= 200
    assert 0.15 < rows["heldout"] / (rows["train"] + rows["heldout"]) < 0.25


def test_the_harder_corner_is_seen_in_training_only_apart():
    train = load_problems("train")
    assert any(p.coefficient >= LARGE_COEFFICIENT for p in train)
    assert any(p.offset >= LARGE_OFFSET for p in train)
    for split in ("train", "heldout"):
        assert not any(p.coefficient >= LARGE_COEFFICIENT and p.offset >= LARGE_OFFSET for p in load_problems(split))


def test_every_problem_has_one_solution():
    for problem in all_problems():
        solutions = [x for x in range(10) if problem.coefficient * x + problem.offset == problem.target]
        assert solutions == [problem.solution]


def test_unknown_split_names_what_is_allowed():
    with pytest.raises(ValueError, match="split is 'test'; allowed: train, heldout, harder"):
        load_problems("test")


def test_expert_trials_are_true_and_their_claim_earns_what_it_should():
    rng = random.Random(0)
    rewards = Counter()
    for problem in rng.sample(list(all_problems()), 500):
        trace = expert_trace(problem, rng, false_claim=0.1, missed_hit=0.05)
        assert trace.endswith("!")
        trials = trace.removesuffix("!").split(";")
        for trial in trials:
            guess, product, value = (int(number) for number in trial[:-1].split())
            assert product == problem.coefficient * guess
            assert value == product + problem.offset
            assert trial[-1] == ("<" if value < problem.target else ">" if value > problem.target else "=")
        reward = outcome_reward(trace, problem.answer)
        assert reward == float(trials[-1].startswith(problem.answer))
        rewards[reward] += 1
    assert min(rewards.values()) > 100


def test_a_faultless_expert_stops_at_the_first_hit():
    trace = expert_trace(PROBLEM, random.Random(1), false_claim=0.0, missed_hit=0.0)
    assert trace.count("=") == 1
    assert trace.endswith("9 27 39=!")


@pytest.mark.parametrize(
    ("completion", "reward"),
    [
        ("9 27 39=!", 1.0),
        ("4 12 24<;7 21 33<;9 27 39=!", 1.0),
        ("4 12 24<;9 27 39=!<eos>", 1.0),
        (" 9 27 39=!\n", 1.0),
        ("9 27 39>!", 1.0),  # a right guess with a wrong sign: only the outcome counts
        ("4 12 24<!", 0.0),
        ("9 27 39=;4 12 24<!", 0.0),  # the last guess counts, not the best one
        ("9 27 39=", 0.0),  # no claim
        ("9 27 39=;", 0.0),
        ("9 27 39=;4 12", 0.0),  # cut off
        ("9 27 39=!;4 12", 0.0),  # went on after the claim
        ("9 27 39=!!", 0.0),
        ("9!", 0.0),
        ("!", 0.0),
        ("", 0.0),
        ("99 27 39=!", 0.0),
        ("x = 9!", 0.0),
        ("9 27 39=" * 12500, 0.0),  # 100 000 characters
        (" " * 100_000, 0.0),
        ("\u0669 27 39=!", 0.0),  # a nine in other digits
        ("\x00\ufffd<pad><unk>\n", 0.0),
    ],
)
def test_outcome_reward(completion, reward):
    assert outcome_reward(completion, PROBLEM.answer) == reward


def test_a_long_response_can_be_right():
    assert outcome_reward("4 12 24<;" * 12_500 + "9 27 39=!", "9") == 1.0


def test_data_files_hold_the_splits_and_depend_on_the_seed_only_in_order(tmp_path):
    rows = write_datasets(tmp_path / "a", seed=0)
    write_datasets(tmp_path / "b", seed=0)
    write_datasets(tmp_path / "c", seed=1)
    for split in SPLITS:
        a, b, c = ((tmp_path / folder / f"{split}.jsonl").read_text() for folder in "abc")
        assert a == b
        assert a != c
        assert sorted(a.splitlines()) == sorted(c.splitlines())
        read = [json.loads(line) for line in a.splitlines()]
        assert len(read) == rows[split]
        text = "prompt" if split == "train" else "problem"
        expected = [{text: p.prompt, "answer": p.answer, "id": p.id} for p in load_problems(split)]
        assert sorted(read, key=lambda row: row["id"]) == sorted(expected, key=lambda row: row["id"])


def test_data_sets_are_written_whole_or_not_at_all(tmp_path, monkeypatch):
    write = Path.write_text

    def full_disk(path, *arguments, **options):
        if path.name == "heldout.jsonl":
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(path, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", full_disk)
        with pytest.raises(OSError, match="No space left"):
            write_datasets(tmp_path / "data", seed=0)
    assert list(tmp_path.iterdir()) == []
    write_datasets(tmp_path / "data", seed=0)
    assert {path.name for path in (tmp_path / "data").iterdir()} == {"train.jsonl", "heldout.jsonl", "harder.jsonl"}
