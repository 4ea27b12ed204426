"""What an expression gives: its value in every row, and the range that follows from declared ranges.

A missing number is NaN, and so is everything computed from one, and a quotient by zero. Moments are
seconds since 1970; only the functions of dates take them.
"""

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from veilflow.tabular.expressions import Expression

Numbers = Float[np.ndarray, " rows"]

_DAY = 86_400
_DATES: dict[str, tuple[Callable[[np.ndarray], np.ndarray], tuple[float, float] | None]] = {
    "year": (lambda x: _calendar(x, "Y") + 1970, None),
    "month": (lambda x: _calendar(x, "M") % 12 + 1, (1, 12)),
    "day": (lambda x: np.floor(x / _DAY) - _first_day(x) + 1, (1, 31)),
    "hour": (lambda x: np.floor(x / 3600) % 24, (0, 23)),
    "minute": (lambda x: np.floor(x / 60) % 60, (0, 59)),
    "weekday": (lambda x: (np.floor(x / _DAY) + 3) % 7, (0, 6)),
    "days": (lambda x: np.floor(x / _DAY), None),
    "seconds": (lambda x: x, None),
}
"""Functions of moments, and their ranges; None where they grow with the moment. Monday is 0."""
_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "//": np.floor_divide,
    "%": np.mod,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
    "min": np.minimum,
    "max": np.maximum,
    "negative": np.negative,
    "abs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
}
_QUOTIENTS = ("/", "//", "%")
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


def evaluate(expression: Expression, columns: Mapping[str, Numbers], num_rows: int) -> Numbers:
    """The value of an expression in every row; NaN where it is missing, or beyond all doubles.

    Args:
        expression: The expression.
        columns: The numbers of every column that it reads, NaN where they are missing.
        num_rows: The number of rows.
    """
    stack: list[Any] = []
    with np.errstate(all="ignore"):
        for step in expression:
            if step.kind == "number":
                stack.append(step.number)
            elif step.kind == "name":
                stack.append(columns[step.name])
            else:
                arguments = stack[-step.arity :]
                stack[-step.arity :] = [_applied(step.name, arguments, int(step.number))]
    values = np.broadcast_to(np.asarray(stack[0], np.float64), (num_rows,))
    return np.where(np.isfinite(values), values, np.nan)


def _applied(name: str, arguments: list[Any], digits: int) -> Any:
    if name in _DATES:
        return _DATES[name][0](np.asarray(arguments[0], np.float64))
    if name == "round":
        return np.round(arguments[0], digits)
    if name in ("min", "max"):
        value = arguments[0]
        for other in arguments[1:]:
            value = _ARITHMETIC[name](value, other)
        return value
    value = _ARITHMETIC[name](*arguments)
    if name in _QUOTIENTS:
        return np.where(np.equal(arguments[1], 0), np.nan, value)
    if name in _COMPARISONS:
        return np.where(np.isnan(arguments[0]) | np.isnan(arguments[1]), np.nan, value)
    return value


def _calendar(seconds: np.ndarray, unit: str) -> np.ndarray:
    """Years or months since 1970; NaN where there is no moment."""
    gaps = np.isnan(seconds)
    moments = np.floor(np.where(gaps, 0, seconds)).astype("datetime64[s]")
    return np.where(gaps, np.nan, moments.astype(f"datetime64[{unit}]").astype(np.int64))


def _first_day(seconds: np.ndarray) -> np.ndarray:
    """The first day of the month, in days since 1970."""
    months = _calendar(seconds, "M")
    gaps = np.isnan(months)
    first = np.where(gaps, 0, months).astype(np.int64).astype("datetime64[M]")
    return np.where(gaps, np.nan, first.astype("datetime64[D]").astype(np.int64))


class Range(NamedTuple):
    """What is known of a number before any row is.

    Attributes:
        low: The smallest value.
        high: The largest value.
        gaps: Whether it may be missing.
        moment: Whether it is a moment, not a number.
    """

    low: float
    high: float
    gaps: bool = False
    moment: bool = False


def range_of(expression: Expression, columns: Mapping[str, Range]) -> Range:
    """A range that holds the value of an expression in every row, whatever the rows are.

    Raises:
        ValueError: A function of dates is applied to a number, or anything else to a date.
    """
    stack: list[Range] = []
    with np.errstate(all="ignore"):
        for step in expression:
            if step.kind == "number":
                stack.append(Range(step.number, step.number))
            elif step.kind == "name":
                stack.append(columns[step.name])
            else:
                arguments = stack[-step.arity :]
                stack[-step.arity :] = [_range(step.name, arguments, int(step.number))]
    result = stack[0]
    # what exceeds all doubles is missing
    return result._replace(gaps=result.gaps or not math.isfinite(result.low + result.high))


def _range(name: str, arguments: list[Range], digits: int) -> Range:
    for argument in arguments:
        if argument.moment != (name in _DATES):
            what = (
                "a column of dates"
                if name in _DATES
                else "numbers: year(...) or days(...) of a date"
            )
            raise ValueError(f"in an expression, {name!r} takes {what}.")
    first, gaps = arguments[0], any(argument.gaps for argument in arguments)
    if name in _DATES:
        function, ends = _DATES[name]
        low, high = ends or (float(function(np.asarray(x))) for x in first[:2])
        return Range(low, high, gaps)
    if name in _COMPARISONS:
        return Range(0, 1, gaps)
    if name == "abs":
        least = 0.0 if first.low <= 0 <= first.high else min(abs(first.low), abs(first.high))
        return Range(least, max(abs(first.low), abs(first.high)), gaps)
    if name in _QUOTIENTS:
        divisor = arguments[1]
        if divisor.low <= 0 <= divisor.high:
            low, high = divisor[:2] if name == "%" else (-math.inf, math.inf)
            return Range(low, high, gaps=True)
        if name == "%":
            return Range(min(divisor.low, 0.0), max(divisor.high, 0.0), gaps)
    corners = itertools.product(*(argument[:2] for argument in arguments))
    values = [float(_applied(name, list(corner), digits)) for corner in corners]
    values = [0.0 if math.isnan(value) else value for value in values]  # zero times infinity
    return Range(min(values), max(values), gaps)
