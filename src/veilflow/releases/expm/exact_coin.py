"""Coins that come up with probability exp(-x), exactly, for rational x.

A coin compares a uniform number with exp(-x). Both are written bit by bit, the uniform one by the
operating system, and the first bits nearly always decide. So the comparison is made with 64 bits in
double precision, for many coins at once; where that is too close to call, more bits are drawn and
exp(-x) is enclosed by whole numbers until it is not. Reading bits only when they matter changes no
probability, and no rounding enters the result.
"""

import os
from fractions import Fraction

import numpy as np
from jaxtyping import Bool, Int

_DOUBT = 2.0**-30
"""Of exp in double precision, relatively: far more than it can be off."""
_WORD = 64


def exp_coins(exponents: Int[np.ndarray, " num"], *, unit: Fraction) -> Bool[np.ndarray, " num"]:
    """Whether each of independent coins, with probability exp(-exponent * unit), came up.

    Args:
        exponents: Whole numbers of at least 0.
        unit: What they are multiples of; positive.
    """
    words = np.frombuffer(os.urandom(8 * len(exponents)), dtype=np.uint64)
    return decide(words, exponents, unit=unit)


def decide(
    words: np.ndarray, exponents: Int[np.ndarray, " num"], *, unit: Fraction
) -> Bool[np.ndarray, " num"]:
    """The coins that uniform 64-bit `words` stand for; further bits are drawn where they are needed."""
    with np.errstate(under="ignore"):
        chance = np.exp(-exponents.astype(np.float64) * float(unit))
    low = words.astype(np.float64) * 2.0**-_WORD
    up = (words.astype(np.float64) + 1.0) * 2.0**-_WORD <= chance * (1 - _DOUBT)
    up |= exponents == 0
    down = low > chance * (1 + _DOUBT)
    for place in np.flatnonzero(~(up | down)):
        up[place] = _exactly(int(words[place]), int(exponents[place]) * unit)
    return up


def _exactly(word: int, exponent: Fraction) -> bool:
    """Whether a uniform number that starts with `word` is below exp(-exponent)."""
    bits = _WORD
    while True:
        low, high = exp_bounds(exponent, bits=bits)
        if word + 1 <= low:
            return True
        if word >= high:
            return False
        word = word << _WORD | int.from_bytes(os.urandom(_WORD // 8), "big")
        bits += _WORD


def exp_bounds(exponent: Fraction, *, bits: int) -> tuple[int, int]:
    """Whole numbers around 2^bits exp(-exponent), a few apart at most."""
    # exp(-x) is the square of exp(-x/2): halve until the series is short, then square back
    halvings = max(0, (exponent.numerator // exponent.denominator).bit_length() + 1)
    small = exponent / 2**halvings
    guard = bits + 32 + 2 * halvings
    one = 1 << guard
    low, high = 0, 0
    low_term, high_term, k = one, one, 0
    while high_term > 1 or k % 2:
        # terms alternate in sign: what is taken away is rounded up for the lower bound, and down
        # for the upper one
        low, high = (
            (low + low_term, high + high_term)
            if k % 2 == 0
            else (
                low - high_term,
                high - low_term,
            )
        )
        k += 1
        low_term = low_term * small.numerator // (small.denominator * k)
        high_term = -(-high_term * small.numerator // (small.denominator * k))
    # ended after a term that was taken away, so the rest of the series is between 0 and the next term
    high += high_term
    low = max(low, 0)
    for _ in range(halvings):
        low, high = low * low >> guard, -(-(high * high) >> guard)
    shift = guard - bits
    return low >> shift, -(-high >> shift)
