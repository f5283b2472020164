"""Where the time went: the time an arm's training saved against a static arm's, split into parts that add up to it.

The time of the rollouts is a product: responses asked for x (generated / asked for) x (tokens / response) x (decode
slots / token) x (seconds / slot). The factors are the size of the groups, the amount of resampling, the length of the
responses, the waits at the barriers, and the speed of decoding. A difference of two products is split with the
logarithmic mean Divisia index (LMDI-I), which is exact, leaves no residual and is symmetric: factor x gets the part
L(R1, R0) ln(x1 / x0), where L is the logarithmic mean [B. W. Ang, "The LMDI approach to decomposition analysis: a
practical guide", Energy Policy 33 (2005) 867-871]. Training, weight sync and the rest are differences.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from analysis.cells import REFERENCE, SECTION
from analysis.results.arms import Arms, Section, arms_by_cell
from analysis.results.runs import RunResults
from analysis.results.steps import UPPER_BOUND, UPPER_BOUND_MARK, slots_are_bound
from analysis.tables.arms import BEST_STATIC, summarize_arms
from analysis.tables.table import MISSING, Column, Row, Table, by_seeds, decimals, group_column, spread

PARTS = {  # part -> its name when it saves time, and when it costs time
    "groups": ("smaller groups", "larger groups"),
    "resampling": ("less resampling", "more resampling"),
    "length": ("shorter responses", "longer responses"),
    "waits": ("shorter waits at the barriers", "longer waits at the barriers"),
    "speed": ("faster decoding per slot", "slower decoding per slot"),
    "train": ("less training time", "more training time"),
    "sync": ("faster weight sync", "slower weight sync"),
    "other": ("less of everything else", "more of everything else"),
}
MIN_REPORTED_SHARE = 0.0005  # of the reference's time; less would be printed as 0.0 %
COLUMNS = [
    *(*SECTION, "group", "reference", "best", "seeds", "steps", "reference_s", "saved_s", "saved_share", "slots_bound"),
    *(f"{part}_{unit}" for part in PARTS for unit in ("s", "share")),
]
NOTHING_TO_COMPARE = "There is nothing to compare: no static arm has another arm to compare it with."


def savings(runs: Sequence[RunResults]) -> pd.DataFrame:
    """Every arm against static 16, and against the best static arm if that is another one.

    Two runs of a seed are compared over the steps that both have done, starting with the first. The parts are sums over
    common seeds.

    Parameters
    ----------
    runs : sequence of RunResults
        In natural order, as from `analysis.results.runs.load_results`, including unfinished ones.

    Returns
    -------
    DataFrame
        model, algorithm, stack, group : the arm.
        reference : the static size it is compared with.
        best : whether that is the best static arm (see `analysis.tables.arms.summarize_arms`).
        seeds : number of seeds of which both arms have at least one step; if 0, the rest of the row is NaN.
        steps : the fewest steps that a pair was compared over.
        reference_s : seconds of the reference's steps, sum over the pairs.
        saved_s, P_s : seconds saved, in total and by each part P of PARTS (see `split`); negative if the arm took
        longer.
        saved_share, P_share : the same relative to reference_s.
        slots_bound : whether the slots of one of the two are an upper bound (see
        `analysis.results.steps.slots_are_bound`); then only the sum of waits and speed is exact, not each of them.
    """
    best = _best_static(runs)
    rows = []
    for section, arms in arms_by_cell(runs).items():
        for reference in dict.fromkeys((REFERENCE, best.get(section))):
            if reference in arms:
                others = [group for group in arms if group != reference]
                rows += [_row(section, arms, group, reference, reference == best.get(section)) for group in others]
    return pd.DataFrame(rows, columns=COLUMNS)


def split(own: pd.DataFrame, reference: pd.DataFrame) -> dict[str, float]:
    """The seconds that one run saved against another, by part.

    Parameters
    ----------
    own, reference : DataFrame
        The steps of the two runs, equally many and at least one (see `analysis.results.steps.Steps`).

    Returns
    -------
    dict
        The parts of PARTS in seconds. They add up to the difference of the sums of step_s.
    """
    new, old = _factors(own), _factors(reference)
    rollout = [float(steps["rollout_s"].sum()) for steps in (own, reference)]
    if min(new["speed"], old["speed"]) > 0:
        weight = logarithmic_mean(*rollout)
        parts = {name: weight * math.log(old[name] / new[name]) for name in new}
    else:  # the limit: seconds per slot goes to 0, and its logarithm outgrows every other
        parts = dict.fromkeys(new, 0.0) | {"speed": rollout[1] - rollout[0]}
    parts |= {name: float(reference[f"{name}_s"].sum() - own[f"{name}_s"].sum()) for name in ("train", "sync")}
    return parts | {"other": _other(reference) - _other(own)}


def logarithmic_mean(one: float, other: float) -> float:
    """(a - b) / ln(a / b) of two positive numbers, which lies between them; a if they are equal."""
    low, high = sorted((one, other))
    if low == high:
        return low
    close = high < 2 * low  # a quotient near 1 would be rounded before its logarithm is taken
    logarithm = math.log1p((high - low) / low) if close else math.log(high) - math.log(low)
    return (high - low) / logarithm


def _factors(steps: pd.DataFrame) -> dict[str, float]:
    """The factors of the rollout time, named by their parts."""
    responses, tokens, slots = (float(steps[name].sum()) for name in ("responses", "tokens", "slots"))
    asked = float((steps["prompts"] * steps["group_size"]).sum())
    return {
        "groups": asked,
        "resampling": responses / asked,
        "length": tokens / responses,
        "waits": slots / tokens,
        "speed": float(steps["rollout_s"].sum()) / slots,
    }


def _other(steps: pd.DataFrame) -> float:
    return float((steps["step_s"] - steps["rollout_s"] - steps["train_s"] - steps["sync_s"]).sum())


def _best_static(runs: Sequence[RunResults]) -> dict[Section, str | None]:
    done = pd.DataFrame([run.summary for run in runs if run.summary is not None])
    if done.empty:
        return {}
    return {section: arms[BEST_STATIC].iloc[0] for section, arms in summarize_arms(done).groupby(SECTION, sort=False)}


def _row(section: Section, arms: Arms, group: str, reference: str, best: bool) -> Row:
    pairs = []
    for seed in arms[group].keys() & arms[reference].keys():
        own, other = arms[group][seed].steps, arms[reference][seed].steps
        if common := min(len(own), len(other)):
            pairs.append((own.head(common), other.head(common)))
    row = dict(zip(SECTION, section, strict=True)) | {"group": group, "reference": reference, "best": best}
    row |= {"seeds": len(pairs), "steps": min((len(own) for own, _ in pairs), default=0)}
    filtered = sum(steps["filtered_groups"].sum() for pair in pairs for steps in pair)
    row["slots_bound"] = slots_are_bound(row["stack"], filtered)
    if not pairs:
        return row
    total = sum(other["step_s"].sum() for _, other in pairs)
    parts = pd.DataFrame([split(*pair) for pair in pairs]).sum().to_dict()
    saved = {"saved": total - sum(own["step_s"].sum() for own, _ in pairs), **parts}
    row |= {"reference_s": total, **{f"{name}_s": seconds for name, seconds in saved.items()}}
    return row | {f"{name}_share": seconds / total if total else np.nan for name, seconds in saved.items()}


# Tables --------------------------------------------------------------------------------------------------------------


def savings_table(frame: pd.DataFrame, clocks: Iterable[str] = ()) -> Table:
    """The comparisons, one per line, with the largest parts in words; `clocks` are the sentences of `uneven_clocks`."""
    if frame.empty:
        return Table(SAVINGS_COLUMNS, frame, title=TITLE, notes=[*clocks, NOTHING_TO_COMPARE], by_section=True, names=2)
    unpaired = [] if frame["seeds"].all() else [f"{MISSING} marks two arms with no steps of a common seed."]
    return Table(
        SAVINGS_COLUMNS,
        frame,
        title=TITLE,
        notes=[*clocks, _compared(frame)],
        by_section=True,
        section_notes=lambda rows: [
            in_words(row) for row in rows.to_dict(orient="records") if not row["group"].isdigit()
        ],
        key=slots_note(frame),
        closing=[METHOD_NOTE, *unpaired],
        latex_notes=slots_note(frame),
        names=2,
    )


TITLE = "Where the time went"
METHOD_NOTE = (
    "A part is in seconds and, in brackets, in percent of the reference's time; it is negative if it cost time. The "
    "parts add up to the time saved. Groups, resampling, length, waits and speed are the factors of the rollout time; "
    "its change is split among them with the logarithmic mean Divisia index (LMDI-I; Ang, Energy Policy 33, 2005, "
    "867-871)."
)


def slots_note(frame: pd.DataFrame) -> list[str]:
    """What the marks on waits and speed mean, if there are any."""
    exact = f"{UPPER_BOUND} Only the sum of waits and speed is exact, not each of them."
    return [exact] if frame["slots_bound"].any() else []


def in_words(row: Row) -> str:
    """A sentence on what an arm saved against its reference, and mostly by what."""
    pair = f"{row['group']} against static {row['reference']}"
    if not row["seeds"] or pd.isna(row["saved_share"]):
        return f"{pair}: nothing to compare."
    saved, parts = row["saved_share"], {name: row[f"{name}_share"] for name in PARTS}
    if saved == 0:
        return f"{pair}: no time saved."
    largest, contrary = (pick(parts, key=parts.get) for pick in ((max, min) if saved > 0 else (min, max)))
    text = f"{pair}: {_percent(saved)} % of the time {'saved' if saved > 0 else 'added'}"
    text += f", the largest part by {PARTS[largest][saved < 0]} ({_percent(parts[largest])} %)"
    if parts[contrary] * saved < 0 and abs(parts[contrary]) >= MIN_REPORTED_SHARE:
        verb = "cost" if saved > 0 else "saved"
        text += f"; {PARTS[contrary][saved > 0]} {verb} {_percent(parts[contrary])} %"
    return text + "."


def _percent(share: float) -> str:
    return f"{abs(share) * 100:.1f}"


def _compared(frame: pd.DataFrame) -> str:
    paired = frame[frame["seeds"] > 0]
    if paired.empty:
        return "No two arms have steps of a common seed yet."
    several = by_seeds(paired["seeds"], "one seed", "the total time of {seeds} seeds")
    return (
        f"A comparison is over {several}, for the first {spread(paired['steps'])} steps, which both runs of a seed "
        "have done; unfinished training is compared as far as it has come."
    )


def _part(title: str, meaning: str, name: str) -> Column:
    def text(row: Row) -> str:
        seconds, share = row[f"{name}_s"], row[f"{name}_share"]
        if pd.isna(seconds):
            return MISSING
        mark = UPPER_BOUND_MARK if name in ("waits", "speed") and row["slots_bound"] else ""
        return f"{seconds:+.1f}" + ("" if pd.isna(share) else f" ({share * 100:+.1f})") + mark

    return Column(title, meaning, text)


SAVINGS_COLUMNS = [
    group_column(),
    Column(
        "against",
        "the static size it is compared with; (best) marks the most accurate one",
        lambda row: row["reference"] + (" (best)" if row["best"] else ""),
    ),
    Column("seeds", "number that both arms have", lambda row: str(row["seeds"])),
    Column("steps", "fewest steps that a seed was compared over", lambda row: str(row["steps"])),
    Column("reference, s", "seconds of the static arm's steps", decimals("reference_s", 1)),
    _part("saved", "seconds saved against the static arm", "saved"),
    _part("groups", "by requesting fewer responses: smaller groups for the same number of prompts", "groups"),
    _part("resampling", "by fewer groups that dynamic sampling generates to replace others", "resampling"),
    _part("length", "by fewer tokens per response", "length"),
    _part("waits", "by fewer decode slots per token: shorter waits at the barriers", "waits"),
    _part("speed", "by fewer seconds per slot; small batches use the hardware less well", "speed"),
    _part("training", "by shorter updates of the weights", "train"),
    _part("sync", "by faster transfer of the weights to the generator", "sync"),
    _part("other", "by less time for everything else", "other"),
]
