"""The table over all runs, with each run's cost relative to static 16."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.cells import REFERENCE, SECTION
from analysis.results.steps import UPPER_BOUND, UPPER_BOUND_MARK, slots_are_bound
from analysis.results.summary import LAST_STEPS
from analysis.tables.clocks import uneven_clocks
from analysis.tables.table import MISSING, Column, Table, by_seeds, decimals, group_column, number, percent

RATIOS = {"wall_vs_static16": "wall_s", "rollout_vs_static16": "rollout_s", "tokens_vs_static16": "tokens"}


def add_ratios(frame: pd.DataFrame) -> pd.DataFrame:
    """The table with wall time, rollout time and tokens relative to static 16: same model, algorithm, stack and seed.

    The ratios are NaN if there is no such run.
    """
    pairing = [*SECTION, "seed"]
    reference = frame[frame["group"] == REFERENCE].set_index(pairing)
    own = pd.MultiIndex.from_frame(frame[pairing])
    ratios = {name: frame[of].to_numpy() / reference[of].reindex(own).to_numpy() for name, of in RATIOS.items()}
    return frame.assign(**ratios)


def runs_table(frame: pd.DataFrame) -> Table:
    """The table with its ratios (see `add_ratios`), one line per run."""
    seeds = frame.groupby([*SECTION, "group"], sort=False).size()
    number = f"{len(frame)} run{'s' if len(frame) > 1 else ''}, one per line; all columns are in summary.csv."
    missing = (
        f"{MISSING} marks a missing value: a ratio without a static {REFERENCE} of the same model, algorithm, stack "
        "and seed, or a benchmark that the run was not evaluated on."
    )
    return Table(
        _columns(frame),
        frame,
        title="Runs",
        notes=[*uneven_clocks(frame).values(), f"{number} {by_seeds(seeds, ONE_SEED, SEVERAL_SEEDS)}"],
        by_section=True,
        closing=[*idle_note(frame), missing],
    )


ONE_SEED = (
    "Each arm has one seed, so no interval over seeds can be given: ± is over a benchmark's problems and says nothing "
    "about how another seed would have come out."
)
SEVERAL_SEEDS = "Each arm has {seeds} seeds; ± is over a benchmark's problems, not over seeds."


# Columns of the Markdown table ---------------------------------------------------------------------------------------


def _columns(frame: pd.DataFrame) -> list[Column]:
    return [
        group_column(),
        Column("seed", "seed of the run", lambda r: str(r["seed"])),
        Column("steps", "rollouts", lambda r: str(r["steps"])),
        Column("stragglers %", "groups generated whose max / median length exceeds tau", percent("straggler_rate")),
        Column("idle %", "decode slots that waited for the longest response of their round", idle_percent),
        Column("mean G", "group size, mean over steps", decimals("mean_group_size", 1)),
        Column("moves", "changes of the group size per step", decimals("moves_per_step", 2)),
        Column("tokens, k", "thousands of tokens generated in training", decimals("tokens", 0, scale=1e-3)),
        Column("wall, s", "seconds of all training steps, checkpoints excluded", decimals("wall_s", 0)),
        Column("rollout, s", "the part spent generating and scoring responses", decimals("rollout_s", 0)),
        Column("train, s", "the part spent updating the weights", decimals("train_s", 0)),
        Column(
            "processor, s",
            "used by the run's own processes in these steps, regardless of other work on the machine",
            decimals("processor_s", 0),
        ),
        Column("wall / 16", f"wall relative to static {REFERENCE} of the same seed", decimals("wall_vs_static16", 2)),
        Column("tokens / 16", f"tokens relative to the same static {REFERENCE}", decimals("tokens_vs_static16", 2)),
        Column("reward", f"mean training reward of the last {LAST_STEPS} steps", decimals("reward", 3)),
        Column("cut off %", "training responses cut off by the length limit", percent("cut_off_rate")),
        *(column for name in benchmarks(frame) for column in _benchmark_columns(name)),
    ]


def idle_percent(row: dict[str, Any]) -> str:
    """The idle fraction of a run in percent, marked if it is an upper bound."""
    mark = UPPER_BOUND_MARK if slots_are_bound(row["stack"], row["filtered_share"]) else ""
    return percent("idle_fraction")(row) + mark


def idle_note(frame: pd.DataFrame) -> list[str]:
    """What the mark on an idle fraction means, if one of these runs or arms has it."""
    return [UPPER_BOUND] if any(map(slots_are_bound, frame["stack"], frame["filtered_share"])) else []


def _benchmark_columns(name: str) -> list[Column]:
    def accuracy(row: dict[str, Any]) -> str:
        value, error = row[f"accuracy_{name}"], row[f"accuracy_{name}_se"]
        return number(value, 3) + ("" if pd.isna(error) else f" ± {error:.3f}")

    return [
        Column(name, f"accuracy on {name} (avg@k, 0 to 1) ± its standard error over the problems", accuracy),
        Column(f"{name}, tokens", f"mean response length on {name} in tokens", decimals(f"output_tokens_{name}", 1)),
    ]


def benchmarks(frame: pd.DataFrame) -> list[str]:
    """Names of the benchmarks that the table has columns for."""
    return [name.removeprefix("output_tokens_") for name in frame.columns if name.startswith("output_tokens_")]
