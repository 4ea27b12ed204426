"""A discrete Gaussian as a table: three random words in, one integer out, on the host or a device.

This is Walker's alias method. The first word picks a sign and one of 2^16 columns. A column stands for
one magnitude below its threshold and for another one above it. 79 random bits are compared with the
threshold.
"""

import functools
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

SIGMA = 2**12
"""The parameter: probabilities are proportional to exp(-k^2 / (2 SIGMA^2))."""
REACH = 2**16
"""The number of columns, one for each magnitude below 16 SIGMA; less than 2^-180 lies beyond."""

_GUARD_BITS = 256
_BITS = 95
"""Probabilities are integer multiples of 2^-95."""
_UNIT = 1 << 79
"""The probability of a column, in these units."""
_WORD = 0xFFFFFFFF

_CENTER = SIGMA
"""Magnitudes below this are so likely that they can give up what rounding adds to the others."""

SPARED = 2.0**-77
"""No probability falls below the exact one by more than this fraction of it."""
EXCESS = 2.0**-79
"""The total by which probabilities exceed the exact ones is at most this."""
BEYOND = 2.0**-180
"""The exact distribution has less than this mass beyond the table."""


class Thresholds(NamedTuple):
    """The table as arrays of words, for NumPy or JAX; thresholds are split into 16, 32 and 32 bits."""

    column: Any
    """The upper 16 bits of a threshold, then the magnitude above it."""
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
    """Draws from the table, one for every three random words, as int32.

    Args:
        thresholds: The table.
        first: The sign, the column, and the upper 15 bits to compare.
        second: The next 32 bits.
        last: The lower 32 bits.
        xp: NumPy, or jax.numpy.
        take: Reads entries of an array by index; indices are never out of range.
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
    """The table for `SIGMA`, computed once in exact arithmetic."""
    bounds, others = alias(_probabilities(SIGMA))
    high = np.array([b >> 64 for b in bounds], np.uint32)
    return Thresholds(
        (high << np.uint32(16)) | np.array(others, np.uint32),
        np.array([b >> 32 & _WORD for b in bounds], np.uint32),
        np.array([b & _WORD for b in bounds], np.uint32),
    )


def _probabilities(sigma: int) -> list[int]:
    """The probabilities of |k| = 0, 1, ... in units of 2^-95; they sum to 1.

    They are rounded up, so that no large magnitude is less likely than it should be; the center gives
    up a few units each to make room. They follow p_{k+1} = p_k r_k and r_{k+1} = r_k exp(-1 /
    sigma^2) in 256-bit fixed point; after 2^16 steps the relative error is below 2^-215.
    """
    ratio, decay = _exp_minus(1, 2 * sigma * sigma), _exp_minus(1, sigma * sigma)
    weight = 1 << _GUARD_BITS
    weights: list[int] = []
    for size in range(REACH):
        weights.append(weight if size == 0 else 2 * weight)
        weight = weight * ratio >> _GUARD_BITS
        ratio = ratio * decay >> _GUARD_BITS
    total = sum(weights)
    rounded = [-(-(weight << _BITS) // total) for weight in weights]
    surplus = sum(rounded) - (1 << _BITS)
    each, rest = divmod(surplus, _CENTER)
    return [p - each - (size < rest) if size < _CENTER else p for size, p in enumerate(rounded)]


def alias(probabilities: list[int]) -> tuple[list[int], list[int]]:
    """The threshold of each column, and the magnitude above it. Exact: integers only."""
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
