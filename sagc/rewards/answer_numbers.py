"""Numbers of parsed answers as exact fractions, so that math-verify compares small ones as well as others.

math-verify rounds decimals to six places and takes other numbers for equal that differ by less than 1e-15, whatever
their size. Here numbers are put into a form in which it has nothing to round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import floor, log10
from typing import Any

from sympy import Basic, Expr, Float, MatrixBase, Rational, UnevaluatedExpr
from sympy.core.relational import Relational

PLACES = 6  # of decimals that count, as in math-verify, and the least significant digits
MOST_DIGITS = 12  # significant ones that count
PERCENT = UnevaluatedExpr(Rational(1, 100))


def exact(expression: Any) -> Any:
    """The same with its decimals as the fractions that they are, and its fractions and whole powers worked out."""
    return _changed(expression, _exact)


def rounded(expression: Any) -> Any:
    """The same with its numbers rounded, where they are not whole: to six places, small ones to six digits."""
    return _changed(expression, _rounded)


def has(expression: Any, kind: type) -> bool:
    """Whether there is something of a kind in it."""
    return isinstance(expression, Basic | MatrixBase) and expression.has(kind)


def precision(sides: list[list]) -> int:
    """Digits at which no number of these is taken for zero: 15 significant ones of the smallest."""
    numbers = [number for side in sides for expression in side for number in _numbers(expression)]
    return 15 + max([0, *(-_exponent(number) for number in numbers if not number.is_Rational)])


def _numbers(expression: Any) -> Iterator[Expr]:
    found: list[Expr] = []
    _changed(expression, lambda number: found.append(number) or number)
    return iter(found)


def _changed(expression: Any, change: Callable[[Expr], Expr]) -> Any:
    """The same, with `change` applied to its largest parts that are numbers."""
    if isinstance(expression, MatrixBase):
        return expression.applyfunc(lambda entry: _changed(entry, change))
    if not isinstance(expression, Basic):
        return expression
    if isinstance(expression, Expr) and expression.is_number:
        return change(expression)
    parts = getattr(expression, "_unsorted_args", expression.args)  # latex2sympy's sets know their order
    new = [_changed(part, change) for part in parts]
    if all(one is other for one, other in zip(parts, new, strict=True)):
        return expression
    return expression.func(*new, **({"evaluate": False} if isinstance(expression, Relational) else {}))


def _exact(number: Expr) -> Expr:
    if number.is_Mul and len(number.args) == 2 and number.args[1] == PERCENT and number.args[0].is_Integer:
        return number  # math-verify lets 50% be 50
    number = number.xreplace({decimal: Rational(str(decimal)) for decimal in number.atoms(Float)})
    value = number.doit() if all(atom.is_Rational for atom in number.atoms()) else number
    return value if value.is_Rational else number


def _rounded(number: Expr) -> Expr:
    value = number if number.is_Rational else number.evalf(2 * MOST_DIGITS)
    if not value.is_real or value.is_Integer or not value:
        return number
    size = _exponent(value)
    unit = Rational(10) ** -min(max(PLACES, PLACES - 1 - size), MOST_DIGITS - 1 - size)
    return floor(Rational(value) / unit + Rational(1, 2)) * unit


def _exponent(number: Expr) -> int:
    """That of its first digit: 2 for 123. 0 for 0 and for what is not finite."""
    value = abs(number.evalf(5))
    if not value.is_Float or not value:
        return 0
    mantissa, exponent = value._mpf_[1:3]
    return floor(log10(mantissa) + exponent * log10(2))
