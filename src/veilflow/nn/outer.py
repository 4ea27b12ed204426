"""Sums over records and uses of outer products `d a^T`, the arithmetic every linear layer shares.

Arrays are (records, width) or, for a layer used K times by each record, (records, K, width). All
products run in full float32: on accelerators the default rounds inputs to 10 bits, and a norm that is
off by a thousandth is a clip that is off by a thousandth.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

contract = partial(jnp.einsum, precision=jax.lax.Precision.HIGHEST)


def squares(x: Float[Array, "records *rest"]) -> Float[Array, " records"]:
    """The sum of squares of each record's entries."""
    return jnp.sum(jnp.square(x), axis=tuple(range(1, x.ndim)))


def total(d: Array, *, uses: bool) -> Array:
    """What each record's bias gradient is: `d`, summed over the uses."""
    return jnp.sum(d, axis=1) if uses else d


def outer(d: Array, a: Array, *, uses: bool) -> Float[Array, "records out in"]:
    """Each record's weight gradient itself."""
    return contract("rko,rki->roi" if uses else "ro,ri->roi", d, a)


def squared_norm(d: Array, a: Array, *, uses: bool) -> Float[Array, " records"]:
    """|sum_k d_k a_k^T|^2 for each record, through K x K Gram matrices when those are smaller."""
    if not uses:
        return squares(d) * squares(a)
    num_uses, width = d.shape[1], d.shape[2] + a.shape[2]
    if num_uses * width <= d.shape[2] * a.shape[2]:
        gram = contract("rko,rlo->rkl", d, d) * contract("rki,rli->rkl", a, a)
        # a Gram sum is a square; rounding must not make it negative
        return jnp.maximum(jnp.sum(gram, axis=(1, 2)), 0.0)
    return squares(outer(d, a, uses=True))


def weighted_sum(d: Array, a: Array, factors: Array, *, uses: bool) -> Float[Array, "out in"]:
    """The sum over records of factor times `d a^T`: one matrix product."""
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
