"""The table of responses and reference answers: the checker's verdict is the right one in every row."""

import pytest
from answer_pairs import APPROXIMATE, LIMITS, NUMBERS, OTHERS, RIGHT, exact

from sagc.rewards.math_answers import check

ROWS = {kind: [row[:3] for row in rows] for kind, rows in (NUMBERS | OTHERS).items()}


def equal(value, reference, within):
    value, reference = (
        exact.mpf(getattr(x, "numerator", x)) / getattr(x, "denominator", 1) for x in (value, reference)
    )
    return abs(value - reference) <= within * abs(reference)


@pytest.mark.parametrize("kind", NUMBERS)
def test_the_verdicts_follow_from_the_values(kind):
    within = exact.mpf("1.01e-6") if kind in APPROXIMATE else exact.mpf("1e-50")
    assert [row for row in NUMBERS[kind] if row[0] != equal(*row[3:], within)] == []


@pytest.mark.parametrize("kind", ROWS)
def test_the_verdict_is_right(kind):
    assert [row for row in ROWS[kind] if check(*row[1:]).correct != row[0]] == []


@pytest.mark.parametrize("kind", LIMITS)
def test_what_math_verify_cannot_say_is_known(kind):
    assert [row for row in LIMITS[kind] if check(*row[1:]).correct == row[0]] == []


def test_there_are_enough_rows_of_both_verdicts():
    rows = [row for rows in ROWS.values() for row in rows]
    wrong = [row for row in rows if row[0] is not RIGHT]
    assert len(rows) >= 600 and len(wrong) >= len(rows) / 3
    assert len({row[1:] for row in rows}) == len(rows)
