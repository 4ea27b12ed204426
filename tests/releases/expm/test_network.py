"""Networks are functions of one flat vector, and give probabilities."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from veilflow._core import codec
from veilflow.releases.expm.grud import GruD
from veilflow.releases.expm.network import VALUE_BITS, Logistic, Mlp, Network, exact_dot

NETWORKS = [
    Logistic(num_features=3),
    Logistic(num_features=3, num_classes=4),
    Mlp(num_features=3, hidden=(5, 4)),
    Mlp(num_features=3, hidden=(5,), num_classes=3),
]


@pytest.mark.parametrize("network", NETWORKS)
def test_outputs_are_probabilities(network):
    theta = jax.random.normal(jax.random.key(0), (network.dim,))
    outputs = jax.jit(network.outputs)(theta, jnp.array([0.5, -1.0, 0.1]))
    assert outputs.shape == (() if network.num_classes == 2 else (network.num_classes,))
    assert ((outputs >= 0) & (outputs <= 1)).all()
    if network.num_classes > 2:
        assert float(outputs.sum()) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("network", [*NETWORKS, GruD(num_features=2, hidden=3)])
def test_every_network_comes_back_from_its_settings(network):
    again = codec.restored(Network, codec.plain(network))
    assert again == network
    assert hash(again) == hash(network)
    assert network.width >= 1


def test_logistic_regression_is_the_textbook_one():
    theta = jnp.array([0.5, -2.0, 1.0, 0.25])
    record = jnp.array([0.5, -0.25, 1.0])  # on the grid of values
    z = 0.5 * 0.5 + 2 * 0.25 + 1 + 0.25
    found = float(Logistic(num_features=3).outputs(theta, record))
    assert found == pytest.approx(1 / (1 + np.exp(-z)), rel=1e-6)


def test_an_mlp_without_hidden_layers_is_refused():
    with pytest.raises(ValueError, match="at least one layer"):
        Mlp(num_features=3, hidden=())


def test_the_slope_of_a_network_is_not_that_of_a_step():
    network = Mlp(num_features=3, hidden=(5,))
    theta = jax.random.normal(jax.random.key(1), (network.dim,))
    slope = jax.jit(jax.grad(network.outputs))(theta, jnp.array([0.5, -1.0, 0.1]))
    assert (slope != 0).all()


# -- products whose rounding knows nothing of order, and stay close to the plain ones --------------

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
