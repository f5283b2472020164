"""Output lengths of controlled and static arms: against numbers by hand, and what the tables say."""

import json
import random
import re

import pandas as pd
import pytest

from analysis.cells import natural_order
from analysis.results.runs import RunResults
from analysis.results.summary import read_evaluation
from analysis.tables import output_lengths
from analysis.tables.grid import summarize_results
from analysis.tables.output_lengths import COLUMNS, NOTHING_TO_COMPARE, lengths_table
from analysis.tables.runs import MISSING
from sagc.errors import UserError
from sagc.run.folder import RunFolder
from tests import made_results

HASH = "0123456789abcdef"
LENGTHS = {"a": [10, 20], "b": [30, 50]}  # of a static arm; the means are 15 and 40
T1 = 12.706205  # 97.5 % quantile of Student's t with one degree of freedom
LEFT = 3 + 15 * 6 / 27.5  # +3 for a less what 15 tokens have of the ratio -6 / 27.5; of b it is as much below 0


def make_run(results, group, benchmarks=None, seed=0, model="tiny", cut_off=(), **sampling):
    """An evaluated run; `benchmarks` are lengths per problem's id, and responses of the lengths `cut_off` are that."""
    benchmarks = {"heldout": LENGTHS} if benchmarks is None else benchmarks
    folder = results / model / "grpo" / "vanilla" / str(group) / f"seed{seed}"
    cell = {"model": model, "algorithm": "grpo", "stack": "vanilla", "group": group, "seed": seed}
    write(folder / "config.json", {"run": {"cell": cell}, "hash": HASH})
    for name, lengths in benchmarks.items():
        rows = [problem(id, tokens, cut_off) for id, tokens in lengths.items()]
        write(folder / "eval" / name / "samples.jsonl", *rows)
    sampling = {"max_response_tokens": 400, "temperature": 1.0, "top_p": 1.0, **sampling}
    content = {"run_hash": HASH, "evaluation": sampling, "benchmarks": {name: {} for name in benchmarks}}
    write(folder / "eval" / "evaluation.json", content)
    return folder


def read(folder):
    """An evaluated run, without its steps."""
    folder, none = RunFolder(folder), pd.DataFrame()
    config = folder.read_config()
    cell = config["run"]["cell"] | {"group": str(config["run"]["cell"]["group"])}
    evaluation = read_evaluation(folder, config["hash"])
    return RunResults(folder.path.name, folder, cell, config, 0, none, none, none, evaluation)


def compare_lengths(folders):
    return output_lengths.compare_lengths(sorted(map(read, folders), key=lambda run: natural_order(run.cell)))


def to_markdown(frame):
    return lengths_table(frame).markdown()


def problem(id, tokens, cut_off=()):
    return {
        "id": id,
        "rewards": [0.0] * len(tokens),
        "output_tokens": tokens,
        "cut_off": [count in cut_off for count in tokens],
    }


def write(path, *rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def pairs(frame):
    return list(frame[["benchmark", "controlled", "static"]].itertuples(index=False, name=None))


# Statistics ----------------------------------------------------------------------------------------------------------


def test_a_comparison_by_hand(tmp_path):
    static = make_run(tmp_path, 16, cut_off=(50,))
    controlled = make_run(tmp_path, "sagc", {"heldout": {"b": [20, 30], "a": [16, 20]}})  # another order
    [row] = compare_lengths([static, controlled]).to_dict(orient="records")
    assert list(row) == COLUMNS
    assert row == {
        "model": "tiny",
        "algorithm": "grpo",
        "stack": "vanilla",
        "benchmark": "heldout",
        "controlled": "sagc",
        "static": "16",
        "seeds": 1,
        "problems": 2,
        "tokens_controlled": 21.5,
        "tokens_static": 27.5,
        "difference": -6.0,  # +3 for a, -15 for b
        "relative": pytest.approx(-6 / 27.5),
        "relative_low": pytest.approx(-6 / 27.5 - T1 * LEFT / 27.5),
        "relative_high": pytest.approx(-6 / 27.5 + T1 * LEFT / 27.5),
        "cut_off_rate_controlled": 0.0,
        "cut_off_rate_static": 0.25,
    }


def test_only_the_seeds_that_both_arms_have_count(tmp_path):
    runs = [
        make_run(tmp_path, 8, {"heldout": {"a": [10], "b": [20]}}, seed=0, cut_off=(20,)),
        make_run(tmp_path, 8, {"heldout": {"a": [30], "b": [20]}}, seed=1),
        make_run(tmp_path, 8, {"heldout": {"a": [999], "b": [999]}}, seed=2),
        make_run(tmp_path, "sagc", {"heldout": {"a": [10, 20, 30], "b": [10]}}, seed=0),  # every seed counts the same
        make_run(tmp_path, "sagc", {"heldout": {"a": [10], "b": [40]}}, seed=1),
        make_run(tmp_path, "sagc", {"heldout": {"a": [1], "b": [1]}}, seed=3),
    ]
    [row] = compare_lengths(runs).to_dict(orient="records")
    assert (row["seeds"], row["problems"]) == (2, 2)
    assert (row["tokens_controlled"], row["tokens_static"], row["difference"]) == (20.0, 20.0, 0.0)
    # a is 15 against 20, b is 25 against 20
    assert [row["relative_low"], row["relative_high"]] == pytest.approx([-T1 * 5 / 20, T1 * 5 / 20])
    assert (row["cut_off_rate_controlled"], row["cut_off_rate_static"]) == (0.0, 0.25)


def test_the_interval_is_the_same_again_and_beside_other_arms(tmp_path):
    random.seed(0)
    lengths = [{"heldout": {str(i): [random.randint(1, 99)] for i in range(30)}} for _ in range(3)]
    runs = [make_run(tmp_path, group, each) for group, each in zip((4, 16, "sagc"), lengths, strict=True)]
    both, alone = compare_lengths(runs), compare_lengths(runs[1:])
    pd.testing.assert_frame_equal(both[both["static"] == "16"].reset_index(drop=True), alone)


def test_a_single_problem_has_no_interval(tmp_path):
    runs = [make_run(tmp_path, group, {"heldout": {"a": [10]}}) for group in (4, "sagc")]
    frame = compare_lengths(runs)
    assert frame[["relative_low", "relative_high"]].isna().all(axis=None)
    assert frame["relative"].tolist() == [0.0]
    assert f"| {MISSING} |" in to_markdown(frame).replace("  ", "")
    assert f"{MISSING} marks the missing interval over a single problem" in to_markdown(frame)


# Which arms are compared ---------------------------------------------------------------------------------------------


def test_every_controlled_arm_is_compared_with_every_static_one(tmp_path):
    both = {"heldout": LENGTHS, "harder": {"c": [5]}}
    runs = [make_run(tmp_path, group, both) for group in ("sagc-robust", 16, "sagc", 4)]
    runs += [make_run(tmp_path, 4, {"heldout": LENGTHS}, model="also"), make_run(tmp_path, "sagc", both, model="also")]
    frame = compare_lengths(runs)
    assert pairs(frame[frame["model"] == "also"]) == [("heldout", "sagc", "4")]
    assert pairs(frame[frame["model"] == "tiny"]) == [
        (benchmark, controlled, static)
        for benchmark in ("heldout", "harder")
        for controlled in ("sagc", "sagc-robust")
        for static in ("4", "16")
    ]
    assert frame["model"].tolist() == ["also"] + ["tiny"] * 8


@pytest.mark.parametrize(
    "runs",
    [
        [{"group": 4}, {"group": 16}],
        [{"group": "sagc"}, {"group": "sagc-robust"}],
        [{"group": "sagc"}, {"group": 16, "model": "other"}],
        [{"group": "sagc"}, {"group": 16, "seed": 1}],
        [{"group": "sagc", "benchmarks": {}}, {"group": 16, "benchmarks": {}}],
        [{"group": "sagc", "benchmarks": {"harder": LENGTHS}}, {"group": 16}],
    ],
    ids=["no controller", "no static size", "other models", "other seeds", "no benchmark", "other benchmarks"],
)
def test_nothing_to_compare_is_said(tmp_path, runs):
    folders = [make_run(tmp_path / "results", **run) for run in runs]
    call(tmp_path, *folders)
    assert (tmp_path / "o.md").read_text() == f"# Output lengths\n\n{NOTHING_TO_COMPARE}\n"
    assert (tmp_path / "o.csv").read_text() == ",".join(COLUMNS) + "\n"
    assert "cut off \\%" in (tmp_path / "o.tex").read_text()


# Files ---------------------------------------------------------------------------------------------------------------


def call(folder, *runs):
    frame = compare_lengths(runs)
    lengths_table(frame).write(folder / "o", csv=frame)


def test_the_files_of_a_comparison(tmp_path):
    static = make_run(tmp_path / "results", 16, cut_off=(50,))
    controlled = make_run(tmp_path / "results", "sagc", {"heldout": {"a": [16, 20], "b": [20, 30]}})
    other = [make_run(tmp_path / "results", group, model="z") for group in (16, "sagc")]
    call(tmp_path, static, controlled, *other)
    text = (tmp_path / "o.md").read_text()
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## tiny, grpo, vanilla",
        "## z, grpo, vanilla",
        "## Columns",
    ]
    titles, _, line = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")][:3]
    cells = {title.strip(): cell.strip() for title, cell in zip(titles, line, strict=True)}
    assert cells == {
        "benchmark": "heldout",
        "controlled": "sagc",
        "static": "16",
        "tokens": "21.5",
        "tokens, static": "27.5",
        "difference": "-6.0",
        "difference %": "-21.8",
        "95 % interval": "-311.6 to +268.0",
        "problems": "2",
        "seeds": "1",
        "cut off %": "0.0",
        "cut off %, static": "25.0",
    }
    for title in cells:
        assert f"- **{title}**: " in text
    assert "cut-off response is censored" in text
    assert MISSING not in text
    table = pd.read_csv(tmp_path / "o.csv")
    assert table.columns.tolist() == COLUMNS
    assert table["difference"].tolist() == [-6.0, 0.0]
    *_, first, _, bottom, _ = (tmp_path / "o.tex").read_text().splitlines()
    assert first.startswith(r"tiny & grpo & vanilla & heldout & sagc & 16 & 21.5 & 27.5 & -6.0 &")
    assert bottom == r"\bottomrule"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["o.csv", "o.md", "o.tex", "results"]


def test_what_the_interval_does_not_say_is_said(tmp_path):
    runs = [make_run(tmp_path, group, seed=seed) for group in (4, "sagc") for seed in (0, 1)]
    one, two = to_markdown(compare_lengths(runs[::2])), to_markdown(compare_lengths(runs))
    assert "1 comparison, one per line" in one
    assert "one seed: its interval is over problems only and says nothing about how another seed would" in one
    assert "uses 2 seeds, treated as fixed: its interval is over problems only and says nothing about how other" in two
    mixed = compare_lengths([*runs, make_run(tmp_path, 8)])
    assert "2 comparisons" in to_markdown(mixed)
    assert "uses 1 to 2 seeds" in to_markdown(mixed)


def test_summarize_writes_the_comparison_too(tmp_path):
    """`sagc summarize` writes the comparison beside its table, over the runs that are complete."""
    for group, planned in (("4", 3), ("8", 9), ("sagc", 3)):
        made_results.make_run(tmp_path, group, steps=3, planned=planned)
    frame = summarize_results(tmp_path)
    assert frame["group"].tolist() == ["4", "sagc"]
    assert pd.read_csv(tmp_path / "output_lengths.csv")["static"].tolist() == [4]
    assert "1 comparison" in (tmp_path / "output_lengths.md").read_text()
    assert "heldout & sagc & 4" in (tmp_path / "output_lengths.tex").read_text()


def test_lengths_that_cannot_be_compared_are_one_sentence_and_write_nothing(tmp_path):
    for group in ("4", "sagc"):
        folder = made_results.make_run(tmp_path, group, steps=3)
    (folder / "eval" / "heldout" / "samples.jsonl").unlink()
    with pytest.raises(UserError, match=r"sagc/seed0/eval/heldout/samples\.jsonl cannot be read"):
        summarize_results(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"tiny"}


# Errors --------------------------------------------------------------------------------------------------------------


def test_other_problems_are_refused(tmp_path):
    static = make_run(tmp_path, 4)
    controlled = make_run(tmp_path, "sagc", {"heldout": {"a": [1], "b": [1], "c": [1]}})
    with pytest.raises(UserError) as refused:
        compare_lengths([static, controlled])
    assert str(refused.value) == (
        f"{controlled} and {static} were not asked the same problems of heldout: 'c' is in only one of them; "
        "evaluate both on the same problems"
    )


def test_other_problems_in_another_seed_are_refused(tmp_path):
    runs = [make_run(tmp_path, group, seed=seed) for group in (4, "sagc") for seed in (0, 1)]
    make_run(tmp_path, "sagc", {"heldout": {"a": [1]}}, seed=1)
    with pytest.raises(UserError, match=r"sagc/seed0 and .*sagc/seed1 were not asked the same problems .*'b'"):
        compare_lengths(runs)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("max_response_tokens", 800, "max_response_tokens, 400 and 800; evaluate one again"),
        ("temperature", 0.5, "temperature, 1.0 and 0.5; evaluate one again"),
        ("top_p", 0.9, "top_p, 1.0 and 0.9; evaluate one again"),
    ],
)
def test_another_sampling_is_refused(tmp_path, key, value, message):
    runs = [make_run(tmp_path, "sagc"), make_run(tmp_path, 4, **{key: value})]
    with pytest.raises(
        UserError, match=rf"sagc/seed0 and .*4/seed0 were evaluated with different values of {re.escape(message)}"
    ):
        compare_lengths(runs)


def test_an_evaluation_of_another_run_is_refused(tmp_path):
    folder = make_run(tmp_path, 4)
    write(folder / "eval" / "evaluation.json", {"run_hash": "feed", "benchmarks": {}})
    with pytest.raises(UserError, match=r"is from another run \(hash feed, this one is 0123456789abcdef\)"):
        compare_lengths([folder])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "are empty"),
        ([problem("a", [1]), {"id": "b", "output_tokens": []}], "line 2: a problem without output_tokens, cut_off;"),
        ([problem("a", [1]), problem("a", [1])], "line 2: the id 'a' occurs twice"),
    ],
)
def test_bad_samples_are_named(tmp_path, rows, message):
    runs = [make_run(tmp_path, 4), make_run(tmp_path, "sagc")]
    write(runs[1] / "eval" / "heldout" / "samples.jsonl", *rows)
    with pytest.raises(UserError, match=rf"sagc/seed0/eval/heldout/samples\.jsonl.* {message}"):
        compare_lengths(runs)


def test_missing_samples_are_named(tmp_path):
    runs = [make_run(tmp_path, 4), make_run(tmp_path, "sagc")]
    (runs[0] / "eval" / "heldout" / "samples.jsonl").unlink()
    with pytest.raises(UserError, match=r"samples .*4/seed0/eval/heldout/samples\.jsonl cannot be read: No such file"):
        compare_lengths(runs)
