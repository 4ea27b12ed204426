"""The target as a differentiable function of many parameter vectors: what gradients are taken of.

Exact samplers ask `Target.losses`, whose sums are integers. Integers have no gradient, so the flow and
the Hamiltonian chain follow this twin in floating point. They draw from what they were led to, and
their guarantee is conditional already: that the two differ by rounding is part of the assumption.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from veilflow.releases.expm.target import Target

_NUMBERS = 2**26
"""That a backward pass may remember at a time: 256 MiB of float32."""


def log_weights(
    target: Target, thetas: Float[Array, "samples dim"], records: PyTree
) -> Float[Array, " samples"]:
    """`target.log_weight` of every parameter vector, chunk by chunk of the records.

    What a chunk computes on the way is forgotten and computed again for the gradient, so memory does
    not grow with the number of records.
    """
    num = num_records(records)
    if num == 0:  # a neighbor of a data set of one record
        return jnp.zeros(thetas.shape[0], thetas.dtype)
    size = _chunk(target, thetas, records)
    each = jax.checkpoint(jax.vmap(target.log_weight, in_axes=(0, None)))
    whole = num // size
    blocks = jax.tree.map(
        lambda leaf: leaf[: whole * size].reshape(whole, size, *leaf.shape[1:]), records
    )

    def add(total: Array, block: PyTree) -> tuple[Array, None]:
        return total + each(thetas, block), None

    total, _ = jax.lax.scan(add, jnp.zeros(thetas.shape[0], thetas.dtype), blocks)
    if num % size:
        total = total + each(thetas, jax.tree.map(lambda leaf: leaf[whole * size :], records))
    return total


def log_densities(
    target: Target, thetas: Float[Array, "samples dim"], records: PyTree
) -> Float[Array, " samples"]:
    """Weight times prior, unnormalized, of every parameter vector."""
    return log_weights(target, thetas, records) + jax.vmap(target.prior.log_prob)(thetas)


def on_device(records: PyTree) -> PyTree:
    """The records as arrays in which NaN is 0: one such cell would make every gradient NaN.

    In exact sums a record with NaN in it has the largest loss. Here its loss is that of another input.
    """

    def clean(leaf: Any) -> Array:
        array = jnp.asarray(leaf)
        return jnp.nan_to_num(array) if jnp.issubdtype(array.dtype, jnp.inexact) else array

    return jax.tree.map(clean, records)


def num_records(records: PyTree) -> int:
    """How many records there are. Private: it stays inside of the sampler."""
    return jax.tree.leaves(records)[0].shape[0]


def _chunk(target: Target, thetas: Array, records: PyTree) -> int:
    """Records whose backward pass, for all parameter vectors, remembers `_NUMBERS` numbers."""

    def remembered(theta: Array, record: PyTree) -> Any:
        return jax.vjp(lambda theta: target.log_weight(theta, record), theta)[1]

    one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((1, *leaf.shape[1:]), leaf.dtype), records)
    theta = jax.ShapeDtypeStruct(thetas.shape[1:], thetas.dtype)
    leaves = jax.tree.leaves(jax.eval_shape(remembered, theta, one))
    numbers = sum(math.prod(leaf.shape) for leaf in leaves)
    size = _NUMBERS // max(1, numbers * thetas.shape[0])
    return min(max(1, size), num_records(records))
