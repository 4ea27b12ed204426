"""Poisson samples of many records, for the price of the batch instead of the data set.

A Poisson sample is a binomial number of records, each set of that size being as likely as any other. So
the number is drawn first, from an exact table; then places are drawn one by one, and the first so many
distinct ones are the batch. Everything is integers on the device, from one key:

1. *The number.* `count_table` holds the cumulative probabilities of Binomial(n, words / 2^32), computed
   with whole numbers of several hundred bits and cut to 256. It leaves out numbers that together have
   a probability below 2^-200. 256 random bits pick the number.
2. *Places.* A word below the largest multiple of n is a place modulo n; other words are passed over. A
   place that was drawn before is passed over, too. Whatever remains is uniform over sets.
3. *As many words as are needed.* Their number is fixed beforehand, so large that all but a probability
   of 2^-200 of samples have enough; in that case the batch is short of some records.

So a batch differs from a Poisson sample in total variation by less than 2^-198, once a step. A run of
at most 2^40 steps is then (epsilon, delta + 2^-158 e^epsilon)-DP where Poisson samples would give
(epsilon, delta). That is below 2^-74 at every epsilon below 58; `grid_noise.closeness` pays twice what
its proof needs, and for deltas up to a quarter composition leaves 2^-74 of that for this.
"""

# JAX and jaxtyping leave types open (trees, loops, new arrays); see [tool.pyright] in pyproject.toml
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

import math
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, UInt32

from veilflow._core.threefry import threefry

_WORD = 2**32
_WORDS = 8
"""Random words that pick a number of records."""
_BITS = 400
"""Precision of probabilities relative to the largest, before they are cut."""
_LOG2_FAILURE = -200
"""Logarithm of the probability of what is left out, of each kind."""
_LEAST, _MOST_RATE = 2**17, 1 / 16
"""Fewer records, or larger shares of them, are drawn faster one by one."""


def pays(num_records: int, words: int) -> bool:
    """Whether a batch of these records is drawn faster in this way; both are public.

    Args:
        num_records: The number of records on the device.
        words: The number of words, out of 2^32, with which a record is drawn.
    """
    return num_records >= _LEAST and words <= _MOST_RATE * _WORD


def draw_few(
    key: UInt32[Array, " 4"], num_records: int, words: int
) -> tuple[Int[Array, " most"], Bool[Array, " most"]]:
    """Places of records, and which of them are in the batch; no record is in it twice.

    Args:
        key: Spent here.
        num_records: The number of records.
        words: The number of words, out of 2^32, with which a record is drawn.
    """
    first, table = count_table(num_records, words)
    number = first + _above(table, _stream(key, _WORDS, lane=1))
    size = _candidates(num_records, words)
    candidates = _stream(key, size, lane=2)
    limit = _WORD // num_records * num_records
    valid = jnp.ones(size, bool) if limit == _WORD else candidates < jnp.uint32(limit)
    # a place beyond the last one marks what is passed over
    places = jnp.where(valid, candidates % jnp.uint32(num_records), num_records).astype(jnp.int32)
    own = jnp.arange(size, dtype=jnp.int32)
    ordered, order = jax.lax.sort((places, own), num_keys=1, is_stable=True)
    again = jnp.concatenate([jnp.zeros(1, bool), ordered[1:] == ordered[:-1]])
    new = jnp.zeros(size, bool).at[order].set(~again, unique_indices=True) & valid
    drawn = new & (jnp.cumsum(new, dtype=jnp.int32) <= number)
    return jnp.where(drawn, places, 0), drawn


def _stream(key: UInt32[Array, " 4"], size: int, *, lane: int) -> UInt32[Array, " size"]:
    """Random words; a key has a stream for each lane."""
    place, zero = jnp.arange(size, dtype=jnp.uint32), jnp.zeros((), jnp.uint32)
    # one word of each block: a compiler makes one simple loop of it
    return threefry(key, (place, zero, zero, jnp.full((), lane, jnp.uint32)))[0]


def _above(table: UInt32[np.ndarray, "numbers 8"], drawn: UInt32[Array, " 8"]) -> Int[Array, ""]:
    """How many entries of an increasing table are at most `drawn`; the first word counts most."""
    at_most = jnp.ones(len(table), bool)
    for place in range(_WORDS - 1, -1, -1):
        entry, word = jnp.asarray(table[:, place]), drawn[place]
        at_most = (entry < word) | ((entry == word) & at_most)
    return jnp.sum(at_most, dtype=jnp.int32)


@lru_cache(maxsize=8)
def count_table(num_records: int, words: int) -> tuple[int, UInt32[np.ndarray, "numbers 8"]]:
    """The smallest number of records that is drawn, and where to go beyond each but the largest.

    Args:
        num_records: The number of records.
        words: The number of words, out of 2^32, with which a record is drawn.

    Returns:
        The smallest number, and cumulative probabilities times 2^256, eight words each.
    """
    others = _WORD - words
    mode = (num_records + 1) * words // _WORD
    # beyond an entry this small, all others together are a few times as large
    least = 1 << (_BITS + _LOG2_FAILURE - 16)
    down, up = [1 << _BITS], [1 << _BITS]
    low = high = mode
    while low > 0 and down[-1] > least:
        down.append(down[-1] * low * others // ((num_records - low + 1) * words))
        low -= 1
    while high < num_records and up[-1] > least:
        up.append(up[-1] * (num_records - high) * words // ((high + 1) * others))
        high += 1
    weights = down[:0:-1] + up
    total, cumulative, bits = sum(weights), 0, 32 * _WORDS
    rows = np.empty((len(weights) - 1, _WORDS), np.uint32)
    for row, weight in zip(rows, weights, strict=False):  # nothing lies beyond the last
        cumulative += weight
        cut = (cumulative << bits) // total
        row[:] = np.frombuffer(cut.to_bytes(4 * _WORDS, "big"), ">u4")
    return low, rows


@lru_cache(maxsize=8)
def _candidates(num_records: int, words: int) -> int:
    """How many words are drawn for places: enough for the largest batch, but for 2^-200."""
    first, table = count_table(num_records, words)
    most = first + len(table)
    # a word is passed over with at most this probability, whatever came before
    passed = most / num_records + (_WORD % num_records) / _WORD
    size = most + 64
    while _log2_excess(size, size - most, passed) > _LOG2_FAILURE:
        size += 64
    return size


def _log2_excess(trials: int, at_least: int, probability: float) -> float:
    """Chernoff's bound on the logarithm of the chance of so many successes."""
    share = at_least / trials
    if share <= probability:
        return 0.0
    divergence = share * math.log(share / probability)
    divergence += (1 - share) * math.log((1 - share) / (1 - probability))
    return -trials * divergence / math.log(2)
