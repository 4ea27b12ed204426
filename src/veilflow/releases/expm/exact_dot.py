"""Sums of products that come out the same in whatever order, on whatever device, they are added.

A matrix product in floating point rounds, and how it rounds depends on where in the matrix a row
stands. A record that joins moves the rows behind it, and could so change the losses of all of them in
the last bit; no bound on one record's own loss covers that. Here both factors are first rounded to
grids, so coarse that no partial sum has more than 24 bits. Then float32 adds without rounding, and
the number of a record depends on that record and on the parameters alone.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

VALUE_BITS = 11
"""Values in [-1, 1] are rounded to multiples of 2^-11."""
_WEIGHT_BITS = 13
"""The absolute weights of a block sum to at most 2^13 units of that block."""
_BLOCK = 256
"""Weights that share a unit. More are cut into blocks, which are added one after another."""


def exact_dot(weights: Float[Array, " width"], values: Float[Array, " width"]) -> Float[Array, ""]:
    """The product of `weights` and `values`, both rounded; derivatives are those without rounding.

    Args:
        weights: Any finite numbers.
        values: Numbers in [-1, 1]; what is beyond counts as the end. NaN makes the result NaN.
    """
    values = _rounded(jnp.clip(values, -1.0, 1.0), jnp.asarray(2.0**-VALUE_BITS, values.dtype))
    total = None
    for start in range(0, weights.shape[0], _BLOCK):
        block = weights[start : start + _BLOCK]
        block = _rounded(block, _unit(block))
        part = jnp.dot(block, values[start : start + _BLOCK], precision=jax.lax.Precision.HIGHEST)
        # two numbers added are rounded in one way only
        total = part if total is None else total + part
    assert total is not None
    return total


def _unit(block: Float[Array, " block"]) -> Float[Array, ""]:
    """A power of two of which the block, rounded to it, has at most 2^13 in absolute sum.

    The sum is made 1/32 larger, for the half unit that rounding may add to each weight and for its
    own rounding error: 2^13 * 32/33 + 256/2 < 2^13.
    """
    norm = jax.lax.stop_gradient(jnp.sum(jnp.abs(block))) * (1 + 2.0**-5)
    exponent = jnp.frexp(norm)[1]
    return jnp.ldexp(jnp.ones((), block.dtype), exponent - _WEIGHT_BITS)


@jax.custom_jvp
def _rounded(numbers: Float[Array, "*shape"], unit: Float[Array, ""]) -> Float[Array, "*shape"]:
    """The nearest multiples of `unit`, a power of two, so that dividing by it is exact."""
    return jnp.round(numbers / unit) * unit


@_rounded.defjvp
def _(primals, tangents):
    # a step function has no slope to learn from: the slope of what it rounds stands for it
    return _rounded(*primals), tangents[0]
