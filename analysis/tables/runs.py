"""The table over all runs: summary.csv with every column, summary.md to read.

    python -m analysis.tables.runs --csv results/summary.csv --markdown results/summary.md RUN/summary.json ...

The runs are given one by one, so that runs of another config in the same folder are not mixed in.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import pandas as pd

from analysis.cells import CELL, REFERENCE, SECTION, natural_order
from analysis.results.steps import MARK, UPPER_BOUND, slots_are_bound
from analysis.results.summary import LAST_STEPS
from analysis.tables.clocks import uneven_clocks
from analysis.tables.table import MISSING, Column, decimals, legend, markdown_table, number, percent, spread, with_notes
from sagc.errors import UserError
from sagc.system.command import Command
from sagc.system.files import write_atomically

RATIOS = {"wall_vs_static16": "wall_s", "rollout_vs_static16": "rollout_s", "tokens_vs_static16": "tokens"}


def collect(results: str | Path) -> pd.DataFrame:
    """The runs of every summary.json below a folder; raises UserError as `read_summaries` does."""
    return read_summaries(sorted(Path(results).rglob("summary.json")))


def read_summaries(paths: Iterable[str | Path]) -> pd.DataFrame:
    """One row per summary.json, in natural order: by model, algorithm, stack, group and seed.

    Raises UserError for no file at all, a file that is not a run's summary, and two files of the same cell.
    """
    found: dict[tuple, Path] = {}
    rows = []
    for path in map(Path, paths):
        row = _read_summary(path)
        cell = tuple(row[name] for name in CELL)
        if cell in found:
            raise UserError(f"{found[cell]} and {path} are both of {'/'.join(map(str, cell))}; give one of them")
        found[cell] = path
        rows.append(row)
    if not rows:
        raise UserError("no summary.json to make a table of; summarize a run first")
    return pd.DataFrame(sorted(rows, key=natural_order)).astype({"processor_s": float})


def add_ratios(frame: pd.DataFrame) -> pd.DataFrame:
    """The table with wall time, rollout time and tokens relative to static 16: same model, algorithm, stack and seed.

    Where there is no such run the ratios are NaN.
    """
    pairing = [*SECTION, "seed"]
    reference = frame[frame["group"] == REFERENCE].set_index(pairing)
    own = pd.MultiIndex.from_frame(frame[pairing])
    ratios = {name: frame[of].to_numpy() / reference[of].reindex(own).to_numpy() for name, of in RATIOS.items()}
    return frame.assign(**ratios)


def write_tables(frame: pd.DataFrame, csv: str | Path, markdown: str | Path) -> None:
    """Write the table with its ratios as CSV (all columns) and as Markdown (see `to_markdown`), each whole or not."""
    write_atomically(Path(csv), frame.to_csv(index=False))
    write_atomically(Path(markdown), to_markdown(frame))


def to_markdown(frame: pd.DataFrame) -> str:
    """One section per model, algorithm and stack, one line per run, and a legend with the unit of every column."""
    columns = _columns(frame)
    parts = ["# Runs\n", _what_is_here(frame)]
    for (model, algorithm, stack), rows in frame.groupby(SECTION, sort=False):
        parts.append(f"## {model}, {algorithm}, {stack}\n")
        parts.append(markdown_table(rows, columns))
    parts.append(legend(columns))
    if idle_marked(frame).any():
        parts.append(f"{UPPER_BOUND}\n")
    parts.append(
        f"{MISSING} stands for what a run does not have: a ratio without a static {REFERENCE} of the same model, "
        "algorithm, stack and seed, or a benchmark that it was not evaluated on.\n"
    )
    return with_notes("\n".join(parts), uneven_clocks(frame).values())


# Columns of the Markdown table ---------------------------------------------------------------------------------------


def _columns(frame: pd.DataFrame) -> list[Column]:
    return [
        Column("group", "static group size G, or the controller that chooses it", lambda r: r["group"]),
        Column("seed", "seed of the run", lambda r: str(r["seed"])),
        Column("steps", "rollouts", lambda r: str(r["steps"])),
        Column("stragglers %", "groups generated whose max / median length exceeds tau", percent("straggler_rate")),
        Column("idle %", "decode slots that waited for the longest response of their round", idle_percent),
        Column("mean G", "group size, mean over steps", decimals("mean_group_size", 1)),
        Column("moves", "changes of the group size per step", decimals("moves_per_step", 2)),
        Column("tokens, k", "thousands of tokens generated in training", decimals("tokens", 0, scale=1e-3)),
        Column("wall, s", "seconds of all training steps, checkpoints excluded", decimals("wall_s", 0)),
        Column("rollout, s", "of which generating and scoring responses", decimals("rollout_s", 0)),
        Column("train, s", "of which updating the weights", decimals("train_s", 0)),
        Column(
            "processor, s",
            "that the run's own processes computed in these steps, whatever else the machine did",
            decimals("processor_s", 0),
        ),
        Column("wall / 16", f"wall relative to static {REFERENCE} of the same seed", decimals("wall_vs_static16", 2)),
        Column("tokens / 16", f"tokens relative to the same static {REFERENCE}", decimals("tokens_vs_static16", 2)),
        Column("reward", f"mean training reward of the last {LAST_STEPS} steps", decimals("reward", 3)),
        Column("cut off %", "training responses that the length limit ended", percent("cut_off_rate")),
        *(column for name in benchmarks(frame) for column in _benchmark_columns(name)),
    ]


def idle_percent(row: dict[str, Any]) -> str:
    """The idle fraction of a run in percent, marked where it is an upper bound."""
    mark = MARK if slots_are_bound(row["stack"], row["filtered_share"]) else ""
    return percent("idle_fraction")(row) + mark


def idle_marked(frame: pd.DataFrame) -> pd.Series:
    """Of runs or of arms: whether the idle fraction is an upper bound, which is then to be said."""
    marked = map(slots_are_bound, frame["stack"], frame["filtered_share"])
    return pd.Series(list(marked), index=frame.index, dtype=bool)


def _benchmark_columns(name: str) -> list[Column]:
    def accuracy(row: dict[str, Any]) -> str:
        value, error = row[f"accuracy_{name}"], row[f"accuracy_{name}_se"]
        return number(value, 3) + ("" if pd.isna(error) else f" ± {error:.3f}")

    return [
        Column(name, f"accuracy on {name} (avg@k, 0 to 1) ± its standard error over the problems", accuracy),
        Column(f"{name}, tokens", f"mean response length on {name} in tokens", decimals(f"output_tokens_{name}", 1)),
    ]


def benchmarks(frame: pd.DataFrame) -> list[str]:
    """The benchmarks that the table has columns for."""
    return [name.removeprefix("output_tokens_") for name in frame.columns if name.startswith("output_tokens_")]


def _what_is_here(frame: pd.DataFrame) -> str:
    """How many runs there are, and what cannot be said from them."""
    seeds = frame.groupby([*SECTION, "group"], sort=False).size()
    number = f"{len(frame)} run{'s' if len(frame) > 1 else ''}, a line each; all columns are in summary.csv."
    if seeds.max() == 1:
        limits = (
            "There is one seed of everything, so no interval over seeds can be given: ± is over a benchmark's problems "
            "and does not say how another seed would have come out."
        )
    else:
        limits = f"There are {spread(seeds)} seeds of each; ± is over a benchmark's problems, not over seeds."
    return f"{number} {limits}\n"


def _read_summary(path: Path) -> dict[str, Any]:
    try:
        row = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"summary {path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise UserError(f"{path} is not valid JSON; summarize the run again") from None
    missing = [name for name in (*CELL, *RATIOS.values()) if name not in row]
    if missing:
        raise UserError(f"{path} is not a run's summary: it lacks {', '.join(missing)}")
    return {"processor_s": None, **row}  # a summary of an older version has none


@click.command(cls=Command)
@click.option("--csv", type=click.Path(path_type=Path), required=True, help="Table with every column.")
@click.option("--markdown", type=click.Path(path_type=Path), required=True, help="Table to read.")
@click.argument("summaries", nargs=-1, required=True, type=click.Path(path_type=Path))
def main(csv: Path, markdown: Path, summaries: tuple[Path, ...]) -> None:
    """Write the table over the runs of these summary.json files."""
    write_tables(add_ratios(read_summaries(summaries)), csv, markdown)


if __name__ == "__main__":
    main()
