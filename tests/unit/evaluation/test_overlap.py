"""sagc.evaluation.overlap: what counts as the same problem, the index against a slow search, and the report."""

import json
import random
import sys
import time
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from sagc.data.normalise import normalise
from sagc.evaluation.overlap import WORDS, find_overlap, main, ngrams, to_markdown


def test_what_is_left_of_a_problem():
    text = r"Find $x^{2} + \dfrac{1}{2}$, where \(x = 1.5\)."
    assert normalise(text) == "find x^2+frac 1 2 where x=1.5"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (r"Let $x^{2}+1 = 5$.", r"let \(x^2 + 1=5\)"),
        (r"\[\left( a+b \right)\,c\]", "(a + b) c"),
        (r"$\dfrac{1}{2}$ of \text{the} \mathrm{apples}", r"\frac{1}{2}of the apples"),
        ("\uff26ind\u00a0a \N{MINUS SIGN} b", "find a-b"),
        ("Straße  10", "STRASSE\n10"),
        (r"$1, 2, \ldots, n$", r"$1,2,\ldots,n$"),
    ],
)
def test_the_same_in_other_words_of_latex(one, other):
    assert normalise(one) == normalise(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1x +2 = 3:", "1x -2 = 3:"),
        ("(2 + 3) * 4", "2 + 3 * 4"),
        ("2^{10}5", "2^{105}"),
        ("2^{10+5}", "2^10+5"),
        ("12 and 3", "1 and 23"),
        ("1.25", "12.5"),
        ("5!", "5"),
        ("a < b", "a ≤ b"),
        (r"\leftarrow", "arrow"),
    ],
)
def test_other_problems_stay_other(one, other):
    assert normalise(one) != normalise(other)


@given(st.text())
def test_normalising_twice_changes_nothing(text):
    normalised = normalise(text)
    assert normalise(normalised) == normalised
    assert normalised == " ".join(normalised.split())


def slowly(training, benchmarks):
    """The same by its definition: every benchmark problem against every row, every n-gram against the row's words."""
    results = {}
    for name, problems in benchmarks.items():
        matches = []
        for problem in problems:
            words = normalise(problem["problem"]).split()
            grams = {tuple(words[i : i + WORDS]) for i in range(len(words) - WORDS + 1)}
            exact, ngram, share = [], [], 0.0
            for row, text in enumerate(training):
                other = normalise(text).split()
                found = sum(any(other[i : i + WORDS] == list(g) for i in range(len(other))) for g in grams)
                exact += [row] if words == other and words else []
                ngram += [row] if found else []
                share = max(share, found / len(grams)) if found else share
            if exact or ngram:
                matches.append({"id": problem["id"], "exact": exact, "ngram": ngram, "share": round(share, 4)})
        results[name] = {
            "problems": len(problems),
            "exact": sum(bool(m["exact"]) for m in matches),
            "ngram": sum(bool(m["ngram"]) for m in matches),
            "most": sum(m["share"] >= 0.5 for m in matches),
            "rows": sorted({row for m in matches for row in m["exact"] + m["ngram"]}),
            "matches": matches,
        }
    return results


def problems(*texts):
    return [{"id": f"p{number}", "problem": text} for number, text in enumerate(texts)]


@given(st.integers(0, 10_000))
def test_the_index_finds_what_a_slow_search_finds(seed):
    draw = random.Random(seed)
    pool = [" ".join(draw.choices(["a", "b"], k=draw.randint(0, 18))) for _ in range(6)]
    texts = [" ".join(draw.choices(pool, k=draw.randint(0, 3))) for _ in range(12)]
    benchmarks = {"one": problems(*texts[:4]), "two": problems(*texts[4:6]), "none": []}
    assert find_overlap(texts[5:], benchmarks) == slowly(texts[5:], benchmarks)


def words(first, count):
    return " ".join(f"w{chr(97 + n)}" for n in range(first, first + count))


def test_what_is_counted_as_what():
    long, short = words(0, 14), words(0, 12)
    training = ["other", f"{words(0, 13)} ending", short.upper(), f"before {short} after", long, long]
    found = find_overlap(training, {"b": problems(long, short, "nothing", "$$")})["b"]
    assert (found["problems"], found["exact"], found["ngram"], found["most"]) == (4, 2, 1, 1)
    assert found["rows"] == [1, 2, 4, 5]
    assert found["matches"] == [
        {"id": "p0", "exact": [4, 5], "ngram": [1, 4, 5], "share": 1.0},
        {"id": "p1", "exact": [2], "ngram": [], "share": 0.0},  # too short for an n-gram
    ]


def test_a_shared_phrase_is_no_copy():
    phrase = words(0, 13)
    found = find_overlap([f"one {phrase}"], {"b": problems(f"{words(13, 10)} {phrase}")})["b"]
    assert (found["exact"], found["ngram"], found["most"]) == (0, 1, 0)
    assert found["matches"][0]["share"] == round(1 / 11, 4)


def test_texts_without_a_word_are_not_the_same():
    assert find_overlap(["$$", "\N{SNOWMAN}"], {"b": problems("$$", "")})["b"]["matches"] == []


def test_ngrams_of_a_text():
    assert ngrams(words(0, 12)) == set()
    assert ngrams(words(0, 14)) == {tuple(words(0, 13).split()), tuple(words(1, 13).split())}


def test_the_time_is_linear():
    """A training set of the paper's size against all benchmarks takes seconds, where every row shares a phrase."""
    draw = random.Random(0)
    vocabulary = [f"{a}{b}" for a in "abcdefghij" for b in "abcdefghij"]
    phrase = " where m and n are relatively prime positive integers find the value of m+n."
    text = [" ".join(draw.choices(vocabulary, k=50)) + phrase for _ in range(20_300)]
    started = time.process_time()
    found = find_overlap(text[:20_000], {"b": problems(*text[19_900:20_200])})["b"]
    assert time.process_time() - started < 20
    assert (found["exact"], found["ngram"], found["most"]) == (100, 300, 100)


def test_the_command_reads_the_problems_out_of_the_prompts(tmp_path, monkeypatch):
    asked = []

    def benchmark_problems(benchmark, data):
        asked.append((benchmark.task, data))
        return problems("What is 1 + 1?", "What is 2 + 2?")

    stub = SimpleNamespace(benchmark_problems=benchmark_problems)
    monkeypatch.setitem(sys.modules, "sagc.evaluation.problems", stub)
    rows = ["Q: what is 1+1\nThink.", [{"role": "user", "content": "Q: What is 3+3?\nThink."}], "What is 2+2"]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps({"prompt": row}) + "\n" for row in rows))
    arguments = [tmp_path / "train.jsonl", "--template", "Q: {problem}\nThink.", "--data", tmp_path / "tiny"]
    arguments += ["--benchmarks", '{"sums": {"task": "t"}}', "--json", tmp_path / "o.json"]
    result = CliRunner().invoke(main, [*map(str, arguments), "--markdown", str(tmp_path / "o.md")])
    assert result.exit_code == 0, result.output
    assert asked == [("t", tmp_path / "tiny")]
    report = json.loads((tmp_path / "o.json").read_text())
    assert (report["file"], report["prompts"], report["words"]) == (str(tmp_path / "train.jsonl"), 3, 13)
    assert report["benchmarks"]["sums"]["rows"] == [0, 2]
    assert "| sums | 2 | 2 | 0 | 0 | 2 |\n" in (tmp_path / "o.md").read_text()


def test_a_mistake_is_one_sentence(tmp_path):
    options = ["--data", ".", "--json", str(tmp_path / "o"), "--markdown", str(tmp_path / "m"), "--benchmarks", "{}"]
    result = CliRunner().invoke(main, [str(tmp_path / "none.jsonl"), *options])
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1].endswith("none.jsonl cannot be read: No such file or directory")


def test_the_report_says_that_nothing_is_removed():
    text = to_markdown(find_overlap(["a"], {"b": problems("a"), "c": problems("d", "e")}), 1)
    assert "# Overlap of the 1 training prompts with the benchmarks" in text
    assert "| b | 1 | 1 | 0 | 0 | 1 |\n| c | 2 | 0 | 0 | 0 | 0 |\n" in text
    assert "Overlap is reported, and nothing is removed from training" in text
