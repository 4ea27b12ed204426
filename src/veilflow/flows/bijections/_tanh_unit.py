"""The increasing function a + t tanh(a), with t above -1: planar and Sylvester maps are made of it."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

LEAST_SLOPE = 0.01
"""The slope at 0, 1 + t, never gets below this: nearer to zero a float32 could not be mapped back."""

_STEPS = 16
"""Newton steps: enough for all digits of a float64 wherever t is below 1e6, by measurement."""


def damping(product: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """A positive factor with which `t = factor * product` stays above LEAST_SLOPE - 1.

    `t` increases with the product, is about as large where that is large, and zero where it is zero.
    """
    return (1 - LEAST_SLOPE) / (1 + jax.nn.softplus(-product))


def log_slope(a: Float[Array, "*shape"], t: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Log of the derivative, 1 + t / cosh(a)^2."""
    return jnp.log1p(t * _sech_squared(a))


@jax.custom_jvp
def solve(c: Float[Array, "*shape"], t: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The `a` with a + t tanh(a) = c, element by element; derivatives are those of the exact root.

    For a, c >= 0 the function is concave if t > 0, convex if t < 0. Newton's method that starts left
    of the root of a concave function, or right of it for a convex one, never oversteps it.
    """
    size = jnp.abs(c)  # the function is odd
    # from tanh(a) <= min(a, 1): bounds on the root, from below if t > 0, from above if t < 0
    linear, saturated = size / (1 + t), size - t
    a = jnp.where(t > 0, jnp.maximum(linear, saturated), jnp.minimum(linear, saturated))

    def newton(_: int, a: Array) -> Array:
        return a - (a + t * jnp.tanh(a) - size) / (1 + t * _sech_squared(a))

    return jnp.copysign(jax.lax.fori_loop(0, _STEPS, newton, a), c)


@solve.defjvp
def _solve_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    (c, t), (dc, dt) = primals, tangents
    a = solve(c, t)
    return a, (dc - jnp.tanh(a) * dt) / (1 + t * _sech_squared(a))


def _sech_squared(a: Array) -> Array:
    # not 1 - tanh^2, which has no digits left where tanh is close to 1
    return 4 * jax.nn.sigmoid(2 * a) * jax.nn.sigmoid(-2 * a)
