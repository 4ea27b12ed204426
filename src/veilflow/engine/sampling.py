"""Poisson sampling: each record enters each batch independently, with a public probability.

The draw happens on the device with raw 32-bit words: a record is drawn if its word is below
floor(rate 2^32). The probability is thus an exact, known fraction, never above the rate that is
accounted for, and no floating point is involved. Where a batch is a small part of many records,
`sparse_sampling` draws from the same law with a look at the batch only. The number of drawn records is
private and stays on the device. They are processed in as many chunks of a fixed size as it takes, so
no batch is ever truncated.
"""

# JAX and jaxtyping leave types open (trees, loops, new arrays); see [tool.pyright] in pyproject.toml
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, UInt8, UInt32

from veilflow._core import check
from veilflow._core.threefry import threefry
from veilflow.engine import sparse_sampling

_WORDS = 2**32


def threshold(sampling_rate: float) -> int:
    """The number of 32-bit words, out of 2^32, with which a record is drawn."""
    check.rate(sampling_rate=sampling_rate)
    words = int(sampling_rate * _WORDS)
    if words == 0:
        raise ValueError(
            f"sampling_rate {sampling_rate} is below 2^-32: no record would ever be drawn. "
            "Use a larger rate with more noise."
        )
    return words


def draw(
    key: UInt32[Array, " 4"], num_records: int, sampling_rate: float
) -> Bool[Array, " records"]:
    """Whether each record is in this batch."""
    words = threshold(sampling_rate)
    if words == _WORDS:
        return jnp.ones(num_records, bool)
    place, zero = jnp.arange(num_records, dtype=jnp.uint32), jnp.zeros((), jnp.uint32)
    # four records share a block, which is computed four times: one simple loop is faster than reuse
    block = threefry(key, (place >> 2, zero, zero, zero))
    lane = place & 3
    own = jnp.select([lane == i for i in range(3)], block[:3], block[3])
    return own < jnp.uint32(words)


def sample(
    key: UInt32[Array, " 4"], num_records: int, sampling_rate: float
) -> tuple[Int[Array, " places"] | None, Bool[Array, " places"]]:
    """Where to look for the records of this batch, and which of these are in it.

    The places are None if all records are looked at, as `draw` does. Of many records, a few are drawn
    without a look at the others. Which of the two is done follows from public numbers.
    """
    words = threshold(sampling_rate)
    if not sparse_sampling.pays(num_records, words):
        return None, draw(key, num_records, sampling_rate)
    return sparse_sampling.draw_few(key, num_records, words)


def groups(key: UInt32[Array, " 4"], num_records: int, number: int) -> UInt8[Array, " records"]:
    """The group of each record, drawn independently of the records and of the groups of others.

    No guarantee depends on how likely each group is; one of `number` is more likely than another by
    less than 2^-24.
    """
    place, zero = jnp.arange(num_records, dtype=jnp.uint32), jnp.zeros((), jnp.uint32)
    words = threefry(key, (place, zero, zero, zero))[0]
    return (words % jnp.uint32(number)).astype(jnp.uint8)


def places(drawn: Bool[Array, " records"]) -> Int[Array, " records"]:
    """Running count of the drawn records; its last entry is their number."""
    return jnp.cumsum(drawn, dtype=jnp.int32)


def chunk(
    running: Int[Array, " records"], start: Int[Array, ""], size: int
) -> tuple[Int[Array, " size"], Bool[Array, " size"]]:
    """The positions of drawn records `start` to `start + size`, and which of these exist."""
    wanted = start + 1 + jnp.arange(size, dtype=jnp.int32)
    # unrolled, a binary search is one kernel on an accelerator instead of one per iteration
    method = "scan" if jax.default_backend() == "cpu" else "scan_unrolled"
    positions = jnp.searchsorted(running, wanted, side="left", method=method)
    exist = wanted <= running[-1]
    return jnp.where(exist, positions, 0), exist
