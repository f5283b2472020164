"""Are outputs shorter after straggler-aware control? Controlled arms against static ones, problem by problem.

Both arms answered the same problems of a benchmark, so the comparison is paired: taking a difference per problem
cancels how much the problems differ from each other. Lengths in training are in summary.csv.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.cells import SECTION
from analysis.results.arms import Arms
from analysis.results.runs import RunResults
from analysis.statistics import ratio_of_means
from analysis.tables.table import MISSING, Column, Table, by_seeds, decimals, percent
from sagc.errors import UserError
from sagc.system.jsonl import read_rows

SAMPLING_KEYS = ("max_response_tokens", "temperature", "top_p")  # settings of the evaluation that affect lengths
COLUMNS = [
    *(*SECTION, "benchmark", "controlled", "static", "seeds", "problems"),
    *("tokens_controlled", "tokens_static", "difference", "relative", "relative_low", "relative_high"),
    *("cut_off_rate_controlled", "cut_off_rate_static"),
]
NOTHING_TO_COMPARE = (
    "There is nothing to compare: no controlled and static run share a model, algorithm, stack, seed and benchmark."
)


def compare_lengths(runs: Iterable[RunResults]) -> pd.DataFrame:
    """Every controlled arm against every static one of the same model, algorithm and stack, on every benchmark.

    Two arms are compared over their common seeds, if there are any. The length for a problem is the mean over its
    responses, and then over these seeds.

    Parameters
    ----------
    runs : iterable of RunResults
        Evaluated runs in natural order, as from `analysis.results.runs.load_results`.

    Returns
    -------
    DataFrame
        model, algorithm, stack, benchmark, controlled, static : the arms compared; no rows if there are none.
        seeds, problems : how many both arms have in common.
        tokens_controlled, tokens_static : output tokens, mean over the problems.
        difference : mean over the problems of controlled - static, in tokens.
        relative : difference / tokens_static.
        relative_low, relative_high : 95 % interval of `relative` over the problems (`ratio_of_means`).
        cut_off_rate_controlled, cut_off_rate_static : share of responses cut off by the length limit.

    Raises
    ------
    UserError
        If samples are missing or malformed, or the runs were evaluated on different problems or with a different length
        limit, temperature or top-p.
    """
    rows = []
    for section, own in itertools.groupby(runs, key=lambda run: run.section):
        arms_of: dict[str, Arms] = {}
        for run in own:
            for benchmark in run.evaluation["benchmarks"]:
                arms_of.setdefault(benchmark, {}).setdefault(run.cell["group"], {})[run.cell["seed"]] = run
        for benchmark, arms in arms_of.items():
            what = {**dict(zip(SECTION, section, strict=True)), "benchmark": benchmark}
            rows += [what | row for row in _compare_arms(arms, benchmark)]
    return pd.DataFrame(rows, columns=COLUMNS)


def lengths_table(frame: pd.DataFrame) -> Table:
    """The comparisons, one per line, or why there are none."""
    if frame.empty:
        return Table(
            LENGTH_COLUMNS, frame, title="Output lengths", notes=[NOTHING_TO_COMPARE], by_section=True, names=3
        )
    alone = f"{MISSING} marks the missing interval over a single problem."
    return Table(
        LENGTH_COLUMNS,
        frame,
        title="Output lengths",
        notes=[
            f"{len(frame)} comparison{'s' if len(frame) > 1 else ''}, one per line; all columns are in "
            "output_lengths.csv. A negative difference means shorter outputs after control. "
            + by_seeds(frame["seeds"], ONE_SEED, SEVERAL_SEEDS)
        ],
        by_section=True,
        closing=[CENSORED_NOTE, *([alone] if frame["relative_low"].isna().any() else [])],
        names=3,
    )


CENSORED_NOTE = (
    "The length of a cut-off response is censored: how long it would have become is unknown. If the cut-off rates of "
    "two arms differ, so does how much is missing from their tokens."
)
ONE_SEED = (
    "Every comparison uses one seed: its interval is over problems only and says nothing about how another seed would "
    "have come out."
)
SEVERAL_SEEDS = (
    "A comparison uses {seeds} seeds, treated as fixed: its interval is over problems only and says nothing about how "
    "other seeds would have come out."
)


# Comparing two arms --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Samples:
    """A run's answers to a benchmark: the mean response length per problem, in the order of the ids."""

    run: RunResults
    ids: list[str]
    tokens: np.ndarray
    cut_off_rate: float


def _compare_arms(arms: Arms, benchmark: str) -> Iterator[dict[str, Any]]:
    """A row for every pair of arms on one benchmark."""
    static = [group for group in arms if group.isdigit()]
    controlled = [group for group in arms if not group.isdigit()]
    if not static or not controlled:
        return
    samples = {group: {seed: _read_samples(run, benchmark) for seed, run in arms[group].items()} for group in arms}
    for one, other in itertools.product(controlled, static):
        if seeds := samples[one].keys() & samples[other].keys():
            pair = [[samples[group][seed] for seed in sorted(seeds)] for group in (one, other)]
            yield {"controlled": one, "static": other, "seeds": len(seeds)} | _compare(*pair, benchmark)


def _compare(controlled: list[Samples], static: list[Samples], benchmark: str) -> dict[str, Any]:
    """The statistics of two arms, each as one sample per seed."""
    first, *others = controlled + static
    for other in others:
        _check_comparable(first, other, benchmark)
    own, reference = (np.mean([samples.tokens for samples in arm], axis=0) for arm in (controlled, static))
    relative = ratio_of_means(own - reference, reference)
    return {
        "problems": len(first.ids),
        "tokens_controlled": own.mean(),
        "tokens_static": reference.mean(),
        "difference": (own - reference).mean(),
        "relative": relative.value,
        "relative_low": relative.low,
        "relative_high": relative.high,
        "cut_off_rate_controlled": np.mean([samples.cut_off_rate for samples in controlled]),
        "cut_off_rate_static": np.mean([samples.cut_off_rate for samples in static]),
    }


def _check_comparable(one: Samples, other: Samples, benchmark: str) -> None:
    names = f"{one.run.folder.path} and {other.run.folder.path}"
    if differing := set(one.ids) ^ set(other.ids):
        raise UserError(
            f"{names} were not asked the same problems of {benchmark}: {min(differing)!r} is in only one of them; "
            "evaluate both on the same problems"
        )
    for key in SAMPLING_KEYS:
        values = [samples.run.evaluation["evaluation"].get(key) for samples in (one, other)]
        if values[0] != values[1]:
            raise UserError(
                f"{names} were evaluated with different values of {key}, {values[0]} and {values[1]}; "
                "evaluate one again"
            )


def _read_samples(run: RunResults, benchmark: str) -> Samples:
    problems, flags = {}, []
    for place, _, row in read_rows(run.folder.evaluation / benchmark / "samples.jsonl", "samples"):
        missing = [name for name in ("id", "output_tokens", "cut_off") if not row.get(name)]
        if missing:
            raise UserError(f"{place}: a problem without {', '.join(missing)}; evaluate the run again")
        if row["id"] in problems:
            raise UserError(f"{place}: the id {row['id']!r} occurs twice; evaluate the run again")
        problems[row["id"]] = np.mean(row["output_tokens"])
        flags += row["cut_off"]
    ids = sorted(problems)
    return Samples(run, ids, np.array([problems[each] for each in ids]), np.mean(flags))


# Columns of the Markdown table ---------------------------------------------------------------------------------------


def _signed(name: str, scale: float = 1.0) -> Callable[[dict[str, Any]], str]:
    return lambda row: f"{row[name] * scale:+.1f}"


def _interval(row: dict[str, Any]) -> str:
    low, high = row["relative_low"], row["relative_high"]
    return MISSING if pd.isna(low) else f"{low * 100:+.1f} to {high * 100:+.1f}"


LENGTH_COLUMNS = [
    Column("benchmark", "the problems, the same for both arms", lambda row: row["benchmark"]),
    Column("controlled", "the arm whose group size a controller chose in training", lambda row: row["controlled"]),
    Column("static", "the static group size G it is compared with", lambda row: row["static"]),
    Column("tokens", "output tokens of the controlled arm, mean over problems", decimals("tokens_controlled", 1)),
    Column("tokens, static", "the same for the static arm", decimals("tokens_static", 1)),
    Column("difference", "controlled - static in tokens, paired by problem, mean over problems", _signed("difference")),
    Column("difference %", "difference relative to tokens, static", _signed("relative", scale=100)),
    Column("95 % interval", "of difference %, a ratio of means: a paired t interval over problems", _interval),
    Column("problems", "number of problems", lambda row: str(row["problems"])),
    Column(
        "seeds", "number that both arms have; a problem's tokens are a mean over them", lambda row: str(row["seeds"])
    ),
    Column(
        "cut off %", "responses of the controlled arm cut off by the length limit", percent("cut_off_rate_controlled")
    ),
    Column("cut off %, static", "the same for the static arm", percent("cut_off_rate_static")),
]
