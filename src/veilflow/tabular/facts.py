"""Facts that a schema declares, lists of values and moments, checked and brought into one form."""

import datetime as dt
import numbers
from typing import Any

OTHER = "(other)"
"""The text in a table for values of an open list that were not discovered."""

EXACT = 2**53
"""Double precision rounds whole numbers beyond this."""

EPOCH = dt.datetime(1970, 1, 1)
"""Moments are counted from here."""


def value_list(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Declared values: all text or all whole numbers, each once."""
    if len(values) == 1 and isinstance(values[0], list | tuple | set | frozenset):
        raise TypeError("values must be passed one by one: Categorical('a', 'b'), or *values.")
    if not values:
        raise ValueError("there must be at least one value.")
    if all(isinstance(v, numbers.Integral) and not isinstance(v, bool) for v in values):
        values = tuple(int(v) for v in values)
        if any(abs(v) > EXACT for v in values):
            raise ValueError("values that are whole numbers must be at most 2^53. Use text.")
    elif not all(isinstance(v, str) for v in values):
        raise TypeError("values must be all text or all whole numbers.")
    else:
        values = tuple(str(v) for v in values)
        if any(v != v.strip() or not v for v in values):
            raise ValueError(
                "values must not be empty or have spaces around them, which cells are read without."
            )
        if OTHER in values:
            raise ValueError(
                f"values must not hold {OTHER!r}, which stands for undiscovered values."
            )
    if len(set(values)) < len(values):
        raise ValueError("values must not occur twice.")
    return values


def moment(name: str, value: Any, step: dt.timedelta) -> dt.datetime:
    """A moment without a time zone, at the beginning of its step; a date as `end` is the whole day."""
    if isinstance(value, str):
        try:
            parsed = dt.datetime.fromisoformat(value.strip())
        except ValueError:
            raise ValueError(
                f"{name} must be written like 1990-01-31 or 1990-01-31T12:00:00."
            ) from None
        value = parsed.date() if len(value.strip()) <= 10 else parsed
    if not isinstance(value, dt.date):
        raise TypeError(f"{name} must be a datetime, a date or text, got {type(value).__name__}.")
    if not isinstance(value, dt.datetime):
        value = dt.datetime.combine(value, dt.time.max if name == "end" else dt.time.min)
    if value.tzinfo is not None:
        value = value.astimezone(dt.UTC).replace(tzinfo=None)
    return EPOCH + (value - EPOCH) // step * step
