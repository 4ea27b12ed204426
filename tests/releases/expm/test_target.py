"""One record moves every sum of losses by 0 to the sensitivity: exactly, whatever it holds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilflow.privacy.unit import Adjacency
from veilflow.releases.expm import target as targets
from veilflow.releases.expm.loss import BoundedLoss
from veilflow.releases.expm.network import Logistic, Mlp
from veilflow.releases.expm.prior import GaussianPrior
from veilflow.releases.expm.target import Target

RNG = np.random.default_rng(0)
DIM = 3


def target(network=None, loss="l2", **settings) -> Target:
    network = network or Logistic(num_features=DIM)
    settings = {"epsilon": 1.0, "prior": GaussianPrior(1.0), **settings}
    return Target(network=network, loss=BoundedLoss(loss, network.num_classes), **settings)


def records(num: int, num_classes: int = 2):
    x = RNG.uniform(-1, 1, (num, DIM)).astype(np.float32)
    return x, RNG.integers(0, num_classes, num).astype(np.int32)


TARGETS = {
    "logistic": target(),
    "three classes": target(Logistic(num_features=DIM, num_classes=3)),
    "mlp": target(Mlp(num_features=DIM, hidden=(4,)), "clipped-ce"),
    "ramp": target(loss="ramp"),
}
HOSTILE = st.sampled_from(
    [np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-45, 1e30, -1.0, 0.0, 1.0, 0.1, 2.0**-12]
)


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=15, deadline=None)
@given(
    record=st.lists(HOSTILE, min_size=DIM, max_size=DIM),
    label=st.integers(0, 1),
    place=st.integers(0, 40),
    seed=st.integers(0, 2**16),
)
def test_a_hostile_neighbor_moves_sums_by_zero_to_the_sensitivity(name, record, label, place, seed):
    t = TARGETS[name]
    rng = np.random.default_rng(seed)
    thetas = (rng.normal(size=(8, t.dim)) * 10.0 ** rng.integers(-3, 6, (8, 1))).astype(np.float32)
    x, y = records(40, t.network.num_classes)
    more = (
        np.insert(x, place, np.array(record, np.float32), axis=0),
        np.insert(y, place, label),
    )
    moved = t.losses(thetas, more) - t.losses(thetas, (x, y))
    assert (moved >= 0).all()
    assert (moved <= t.loss.sensitivity).all()


def test_a_record_across_a_border_of_chunks_moves_no_other(monkeypatch):
    """All later records change their place in a chunk, and the last of each its chunk."""
    monkeypatch.setattr(targets, "_NUM_RECORDS", 64)
    t = target(Mlp(num_features=DIM, hidden=(4,)))
    thetas = RNG.normal(size=(16, t.dim)).astype(np.float32) * 5
    x, y = records(400)
    alone = t.losses(thetas, (x[:1], y[:1]))
    assert (t.losses(thetas, (x, y)) - t.losses(thetas, (x[1:], y[1:])) == alone).all()


@pytest.mark.parametrize("name", TARGETS)
def test_sums_are_exact_and_do_not_depend_on_the_order(name):
    t = TARGETS[name]
    thetas = RNG.normal(size=(5, t.dim)).astype(np.float32)
    x, y = records(300, t.network.num_classes)
    sums = t.losses(thetas, (x, y))
    order = RNG.permutation(300)
    assert (t.losses(thetas, (x[order], y[order])) == sums).all()
    assert (sums * 2**16 == np.round(sums * 2**16)).all()
    one_by_one = sum(t.losses(thetas, (x[i : i + 1], y[i : i + 1])) for i in range(30))
    assert (one_by_one == t.losses(thetas, (x[:30], y[:30]))).all()
    # what need not be exact is the same up to rounding each loss
    smooth = jax.vmap(t.loss_sum, (0, None))(jnp.asarray(thetas), (jnp.asarray(x), jnp.asarray(y)))
    np.testing.assert_allclose(sums, smooth, atol=300 * 2.0**-16, rtol=1e-5)


def test_nan_counts_as_the_largest_loss():
    t = target()
    bad = (np.full((2, DIM), np.nan, np.float32), np.zeros(2, np.int32))
    assert (t.losses(np.ones((3, t.dim), np.float32), bad) == 2.0).all()


def test_no_records_cost_nothing():
    t = target()
    none = (np.zeros((0, DIM), np.float32), np.zeros(0, np.int32))
    assert (t.losses(np.ones((3, t.dim), np.float32), none) == 0).all()


def test_many_parameter_vectors_are_summed_as_one_by_one():
    t = target()
    thetas = RNG.normal(size=(200, t.dim)).astype(np.float32)
    data = records(50)
    together = t.losses(thetas, data)
    assert together.shape == (200,)
    assert (
        np.concatenate([t.losses(thetas[i : i + 1], data) for i in range(20)]) == together[:20]
    ).all()


def test_density_is_prior_times_weight():
    t = target(epsilon=0.5, factor=2)
    theta, data = jnp.array([0.5, -1.0, 0.25, 0.0]), tuple(map(jnp.asarray, records(20)))
    weight = float(t.log_weight(theta, data))
    assert weight == pytest.approx(-0.5 * float(t.loss_sum(theta, data)) / 2)
    expected = weight + float(t.prior.log_prob(theta))
    assert float(t.log_density(theta, data)) == pytest.approx(expected)


def test_the_factor_follows_the_adjacency():
    assert target(factor=1).adjacency is Adjacency.ADD_REMOVE
    assert target(factor=2).adjacency is Adjacency.REPLACE_ONE
    assert target(factor=2, epsilon=3.0).rate == 1.5
    with pytest.raises(ValueError, match="factor must be 1 or 2"):
        target(factor=3)


def test_epsilon_of_zero_is_refused():
    with pytest.raises(ValueError, match="epsilon must be positive"):
        target(epsilon=0.0)


def test_loss_and_network_must_be_for_as_many_classes():
    with pytest.raises(ValueError, match="2 classes and the network 3"):
        Target(
            network=Logistic(num_features=2, num_classes=3),
            loss=BoundedLoss("l2"),
            prior=GaussianPrior(1.0),
            epsilon=1.0,
        )
