"""How well a controller keeps to its budget, measured on simulated steps whose true straggler risk is known [ours].

The rate of a step is a mean over few groups and so mostly noise. The risk is what that rate would be on average: it
depends on nothing but the step's size and lengths, and is counted here from many groups.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from sagc.lengths import GroupLengths, expected_events
from sagc.simulation.lengths import LognormalLengths

WINDOW = 20  # steps of the rolling rate
BURN_IN = 60  # first steps, in which a controller may find its way
AHEAD, CLOSE = 10, 0.1  # recovered: the risk of the next AHEAD steps is on average this close to what it should be
GROUPS, EVERY = 8000, 10  # that a risk is counted from, and steps between two that are counted where lengths drift


def true_risks(lengths: LognormalLengths, steps: int, sizes: list[int], tau: float) -> pd.DataFrame:
    """(steps, sizes) straggler risk of every size at every step, index step from 1.

    Counted over GROUPS groups of the largest size, whose sub-groups all count: a standard error of at most 0.006.
    Every EVERY steps and at the steps of the points, linear in between.
    """
    counted = {*range(0, steps, EVERY), steps - 1, *(step for step, _ in lengths.points if step < steps)}
    risks, known = {}, {}
    for step in sorted(counted):
        shape = lengths.shape(step)
        if shape not in known:
            still = LognormalLengths(((0, shape),), lengths.shortest, lengths.longest)
            groups = GroupLengths.parse(still.sample(0, 0, GROUPS, max(sizes)))
            known[shape] = {size: expected_events(groups, size, tau) / GROUPS for size in sizes}
        risks[step + 1] = known[shape]
    return pd.DataFrame.from_dict(risks, orient="index").reindex(range(1, steps + 1)).interpolate("index")


def attainable(risks: pd.DataFrame, delta: float) -> pd.Series:
    """The rate nearest to delta that some mixture of the sizes has, per step."""
    return pd.Series(np.clip(delta, risks.min(axis=1), risks.max(axis=1)), index=risks.index)


def rolling(values: pd.Series) -> pd.Series:
    """Means over the last WINDOW steps, from the first whole window on."""
    return values.rolling(WINDOW).mean().dropna()


def noise_floor(delta: float, groups: int) -> float:
    """Mean distance of a rolling rate from delta at a size whose risk is delta: what no controller needs to answer for.

    The mean absolute deviation of a normal distribution with the variance of WINDOW x groups draws.
    """
    return math.sqrt(2 / math.pi * delta * (1 - delta) / (WINDOW * groups))


def track(steps: pd.DataFrame, risks: pd.DataFrame, delta: float) -> dict[str, float]:
    """How one run kept to its budget.

    Parameters
    ----------
    steps : DataFrame
        Of one run, as of `sagc.simulation.steps.simulate`.
    risks : DataFrame
        Of its steps, as of `true_risks`; with a column for every size played.
    delta : float
        The budget.

    Returns
    -------
    dict
        distance : mean of |rolling rate - rolling attainable rate|, over windows that end after BURN_IN.
        risk_distance : the same of the risk of the sizes played, without the noise of the rates.
        bias : |mean rate - delta| over the steps after BURN_IN at which delta is attainable; NaN where there are none.
    """
    rate, target = steps.set_index("step")["straggler_rate"], attainable(risks, delta)
    risk = played_risk(steps, risks)
    feasible = (target == delta) & (target.index > BURN_IN)
    late = {name: rolling(values).loc[BURN_IN:] for name, values in (("rate", rate), ("risk", risk), ("aim", target))}
    return {
        "distance": (late["rate"] - late["aim"]).abs().mean(),
        "risk_distance": (late["risk"] - late["aim"]).abs().mean(),
        "bias": abs(rate[feasible].mean() - delta),
    }


def played_risk(steps: pd.DataFrame, risks: pd.DataFrame) -> pd.Series:
    """The risk of the size played, per step."""
    played = risks.columns.get_indexer(steps["group_size"])
    return pd.Series(risks.to_numpy()[np.arange(len(steps)), played], index=risks.index)


def recovery(risk: pd.Series, change: int, aim: float) -> float:
    """Steps from a change until the risk of the sizes played is close to what is aimed at.

    Parameters
    ----------
    risk : Series
        As of `played_risk`.
    change : int
        First step of the new lengths.
    aim : float
        delta, or what is attainable of it.

    Returns
    -------
    float
        Steps before the first whose mean risk with the AHEAD - 1 after it is within CLOSE of it; all that there are
        after the change if there is none, so at least so many.
    """
    ahead = risk.loc[change:].rolling(AHEAD).mean().dropna()
    close = np.flatnonzero((ahead - aim).abs().to_numpy() <= CLOSE)
    return float(close[0] if len(close) else len(risk.loc[change:]))
