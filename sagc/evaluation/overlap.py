"""Which benchmark problems occur in the training prompts: as the same problem, or with 13 identical words in a row.

    python -m sagc.evaluation.overlap --benchmarks JSON --data results/data/tiny --json overlap.json --markdown
    overlap.md PROMPTS

Texts are compared after `normalise`. A problem of fewer than 13 words is only compared as a whole. The n-grams of the
benchmarks are indexed, so the time is linear in the length of both. GPT-3 was checked with 13 words, too (Brown et al.
2020, appendix C).
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

WORDS = 13  # length of an n-gram
COPIED_SHARE = 0.5  # a benchmark problem with at least this share of its n-grams in one training problem is a copy
Benchmarks = RootModel[dict[str, BenchmarkConfig]]


def ngrams(normalised: str) -> set[tuple[str, ...]]:
    """The n-grams of a normalised text; empty if the text is shorter."""
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
        exact : number that equal a training problem, normalised.
        ngram : number that share an n-gram with one, including those of `exact` that are long enough.
        most : number that share half or more of their n-grams with a single training problem.
        rows : training rows, counted from 0, that match either way.
        matches : the problems that match either way, each with `id`, the rows that match as `exact` and as `ngram`,
        and `share`, the largest share of its n-grams found in one training row.
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
    """Normalised text -> the targets equal to it, and n-gram -> the targets that contain it."""
    exact, grams = defaultdict(list), defaultdict(list)
    for number, text in enumerate(targets):
        if text:  # two texts without any word are not the same problem
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
    """The table, one line per benchmark, with an explanation; `prompts` is the number of training prompts."""
    lines = [
        f"| {name} | {found['problems']} | {found['exact']} | {found['ngram']} | {found['most']} "
        f"| {len(found['rows'])} |\n"
        for name, found in results.items()
    ]
    return (
        f"# Overlap of the {prompts} training prompts with the benchmarks\n\n"
        f"| benchmark | problems | same problem | {WORDS} words in a row | half or more of them | training rows |\n"
        f"| --- | ---: | ---: | ---: | ---: | ---: |\n{''.join(lines)}\n"
        "Overlap is reported, and nothing is removed from training: Qwen2.5's own training data is known to contain "
        "the older sets, and removing them here could not undo that.\n\n"
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
    "--template", default="{problem}", help="The config's prompt template.  [default: the prompt is the problem]"
)
@click.option("--benchmarks", required=True, metavar="JSON", help="The config's evaluation.benchmarks.")
@click.option("--data", type=click.Path(path_type=Path), required=True, help="Folder of the embedded problems.")
@click.option("--json", "report", type=click.Path(path_type=Path), required=True, help="Everything, as data.")
@click.option("--markdown", type=click.Path(path_type=Path), required=True, help="Table to read.")
def main(prompts: Path, template: str, benchmarks: str, data: Path, report: Path, markdown: Path) -> None:
    """Report which problems of the benchmarks occur in the training PROMPTS."""
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
