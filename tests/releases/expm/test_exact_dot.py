"""Products whose rounding knows nothing of order, and stay close to the plain ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from veilflow.releases.expm.exact_dot import VALUE_BITS, exact_dot

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("width", [1, 7, 256, 600])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_close_to_the_product(width, scale):
    weights = (scale * RNG.normal(size=width)).astype(np.float32)
    values = RNG.uniform(-1, 1, width).astype(np.float32)
    found = float(exact_dot(jnp.asarray(weights), jnp.asarray(values)))
    # half a unit of each value, and half a unit of each weight, of which a block has 2^12 or more
    bound = np.abs(weights).sum() * (2.0**-VALUE_BITS / 2 + min(width, 256) * 1.04 * 2.0**-13)
    assert abs(found - float(weights.astype(float) @ values)) <= bound


@pytest.mark.parametrize("width", [5, 256])
def test_no_partial_sum_is_rounded(width):
    """Products and all of their partial sums, in exact arithmetic, are what float32 gives."""
    weights = RNG.normal(size=(40, width)).astype(np.float32) * 10.0 ** RNG.integers(-3, 4, (40, 1))
    values = RNG.choice([-1.0, 1.0, 0.3], (40, width))
    dot = jax.jit(jax.vmap(exact_dot))
    there = np.asarray(dot(jnp.asarray(weights, jnp.float32), jnp.asarray(values, jnp.float32)))
    order = RNG.permutation(width)
    back = dot(
        jnp.asarray(weights[:, order], jnp.float32), jnp.asarray(values[:, order], jnp.float32)
    )
    assert (there == np.asarray(back)).all()


def test_a_plain_product_does_depend_on_the_order():
    weights, values = RNG.normal(size=(2, 200, 128)).astype(np.float32)
    order = RNG.permutation(128)
    dot = jax.jit(jax.vmap(jnp.dot))
    assert (np.asarray(dot(weights, values)) != dot(weights[:, order], values[:, order])).any()


def test_values_beyond_one_count_as_one_and_nan_stays():
    weights = jnp.array([1.0, 2.0])
    assert float(exact_dot(weights, jnp.array([1e30, -jnp.inf]))) == -1.0
    assert jnp.isnan(exact_dot(weights, jnp.array([jnp.nan, 0.0])))
    assert float(exact_dot(jnp.zeros(2), jnp.ones(2))) == 0.0


def test_derivatives_are_those_of_the_plain_product():
    weights, values = jnp.array([0.3, -1.7]), jnp.array([0.5, 0.25])
    slopes = jax.grad(exact_dot, argnums=0)(weights, values)
    np.testing.assert_allclose(slopes, values)
