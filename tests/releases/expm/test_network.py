"""Networks are functions of one flat vector, and give probabilities."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from veilflow._core import codec
from veilflow.releases.expm.grud import GruD
from veilflow.releases.expm.network import Logistic, Mlp, Network

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
