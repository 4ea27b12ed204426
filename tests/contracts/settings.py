"""Kinds of settings: what each must refuse, and in which types of NumPy it must be taken."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

_NO_NUMBER = ("x", True, np.bool_(True), math.nan, math.inf, -math.inf, np.float32("nan"), 1j, {})
_FLOATS = (np.float32, np.float64)
_WHOLE = (np.int32, np.int64, np.uint8)


@dataclass(frozen=True)
class Kind:
    """A kind of setting."""

    bad: tuple[Any, ...]
    types: tuple[Any, ...] = ()
    """Of NumPy, in which a good value must be taken."""


POSITIVE = Kind((*_NO_NUMBER, -1.0, 0.0, (1.0,)), _FLOATS)
NORM = Kind((*POSITIVE.bad, 1e-12, 1e12), _FLOATS)
NONNEGATIVE = Kind((*_NO_NUMBER, -1.0, (1.0,)), _FLOATS)
FRACTION = Kind((*_NO_NUMBER, -0.5, 0.0, 1.0, 2, (0.5,)), _FLOATS)
RATE = Kind((*_NO_NUMBER, -0.5, 0.0, 1.5, 1e-12, (0.5,)), _FLOATS)
BELOW_ONE = Kind((*_NO_NUMBER, -0.5, 1.0, (0.5,)), _FLOATS)
FLAG_OR_SHARE = Kind(("x", math.nan, math.inf, -0.5, 0.0, 1.0, 2, 1j, {}, (0.5,)), _FLOATS)
FINITE = Kind((*_NO_NUMBER, (1.0, "x")), _FLOATS)
COUNT = Kind((*_NO_NUMBER, -1, 0, 2.5, (3,)), _WHOLE)
COUNT_OR_ZERO = Kind((*_NO_NUMBER, -1, 2.5, (3,)), _WHOLE)
FLAG = Kind(("x", 1, 0.0, math.nan, ()), (np.bool_,))
SEED = Kind(("x", True, np.bool_(True), math.nan, math.inf, 1.5, (1,)), _WHOLE)
WORD = Kind(("x", 1, True, math.nan, ("x",), np.zeros(2)), (np.str_,))
SIZES = Kind(("x", True, 3, math.nan, (0,), (-1,), (2.5,), (True,), ("x",), (math.nan,)))
NUMBERS = Kind(("x", True, math.nan, -1.0, 0.0, (0.0,), (True,), ("x",), (1.0, math.inf)))
BOUNDS = Kind(("x", 1, (0,), (1, 0), (0, math.nan), (0, math.inf), (False, True), ("0", "1")))
OBJECT = Kind(("x", 1, True, math.nan, ()))
"""Something with a type of its own: a budget, a flow, a schema."""
ANYTHING = Kind(())
"""What no check can know better, such as a label."""


@dataclass(frozen=True)
class Setting:
    """One setting of an estimator.

    Attributes:
        kind: Of its values.
        good: A value that it takes; None where the estimator's own will do.
        beside: Other settings that it needs, or needs to be without.
        called: How messages call it, where not by its name.
    """

    kind: Kind
    good: Any = None
    beside: dict[str, Any] = field(default_factory=dict)
    called: str = ""


def is_plain(value: Any) -> bool:
    """Whether a value is Python's own, down to the last number in a list."""
    if isinstance(value, tuple | list):
        return all(map(is_plain, value))
    return not isinstance(value, np.generic | np.ndarray)
