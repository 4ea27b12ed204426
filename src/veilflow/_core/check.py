"""Argument checks that name the argument: `check.positive(clip_norm=clip_norm)`.

Every message says what was given, what is allowed and, if there is a hint, what to do. The checks are
for public settings only: they must never print the value of a record.
"""

import math
import numbers
from collections.abc import Callable
from typing import Any, get_args


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, got {type(value).__name__}.")
    try:
        number = float(value)
    except OverflowError:  # an integer beyond the largest double
        return -math.inf if value < 0 else math.inf
    if math.isnan(number):
        raise ValueError(f"{name} must be a number, got NaN.")
    return number


def _within(allowed: Callable[[float], bool], words: str) -> Callable[..., None]:
    """A check that raises unless every named value is a number in a range; `words` describe it."""

    def check(*, hint: str = "", **named: object) -> None:
        for name, value in named.items():
            if not allowed(_number(name, value)):
                raise ValueError(f"{name} must be {words}, got {value}.{_tail(hint)}")

    return check


positive = _within(lambda x: 0 < x < math.inf, "positive and finite")
nonnegative = _within(lambda x: 0 <= x < math.inf, "at least 0 and finite")
finite = _within(math.isfinite, "finite")
rate = _within(lambda x: 0 < x <= 1, "above 0 and at most 1")
fraction = _within(lambda x: 0 < x < 1, "strictly between 0 and 1")


def whole(**named: object) -> None:
    """Raise unless every named value is a whole number."""
    for name, value in named.items():
        if isinstance(value, bool) or not isinstance(value, numbers.Integral):
            shown = repr(value) if isinstance(value, numbers.Number | str) else type(value).__name__
            raise TypeError(f"{name} must be a whole number, got {shown[:40]}.")


def count(*, at_least: int = 1, hint: str = "", **named: Any) -> None:
    """Raise unless every named value is a whole number of at least `at_least`."""
    whole(**named)
    for name, value in named.items():
        if int(value) < at_least:
            raise ValueError(f"{name} must be at least {at_least}, got {value}.{_tail(hint)}")


def one_of(allowed: tuple[str, ...], **named: object) -> None:
    """Raise unless every named value is one of the allowed words."""
    for name, value in named.items():
        if not isinstance(value, str) or value not in allowed:
            words = ", ".join(repr(word) for word in allowed)
            raise ValueError(f"{name} must be one of {words}, got {value!r}.")


def instance(kind: Any, *, hint: str = "", **named: object) -> None:
    """Raise unless every named value is an instance of a class, or of one of a union of classes.

    Not all callers use a type checker, so types on which a guarantee rests are checked at run time.
    """
    for name, value in named.items():
        if not isinstance(value, kind):
            allowed = " or ".join(one.__name__ for one in get_args(kind) or (kind,))
            raise TypeError(f"{name} must be {allowed}, got {type(value).__name__}.{_tail(hint)}")


def _tail(hint: str) -> str:
    return f" {hint}" if hint else ""
