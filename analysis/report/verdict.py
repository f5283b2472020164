"""The verdict of a report: what control saved, at what quality, and whether a static size does as well."""

from __future__ import annotations

import pandas as pd

from analysis.cells import REFERENCE, SECTION
from analysis.tables.rivals import NO_WORSE
from analysis.tables.table import spread

NO_RUNS = "There is no verdict yet: no run is done."
NO_REFERENCE = f"There is no verdict: no controlled arm has a static {REFERENCE} to be compared with."


def verdict(arms: pd.DataFrame, quality: str, rivals: pd.DataFrame, clocks: str) -> str:
    """Three sentences over all models, algorithms and stacks: on time, quality, and static sizes as rivals.

    A fourth says which hours cannot be compared, if any.

    Parameters
    ----------
    arms : DataFrame
        One row per arm (see `analysis.tables.arms.summarize_arms`).
    quality : str
        The benchmark to judge by, or "reward".
    rivals : DataFrame
        Controlled arms against static ones (see `analysis.tables.rivals.compare_with_static`).
    clocks : str
        Which hours cannot be compared (see `analysis.tables.clocks.clock_verdict`); may be empty.

    Returns
    -------
    str
        The verdict, or why there is none.
    """
    if arms.empty:
        return NO_RUNS
    controlled = arms[~arms["group"].str.isdigit() & arms["wall_s_vs_static16"].notna()]
    if controlled.empty:
        return NO_REFERENCE
    groups = [(name, rows) for name, rows in controlled.groupby("group")]
    cost = ", and ".join(_cost(name, rows, arms) for name, rows in groups)
    column = quality if quality == "reward" else f"accuracy_{quality}"
    gained = ", and ".join(f"{_gain(rows[f'{column}_vs_static16'].dropna())} with {name}" for name, rows in groups)
    named = "Training reward" if quality == "reward" else f"Accuracy on {quality}"
    own = rivals[(rivals["quality"] == quality) & rivals["group"].isin(controlled["group"])]
    return (
        f"{cost}{_over(controlled)}. {named} differs from static {REFERENCE}'s by {gained}{_limits(controlled)}. "
        f"{_rivals(own)} {clocks}"
    ).rstrip()


def _cost(name: str, rows: pd.DataFrame, arms: pd.DataFrame) -> str:
    ratios = rows["wall_s_vs_static16"]
    static = arms[arms["group"] == REFERENCE].set_index(SECTION).loc[pd.MultiIndex.from_frame(rows[SECTION])]
    return (
        f"{name} takes {ratios.mean():.2f} of static {REFERENCE}'s training time{_between(ratios, '.2f')} with "
        f"stragglers in {100 * rows['straggler_rate'].mean():.0f} % of the groups instead of "
        f"{100 * static['straggler_rate'].mean():.0f} %"
    )


def _gain(differences: pd.Series) -> str:
    if differences.empty:
        return "an unknown amount"
    return f"{differences.mean():+.3f}{_between(differences, '+.3f')}"


def _rivals(rivals: pd.DataFrame) -> str:
    """A sentence on how often each static size is as good in no more time, by intervals if there are any."""
    if rivals.empty:
        return "There is no static size to compare with."
    several = rivals[rivals["difference_n"] > 1]
    if several.empty:
        judged, how = rivals, "By single runs, with one seed"
    else:
        judged, how = (
            several,
            f"By 95 % intervals over {spread(several['difference_n'])} seeds, with a margin of {NO_WORSE:g}",
        )
    return f"{how}, {'; '.join(_as_good(name, rows) for name, rows in judged.groupby('group'))}."


def _as_good(name: str, rows: pd.DataFrame) -> str:
    sizes = [(static, own["as_good"].astype(bool)) for static, own in rows.groupby("static", sort=False)]
    won = [(f"static {static}", f"in {good.sum()} of {len(good)}") for static, good in sizes if good.any()]
    if not won:
        return f"no static size is as good as {name} in no more time in any of {rows.groupby(SECTION).ngroups} cases"
    (first, cases), *others = won
    return ", ".join(
        [f"{first} is as good as {name} in no more time {cases} cases", *(" ".join(other) for other in others)]
    )


def _between(values: pd.Series, form: str) -> str:
    """The range, over several models, algorithms and stacks."""
    return "" if len(values) == 1 else f" ({values.min():{form}} to {values.max():{form}})"


def _over(rows: pd.DataFrame) -> str:
    cases = rows.groupby(SECTION).ngroups
    return "" if cases == 1 else f", as the mean over {cases} combinations of model, algorithm and stack"


def _limits(rows: pd.DataFrame) -> str:
    ends = rows["wall_s_vs_static16_high"].dropna()
    if ends.empty:
        return "; with one seed per arm no interval can be given"
    return f"; the 95 % interval of the time is below static {REFERENCE}'s in {(ends < 1).sum()} of {len(ends)} cases"
