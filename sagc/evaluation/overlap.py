"""Which benchmark problems the training prompts hold: the same problem, or 13 words in a row that are the same.

    python -m sagc.evaluation.overlap --benchmarks JSON --data results/data/tiny --json overlap.json --markdown
    overlap.md PROMPTS

`normalise` decides what is the same. A problem of fewer than 13 words is only compared as a whole. The n-grams of the
benchmarks are indexed, so that the time is linear in the length of both; 13 is what GPT-3 was checked with (Brown et
al. 2020, appendix C).
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from pydantic import RootModel

from sagc.config.reading import from_json
from sagc.config.sections import BenchmarkConfig
from sagc.data.normalise import normalise
from sagc.data.prompts import prompt_text, read_prompts
from sagc.system.command import Command
from sagc.system.files import write_atomically

WORDS = 13  # of an n-gram
COPIED_SHARE = 0.5  # share of a benchmark problem's n-grams from which on it is called copied rather than touched
Benchmarks = RootModel[dict[str, BenchmarkConfig]]


def ngrams(normalised: str) -> set[tuple[str, ...]]:
    """The n-grams of a normalised text; none where it is shorter."""
    words = normalised.split()
    return set(zip(*(words[start:] for start in range(WORDS)), strict=False))


def find_overlap(
    training: Iterable[str], benchmarks: Mapping[str, Sequence[Mapping[str, Any]]]
) -> dict[str, dict[str, Any]]:
    """What training problems and benchmarks have in common.

    Parameters
    ----------
    training
        Texts of the training problems, in the order of their rows.
    benchmarks
        Name -> problems, each with the texts `id` and `problem`.

    Returns
    -------
    dict
        Per benchmark:

        problems : number of its problems.
        exact : of those that are, normalised, the same as a training problem.
        ngram : of those that share an n-gram with one; longer ones that are `exact` are among them.
        most : of those of whose n-grams one training problem has half or more.
        rows : training rows, from 0 on, that either holds for.
        matches : the problems that it holds for, each with `id`, rows `exact`, rows `ngram`, and `share`, the largest
        share of its n-grams that one training row has.
    """
    targets = [normalise(problem["problem"]) for problems in benchmarks.values() for problem in problems]
    exact, grams = _index(targets)
    same: list[list[int]] = [[] for _ in targets]
    shared: list[dict[int, int]] = [{} for _ in targets]  # training row -> number of n-grams in common
    for row, text in enumerate(training):
        normalised = normalise(text)
        for target in exact.get(normalised, ()):
            same[target].append(row)
        counts = Counter(target for gram in ngrams(normalised) & grams.keys() for target in grams[gram])
        for target, count in counts.items():
            shared[target][row] = count
    results, first = {}, 0
    for name, problems in benchmarks.items():
        part = slice(first, first + len(problems))
        results[name] = _summary(problems, targets[part], same[part], shared[part])
        first += len(problems)
    return results


def _index(targets: list[str]) -> tuple[dict[str, list[int]], dict[tuple[str, ...], list[int]]]:
    """Normalised text -> the targets that it is, and n-gram -> the targets that have it."""
    exact, grams = defaultdict(list), defaultdict(list)
    for number, text in enumerate(targets):
        if text:  # of two texts without a word nothing is known
            exact[text].append(number)
        for gram in ngrams(text):
            grams[gram].append(number)
    return exact, grams


def _summary(
    problems: Sequence[Mapping[str, Any]], targets: list[str], same: list[list[int]], shared: list[dict[int, int]]
) -> dict[str, Any]:
    matches = []
    for problem, text, exact, counts in zip(problems, targets, same, shared, strict=True):
        if exact or counts:
            share = max(counts.values()) / len(ngrams(text)) if counts else 0.0
            matches.append({"id": problem["id"], "exact": exact, "ngram": sorted(counts), "share": round(share, 4)})
    return {
        "problems": len(problems),
        "exact": sum(bool(match["exact"]) for match in matches),
        "ngram": sum(bool(match["ngram"]) for match in matches),
        "most": sum(match["share"] >= COPIED_SHARE for match in matches),
        "rows": sorted({row for match in matches for row in match["exact"] + match["ngram"]}),
        "matches": matches,
    }


# The report ----------------------------------------------------------------------------------------------------------


def to_markdown(results: Mapping[str, Mapping[str, Any]], prompts: int) -> str:
    """One line per benchmark, and what it means; `prompts` is the number of training prompts."""
    lines = [
        f"| {name} | {found['problems']} | {found['exact']} | {found['ngram']} | {found['most']} "
        f"| {len(found['rows'])} |\n"
        for name, found in results.items()
    ]
    return (
        f"# Overlap of the {prompts} training prompts with the benchmarks\n\n"
        f"| benchmark | problems | same problem | {WORDS} words in a row | half or more of them | training rows |\n"
        f"| --- | ---: | ---: | ---: | ---: | ---: |\n{''.join(lines)}\n"
        "Overlap is reported and nothing is removed from training: Qwen2.5's own training data is known to contain the "
        "older sets, and removal here could not undo that.\n\n"
        "- **same problem**: benchmark problems whose normalised text is that of a training problem.\n"
        f"- **{WORDS} words in a row**: benchmark problems that share at least one {WORDS}-gram with a training "
        "problem; a stock phrase (where m and n are relatively prime positive integers) is enough for that.\n"
        f"- **half or more of them**: of those, problems of whose {WORDS}-grams a single training problem has half or "
        "more: most likely the problem itself, reworded.\n"
        "- **training rows**: training prompts that share either; overlap.json says which, counted from 0 as in a "
        "trace's prompt_index.\n"
    )


@click.command(cls=Command)
@click.argument("prompts", type=click.Path(path_type=Path))
@click.option(
    "--template", default="{problem}", help="What made prompts of the problems.  [default: the prompt is one]"
)
@click.option("--benchmarks", required=True, metavar="JSON", help="The config's evaluation.benchmarks.")
@click.option("--data", type=click.Path(path_type=Path), required=True, help="Folder of the embedded problems.")
@click.option("--json", "report", type=click.Path(path_type=Path), required=True, help="Everything, as data.")
@click.option("--markdown", type=click.Path(path_type=Path), required=True, help="Table to read.")
def main(prompts: Path, template: str, benchmarks: str, data: Path, report: Path, markdown: Path) -> None:
    """Write which problems of the benchmarks the training PROMPTS hold."""
    from sagc.evaluation.problems import benchmark_problems

    before, _, after = template.partition("{problem}")
    chosen = from_json(Benchmarks, benchmarks, "--benchmarks").root
    problems = {name: benchmark_problems(benchmark, data) for name, benchmark in chosen.items()}
    texts = [prompt_text(row["prompt"]) for row in read_prompts(prompts)]
    results = find_overlap([text.removeprefix(before).removesuffix(after) for text in texts], problems)
    content = {"file": str(prompts), "prompts": len(texts), "words": WORDS, "benchmarks": results}
    write_atomically(report, json.dumps(content, indent=2) + "\n")
    write_atomically(markdown, to_markdown(results, len(texts)))


if __name__ == "__main__":
    main()
