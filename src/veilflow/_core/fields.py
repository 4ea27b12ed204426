"""Fields of frozen settings: the constructor checks each of them and converts it to a plain value.

    def __post_init__(self) -> None:
        convert(self, steps=count(at_least=0), clip_norm=optional(positive), average=flag)

A rule takes the name of a field and its value. It returns a plain Python value or raises an error
that names the field. NumPy scalars are accepted and converted to Python numbers: they could not be
written to JSON, and their different `repr` would change hashes.
"""

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from veilflow._core import check

Rule = Callable[[str, Any], Any]
"""Maps the name of a field and a value to a plain value."""


def convert(settings: Any, **rules: Rule) -> None:
    """Replace fields of a frozen dataclass by what their rules return."""
    for name, rule in rules.items():
        # the only place where frozen settings change, before anyone else has seen them
        object.__setattr__(settings, name, rule(name, getattr(settings, name)))


def optional(rule: Rule) -> Rule:
    """By `rule`, or None."""
    return lambda name, value: None if value is None else rule(name, value)


def _number(check_one: Callable[..., None]) -> Rule:
    """A rule for numbers, by the check of the same name in `_core/check.py`."""

    def rule(name: str, value: Any) -> float:
        check_one(**{name: value})
        return float(value)

    return rule


positive, nonnegative, finite = map(_number, (check.positive, check.nonnegative, check.finite))
rate, fraction = _number(check.rate), _number(check.fraction)


def count(*, at_least: int = 1) -> Rule:
    """A whole number of at least `at_least`."""

    def rule(name: str, value: Any) -> int:
        check.count(at_least=at_least, **{name: value})
        return int(value)

    return rule


def flag(name: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {type(value).__name__}.")
    return bool(value)


def word(*allowed: str) -> Rule:
    """One of the allowed words."""

    def rule(name: str, value: Any) -> str:
        check.one_of(allowed, **{name: value})
        return str(value)

    return rule


def either(words: Rule, rule: Rule) -> Rule:
    """A string by the rule for words, and anything else by the other rule."""
    return lambda name, value: (words if isinstance(value, str) else rule)(name, value)


def instance(kind: type, such_as: str) -> Rule:
    """An instance of a class.

    Args:
        kind: The class.
        such_as: How to describe it in an error message.
    """

    def rule(name: str, value: Any) -> Any:
        if not isinstance(value, kind):
            raise TypeError(f"{name} must be {such_as}, got {type(value).__name__}.")
        return value

    return rule


def each(rule: Rule, *, lengths: tuple[int, ...] | None = None) -> Rule:
    """A tuple of values, each by `rule`.

    Args:
        rule: The rule of one value.
        lengths: The allowed lengths; None for any length.
    """

    def every(name: str, value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple | np.ndarray) or np.ndim(value) != 1:
            raise TypeError(f"{name} must be a list of numbers, got {type(value).__name__}.")
        if lengths is not None and len(value) not in lengths:
            allowed = " or ".join(map(str, lengths))
            raise ValueError(f"{name} must have {allowed} numbers, got {len(value)}.")
        return tuple(rule(name, one) for one in value)

    return every


def one_or_each(rule: Rule) -> Rule:
    """One value, or a tuple of several."""
    several = each(rule)

    def numbers(name: str, value: Any) -> Any:
        if isinstance(value, np.ndarray) and value.ndim == 0:
            value = value.item()
        return (several if isinstance(value, list | tuple | np.ndarray) else rule)(name, value)

    return numbers


def path(name: str, value: Any) -> str | os.PathLike[str]:
    """The path of a file."""
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"{name} must be the path of a file, got {type(value).__name__}.")
    return value
