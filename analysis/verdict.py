"""The verdict of a report: what control saved, and at what quality, in two sentences with numbers."""

from __future__ import annotations

import pandas as pd

from analysis.tables import REFERENCE, SECTION

NOTHING = "There is no verdict yet: no run is done."
ALONE = f"There is no verdict: no controlled arm has a static {REFERENCE} to be compared with."


def verdict(arms: pd.DataFrame, quality: str, beaten: pd.DataFrame) -> str:
    """Two sentences over all models, algorithms and stacks.

    Parameters
    ----------
    arms : DataFrame
        One row per arm (see `analysis.arms.summarize_arms`).
    quality : str
        The name of the benchmark that is judged by, or "reward".
    beaten : DataFrame
        Static arms that are at least as good in no more time (see `analysis.equal_cost.dominated_by`).

    Returns
    -------
    str
        Where there is nothing to compare, why there is no verdict.
    """
    if arms.empty:
        return NOTHING
    controlled = arms[~arms["group"].str.isdigit() & arms["wall_s_vs_static16"].notna()]
    if controlled.empty:
        return ALONE
    groups = [(name, rows) for name, rows in controlled.groupby("group")]
    cost = ", and ".join(_cost(name, rows, arms) for name, rows in groups)
    column = quality if quality == "reward" else f"accuracy_{quality}"
    gained = ", and ".join(_quality(name, rows, column, quality, beaten) for name, rows in groups)
    named = "Training reward" if quality == "reward" else f"Accuracy on {quality}"
    return f"{cost}{_over(controlled)}. {named} differs from static {REFERENCE}'s by {gained}{_limits(controlled)}."


def _cost(name: str, rows: pd.DataFrame, arms: pd.DataFrame) -> str:
    ratios = rows["wall_s_vs_static16"]
    static = arms[arms["group"] == REFERENCE].set_index(SECTION).loc[pd.MultiIndex.from_frame(rows[SECTION])]
    return (
        f"{name} takes {ratios.mean():.2f} of static {REFERENCE}'s training time{_between(ratios, '.2f')} with "
        f"stragglers in {100 * rows['straggler_rate'].mean():.0f} % of the groups instead of "
        f"{100 * static['straggler_rate'].mean():.0f} %"
    )


def _quality(name: str, rows: pd.DataFrame, column: str, quality: str, beaten: pd.DataFrame) -> str:
    differences = rows[f"{column}_vs_static16"].dropna()
    own = beaten[(beaten["group"] == name) & (beaten["quality"] == quality)]
    lost = own.groupby(SECTION).ngroups if len(own) else 0
    difference = (
        f"{differences.mean():+.3f}{_between(differences, '+.3f')}" if len(differences) else "an unknown amount"
    )
    return f"{difference} with {name} (a smaller static size is as good in no more time in {lost} of {len(rows)} cases)"


def _between(values: pd.Series, form: str) -> str:
    """The range, over several models, algorithms and stacks."""
    return "" if len(values) == 1 else f" ({values.min():{form}} to {values.max():{form}})"


def _over(rows: pd.DataFrame) -> str:
    cases = rows.groupby(SECTION).ngroups
    return "" if cases == 1 else f", as the mean over {cases} combinations of model, algorithm and stack"


def _limits(rows: pd.DataFrame) -> str:
    if rows["seeds"].max() == 1:
        return "; with one seed of every arm no interval can be given"
    sure = int((rows["wall_s_vs_static16_high"] < 1).sum())
    return f"; the 95 % interval over seeds of the time is below static {REFERENCE}'s in {sure} of {len(rows)} cases"
