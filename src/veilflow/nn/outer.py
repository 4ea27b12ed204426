"""Sums of outer products `d a^T` over records and uses: the arithmetic of all linear layers.

Arrays are (records, width) or, for a layer used K times by each record, (records, K, width). All
products are computed in full float32: by default, accelerators round inputs to 10 bits, and with a norm
that is off by a thousandth the clipping is off by a thousandth, too.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

contract = partial(jnp.einsum, precision=jax.lax.Precision.HIGHEST)

TINY = 1e-24
"""Added to squared lengths. A square that underflows (below 1e-38 per entry), multiplied by a huge one,
would hide a real gradient; this covers it and is far below the square of any clip norm."""

_ROUNDING = 1e-6
"""A generous bound on the relative error of a float32 sum of products."""


def squares(x: Float[Array, "records *rest"]) -> Float[Array, " records"]:
    """The sum of squares of each record's entries."""
    return jnp.sum(jnp.square(x), axis=tuple(range(1, x.ndim)))


def total(d: Array, *, uses: bool) -> Array:
    """The bias gradient of each record: `d`, summed over uses."""
    return jnp.sum(d, axis=1) if uses else d


def outer(d: Array, a: Array, *, uses: bool) -> Float[Array, "records out in"]:
    """The weight gradient of each record."""
    return contract("rko,rki->roi" if uses else "ro,ri->roi", d, a)


def squared_norm(d: Array, a: Array, *, uses: bool) -> Float[Array, " records"]:
    """|sum_k d_k a_k^T|^2 for each record, through K x K Gram matrices if these are smaller.

    It is never underestimated: where the uses nearly cancel, a bound on the rounding error is added.
    """
    if not uses:
        return (squares(d) + TINY) * (squares(a) + TINY)
    num_uses, width = d.shape[1], d.shape[2] + a.shape[2]
    if num_uses * width <= d.shape[2] * a.shape[2]:
        gram = contract("rko,rlo->rkl", d, d) * contract("rki,rli->rkl", a, a)
        return gram_norm(jnp.sum(gram, axis=(1, 2)), d, a)
    return summed_norm(outer(d, a, uses=True), d, a)


def gram_norm(gram_sum: Float[Array, " records"], d: Array, a: Array) -> Float[Array, " records"]:
    """A squared norm from a sum over Gram matrices, plus a bound on the rounding error."""
    return jnp.maximum(gram_sum, 0.0) + _ROUNDING * jnp.square(_lengths(d, a))


def summed_norm(gradient: Array, d: Array, a: Array) -> Float[Array, " records"]:
    """The squared norm of gradients summed over uses, plus a bound on the rounding error."""
    return raised(squares(gradient), _lengths(d, a))


def _lengths(d: Array, a: Array) -> Float[Array, " records"]:
    """sum_k |d_k| |a_k|: the norm of a record's gradient if all its uses were parallel."""
    squared = (jnp.sum(jnp.square(d), -1) + TINY) * (jnp.sum(jnp.square(a), -1) + TINY)
    return jnp.sum(jnp.sqrt(squared), axis=1)


def row_lengths(d: Array, a: Array) -> Float[Array, "records out"]:
    """sum_k |d_ki| |(a_k, 1)|: the norm of each row, with its bias, if all uses were parallel."""
    seen = jnp.sqrt(jnp.sum(jnp.square(a), -1, keepdims=True) + 1.0)
    return jnp.sum((jnp.abs(d) + TINY) * seen, axis=1)


def raised(squared: Array, lengths: Array) -> Array:
    """Squared norms of sums over uses, increased by a bound on their rounding error."""
    return jnp.square(jnp.sqrt(squared) + _ROUNDING * lengths)


def summed_bias_norm(d: Array, *, uses: bool) -> Float[Array, " records"]:
    """The squared norm of each record's bias gradient."""
    if not uses:
        return squares(d)
    lengths = jnp.sum(jnp.sqrt(jnp.sum(jnp.square(d), -1)), axis=1)
    return raised(squares(total(d, uses=True)), lengths)


def weighted_sum(d: Array, a: Array, factors: Array, *, uses: bool) -> Float[Array, "out in"]:
    """The sum over records of factor times `d a^T`, as one matrix product."""
    if factors.ndim == 1 and a.shape[-1] < d.shape[-1]:
        a = scale(a, factors, uses=uses)  # the narrower of the two is cheaper to scale
    else:
        d = scale(d, factors, uses=uses)
    if uses:
        d, a = d.reshape(-1, d.shape[-1]), a.reshape(-1, a.shape[-1])
    return contract("ro,ri->oi", d, a)


def weighted_total(d: Array, factors: Array, *, uses: bool) -> Float[Array, " out"]:
    """The sum over records of factor times bias gradient."""
    return jnp.sum(scale(total(d, uses=uses), factors, uses=False), axis=0)


def scale(d: Array, factors: Array, *, uses: bool) -> Array:
    """`d` times a factor for each record, or for each record and unit."""
    if factors.ndim == 1:
        factors = factors[:, None]
    return d * (factors[:, None, :] if uses else factors)
