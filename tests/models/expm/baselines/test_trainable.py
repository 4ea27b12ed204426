"""Networks in training compute what the flat parameter vector computes, and are clipped as a whole."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from veilflow.models.expm.baselines.trainable import LOSS_FNS, trainable_of
from veilflow.models.expm.grud import GruD, Series
from veilflow.models.expm.loss import BoundedLoss
from veilflow.models.expm.network import Logistic, Mlp

NETWORKS = {
    "logistic": Logistic(num_features=3),
    "softmax": Logistic(num_features=3, num_classes=3),
    "mlp": Mlp(num_features=3, hidden=(4, 2)),
    "grud": GruD(num_features=3, hidden=2),
}


def record(name, rng):
    if name != "grud":
        return jnp.asarray(rng.uniform(-1, 1, 3), jnp.float32)
    mask = rng.integers(0, 2, (5, 3))
    parts = (rng.uniform(-1, 1, (5, 3)) * mask, mask, rng.uniform(0, 2, (5, 3)))
    return Series(*(jnp.asarray(part, jnp.float32) for part in parts))


@pytest.mark.parametrize("name", NETWORKS)
def test_the_flat_vector_is_the_same_network(name):
    rng, network = np.random.default_rng(0), NETWORKS[name]
    one = record(name, rng)
    many = jax.tree.map(lambda leaf: leaf[None], one)
    fresh = trainable_of(network, many, key=jax.random.key(1))
    model = jax.tree.map(lambda leaf: leaf + rng.normal(size=leaf.shape).astype("f"), fresh)
    theta = jnp.asarray(model.theta(), jnp.float32)
    assert theta.shape == (network.dim,)
    logits = jax.jit(type(model).logits)(model, one)
    own = jax.nn.sigmoid(logits[0]) if logits.shape == (1,) else jax.nn.softmax(logits)
    # exact sums round inputs to multiples of 2^-11
    np.testing.assert_allclose(jax.jit(network.outputs)(theta, one), own, atol=5e-3)


@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.parametrize("name", ["logistic", "softmax"])
def test_losses_are_what_they_are_called(name, label):
    rng, network = np.random.default_rng(0), NETWORKS[name]
    one = record(name, rng)
    model = trainable_of(network, one[None], key=jax.random.key(1))
    model = jax.tree.map(lambda leaf: leaf + 0.5, model)
    weights = np.asarray(model.logits(one))
    full = np.array([0, weights[0]]) if len(weights) == 1 else weights
    shares = np.exp(full) / np.exp(full).sum()
    place = jnp.asarray(label)
    assert LOSS_FNS["bce"](model, (one, place)) == pytest.approx(-np.log(shares[label]), rel=1e-5)
    squared = BoundedLoss("l2", network.num_classes)
    outputs = jnp.asarray(shares[1] if len(weights) == 1 else shares)
    assert LOSS_FNS["l2"](model, (one, place)) == pytest.approx(float(squared(outputs, place)))


def test_a_network_that_nobody_knows_is_refused():
    class Other:
        num_classes = 2

    with pytest.raises(TypeError, match="cannot be trained by gradients"):
        trainable_of(Other(), None, key=jax.random.key(0))  # type: ignore[arg-type]
