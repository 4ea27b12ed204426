"""A discrete Gaussian as a table: three random words in, one whole number out, on host or device.

Walker's alias method. A word picks a sign and one of 2^16 columns; each column belongs to one size up
to a threshold, and to another from there on. What is compared with the threshold has 79 bits.
"""

import functools
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

SIGMA = 2**12
"""The parameter: probabilities are proportional to exp(-k^2 / (2 SIGMA^2))."""
REACH = 2**16
"""Columns, one for each size below; 16 SIGMA, beyond which lies less than 2^-180."""

_GUARD_BITS = 256
_BITS = 95
"""Probabilities are whole multiples of 2^-95."""
_UNIT = 1 << 79
"""The probability of a column, in these units."""
_WORD = 0xFFFFFFFF

_CENTER = SIGMA
"""Sizes below this are so likely that they can spare what rounding gives to the others."""

SPARED = 2.0**-77
"""No probability is below the exact one by more than this part of it."""
EXCESS = 2.0**-79
"""All probabilities together exceed the exact ones by no more than this."""
BEYOND = 2.0**-180
"""The exact law has less than this beyond the table."""


class Thresholds(NamedTuple):
    """A table as arrays of words, for NumPy or JAX. Thresholds are cut into 16, 32 and 32 bits."""

    column: Any
    """The upper 16 bits of a threshold, then the size beyond it."""
    middle: Any
    low: Any


def pick(
    thresholds: Thresholds,
    first: Any,
    second: Any,
    last: Any,
    *,
    xp: Any = np,
    take: Callable[[Any, Any], Any] = operator.getitem,
) -> Any:
    """The whole numbers that three random words each stand for, as int32.

    Args:
        thresholds: The table.
        first: Sign, column, and the upper 15 bits to compare.
        second: The next 32.
        last: The lower 32.
        xp: NumPy, or jax.numpy.
        take: Entries of an array by their places, which are never outside.
    """
    own = (first >> np.uint32(15)) & np.uint32(0xFFFF)
    column, middle, low = (take(part, own) for part in thresholds)
    high, upper = column >> np.uint32(16), first & np.uint32(0x7FFF)
    below = (second < middle) | ((second == middle) & (last < low))
    is_own = (upper < high) | ((upper == high) & below)
    size = xp.where(is_own, own, column & np.uint32(0xFFFF)).astype(np.int32)
    return xp.where(first >> np.uint32(31) == 1, -size, size)


@functools.cache
def thresholds() -> Thresholds:
    """The table of `SIGMA`, made once in exact arithmetic."""
    bounds, others = alias(_probabilities(SIGMA))
    high = np.array([b >> 64 for b in bounds], np.uint32)
    return Thresholds(
        (high << np.uint32(16)) | np.array(others, np.uint32),
        np.array([b >> 32 & _WORD for b in bounds], np.uint32),
        np.array([b & _WORD for b in bounds], np.uint32),
    )


def _probabilities(sigma: int) -> list[int]:
    """Those of |k| = 0, 1, ... in units of 2^-95; they sum to 1.

    Rounded up, so that nothing far out is less likely than it should be; the center gives what that
    takes, a few units each.

    By p_{k+1} = p_k r_k and r_{k+1} = r_k exp(-1 / sigma^2) in 256-bit fixed point: after 2^16 steps
    the relative error is below 2^-215.
    """
    ratio, decay = _exp_minus(1, 2 * sigma * sigma), _exp_minus(1, sigma * sigma)
    weight = 1 << _GUARD_BITS
    weights: list[int] = []
    for size in range(REACH):
        weights.append(weight if size == 0 else 2 * weight)
        weight = weight * ratio >> _GUARD_BITS
        ratio = ratio * decay >> _GUARD_BITS
    total = sum(weights)
    found = [-(-(weight << _BITS) // total) for weight in weights]
    surplus = sum(found) - (1 << _BITS)
    each, rest = divmod(surplus, _CENTER)
    return [p - each - (size < rest) if size < _CENTER else p for size, p in enumerate(found)]


def alias(probabilities: list[int]) -> tuple[list[int], list[int]]:
    """For each column its threshold, and whose the rest of it is. Exact: whole numbers only."""
    left, others = list(probabilities), list(range(len(probabilities)))
    bounds = [_UNIT] * len(left)
    small = [i for i, p in enumerate(left) if p < _UNIT]
    large = [i for i, p in enumerate(left) if p >= _UNIT]
    while small and large:
        less, more = small.pop(), large[-1]
        bounds[less], others[less] = left[less], more
        left[more] -= _UNIT - left[less]
        if left[more] < _UNIT:
            small.append(large.pop())
    return bounds, others


def _exp_minus(numerator: int, denominator: int) -> int:
    """exp(-numerator / denominator) in fixed point, by its alternating series."""
    term, total, k = 1 << _GUARD_BITS, 0, 0
    while term:
        total += -term if k % 2 else term
        k += 1
        term = term * numerator // (denominator * k)
    return total
