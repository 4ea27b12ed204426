"""GRU-D is its formula, record by record, and reads nothing in a gap."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.releases.expm.arrays_of import largest_array
from veilflow.releases.expm import target as targets
from veilflow.releases.expm.grud import GruD, Series
from veilflow.releases.expm.loss import BoundedLoss
from veilflow.releases.expm.prior import GaussianPrior
from veilflow.releases.expm.target import Target

NETWORK = GruD(num_features=3, hidden=4)
NUM, TIME = 5, 6
ONE = jax.jit(NETWORK.outputs)
EACH = jax.jit(jax.vmap(NETWORK.outputs, (None, 0)))


def series(rng, num=NUM, time=TIME, features=3) -> Series:
    mask = (rng.random((num, time, features)) < 0.4).astype(np.float32)
    values = rng.normal(size=mask.shape).astype(np.float32)
    since = np.cumsum(rng.random(mask.shape), axis=1).astype(np.float32)
    return Series(values, mask, since)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def by_hand(theta, hidden, values, mask, since):
    """The formula of the paper, one number at a time where that is clearer."""
    time, features = values.shape
    theta = list(np.asarray(theta, np.float64))

    def take(*shape):
        count = math.prod(shape)
        part = np.array(theta[:count]).reshape(shape)
        del theta[:count]
        return part / (math.sqrt(shape[1]) if len(shape) == 2 else 1)

    into, gates = take(3 * hidden, 2 * features), take(2 * hidden, hidden)
    candidate, bias = take(hidden, hidden), take(3 * hidden)
    decay, decay_bias = take(features), take(features)
    fade, fade_bias = take(hidden, features), take(hidden)
    readout, readout_bias = take(1, hidden), take()
    assert not theta
    sigmoid = lambda x: 1 / (1 + np.exp(-x))  # noqa: E731
    h, last = np.zeros(hidden), np.zeros(features)
    for t in range(time):
        x = np.zeros(features)
        for f in range(features):
            if mask[t, f]:
                last[f] = x[f] = values[t, f]
            else:
                x[f] = math.exp(-max(0.0, decay[f] * since[t, f] + decay_bias[f])) * last[f]
        h = np.exp(-np.maximum(0, fade @ since[t] + fade_bias)) * h
        driven = into @ np.concatenate([x, mask[t]]) + bias
        update = sigmoid(driven[:hidden] + gates[:hidden] @ h)
        reset = sigmoid(driven[hidden : 2 * hidden] + gates[hidden:] @ h)
        proposal = np.tanh(driven[2 * hidden :] + candidate @ (reset * h))
        h = (1 - update) * h + update * proposal
    return sigmoid(readout[0] @ h + readout_bias)


def test_outputs_are_those_of_a_plain_loop(rng):
    records = series(rng)
    for theta in 2 * rng.normal(size=(3, NETWORK.dim)).astype(np.float32):
        for record in zip(*records, strict=True):
            expected = by_hand(theta, NETWORK.hidden, *record)
            assert ONE(theta, Series(*record)) == pytest.approx(expected, abs=1e-5)


def test_many_parameters_and_records_at_once_are_one_by_one(rng):
    records, labels = series(rng), np.array([0, 1, 1, 0, 1], np.int32)
    thetas = rng.normal(size=(3, NETWORK.dim)).astype(np.float32)
    each = jax.jit(jax.vmap(jax.vmap(NETWORK.outputs, (None, 0)), (0, None)))
    one = [
        [ONE(theta, Series(*record)) for record in zip(*records, strict=True)] for theta in thetas
    ]
    np.testing.assert_allclose(each(thetas, records), one, atol=1e-6)
    target = _target(NETWORK)
    summed = np.square(np.asarray(one) - labels).sum(axis=1)
    np.testing.assert_allclose(target.losses(thetas, (records, labels)), summed, atol=1e-3)
    found = targets.log_weights(target, jnp.asarray(thetas), targets.on_device((records, labels)))
    np.testing.assert_allclose(found, -target.rate * summed, rtol=1e-4)


def test_what_stands_in_a_gap_is_never_read(rng):
    records, theta = series(rng), rng.normal(size=NETWORK.dim).astype(np.float32)
    broken = records._replace(values=np.where(records.mask > 0, records.values, np.nan))
    np.testing.assert_array_equal(EACH(theta, records), EACH(theta, broken))
    gradient = jax.grad(lambda theta: EACH(theta, broken).sum())(theta)
    assert np.isfinite(gradient).all()


def test_a_sensible_value_and_its_gap_are_told_apart(rng):
    records, theta = series(rng), rng.normal(size=NETWORK.dim).astype(np.float32)
    measured = np.argwhere(records.mask[0] > 0)[0]
    mask = records.mask.copy()
    mask[0, *measured] = 0
    moved = np.asarray(EACH(theta, records) != EACH(theta, records._replace(mask=mask)))
    assert moved.tolist() == [True, False, False, False, False]


def test_hundreds_of_large_networks_fit_into_memory_chunk_by_chunk():
    wide = GruD(num_features=80, hidden=32)
    assert wide.dim > 20_000
    num, shape = 200, (2_000, 48, 80)
    abstract: Any = jax.ShapeDtypeStruct(shape, jnp.float32)
    records = Series(abstract, abstract, abstract)
    labels = jax.ShapeDtypeStruct(shape[:1], jnp.int32)
    thetas = jax.ShapeDtypeStruct((num, wide.dim), jnp.float32)
    target = _target(wide)
    gradient = jax.grad(lambda thetas, *data: targets.log_weights(target, thetas, data).sum())
    # the records themselves have 2^23 numbers, all outputs of all hours at once would have 2^33
    assert largest_array(gradient, thetas, records, labels) < 2**25


def test_it_tells_two_classes_apart_and_no_more():
    with pytest.raises(ValueError, match="two classes"):
        GruD(num_features=3, num_classes=3)


@pytest.mark.parametrize("wrong", [{"num_features": 0}, {"num_features": 3, "hidden": 0}])
def test_sizes_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match="at least 1"):
        GruD(**wrong)


def _target(grud: GruD) -> Target:
    return Target(
        network=grud, loss=BoundedLoss("l2"), prior=GaussianPrior(1.0), epsilon=1.0, factor=2
    )
