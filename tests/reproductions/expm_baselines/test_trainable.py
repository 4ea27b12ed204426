"""Networks in training compute what the flat parameter vector computes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reproductions.expm_nf.baselines.trainable import LOSS_FNS, trainable_of

import veilflow as vf

NETWORKS = {
    "logistic": vf.expm.Logistic(num_features=3),
    "grud": vf.expm.GruD(num_features=3, hidden=2),
}

RNG = np.random.default_rng(0)


def record(name, rng):
    if name != "grud":
        return jnp.asarray(rng.uniform(-1, 1, 3), jnp.float32)
    mask = rng.integers(0, 2, (5, 3))
    parts = (rng.uniform(-1, 1, (5, 3)), mask, rng.uniform(0, 2, (5, 3)))  # a gap holds anything
    return tuple(jnp.asarray(part, jnp.float32) for part in parts)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_flat_vector_is_the_same_network(name):
    rng, network = np.random.default_rng(0), NETWORKS[name]
    one = record(name, rng)
    many = jax.tree.map(lambda leaf: leaf[None], one)
    fresh = trainable_of(network, many, key=jax.random.key(1))
    model = jax.tree.map(lambda leaf: leaf + rng.normal(size=leaf.shape).astype("f"), fresh)
    theta = jnp.asarray(model.theta(), jnp.float32)
    assert theta.shape == (network.dim,)
    own = jax.nn.sigmoid(jax.jit(type(model).logit)(model, one))
    # exact sums round inputs to multiples of 2^-11
    np.testing.assert_allclose(jax.jit(network.outputs)(theta, one), own, atol=5e-3)


@pytest.mark.parametrize("label", [0, 1])
def test_losses_are_what_they_are_called(label):
    one = record("logistic", np.random.default_rng(0))
    model = trainable_of(NETWORKS["logistic"], one[None], key=jax.random.key(1))
    model = jax.tree.map(lambda leaf: leaf + 0.5, model)
    share = 1 / (1 + np.exp(-float(model.logit(one))))
    given = share if label else 1 - share
    place = jnp.asarray(label)
    assert LOSS_FNS["bce"](model, (one, place)) == pytest.approx(-np.log(given), rel=1e-5)
    squared = vf.expm.BoundedLoss("l2")(jnp.asarray(share), place)
    assert LOSS_FNS["l2"](model, (one, place)) == pytest.approx(float(squared))


def test_dropout_leaves_out_states_and_keeps_their_mean():
    network, many = NETWORKS["grud"], jax.tree.map(lambda x: x[None], record("grud", RNG))
    model = trainable_of(network, many, key=jax.random.key(1), dropout=0.5)
    state = jnp.asarray([2.0, -1.0])
    reads = jax.vmap(lambda key: model.read(state, key))(jax.random.split(jax.random.key(0), 4_000))
    weight = model.readout.weight[0]
    # two states, each left out or doubled
    assert len(np.unique(np.asarray(reads).round(4))) == 4
    error = float(jnp.sqrt(jnp.sum((weight * state) ** 2) / 4_000))
    assert float(reads.mean() - model.read(state)) == pytest.approx(0, abs=5 * error)
    with pytest.raises(TypeError, match="hidden state"):
        trainable_of(NETWORKS["logistic"], many[0], key=jax.random.key(1), dropout=0.5)


def test_a_normalized_network_reads_normalized_states():
    network, one = NETWORKS["grud"], record("grud", RNG)
    many = jax.tree.map(lambda leaf: leaf[None], one)
    model = trainable_of(network, many, key=jax.random.key(1))
    mean, deviation = jnp.asarray([0.3, -0.1]), jnp.asarray([0.2, 0.7])
    expected = model.read((model.state(one) - mean) / deviation)
    np.testing.assert_allclose(model.normalized(mean, deviation).logit(one), expected, rtol=1e-5)


def test_a_network_that_nobody_knows_is_refused():
    with pytest.raises(TypeError, match="cannot be trained by gradients"):
        trainable_of(object(), None, key=jax.random.key(0))
