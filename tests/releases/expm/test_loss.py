"""Losses stay within their bound, whatever a network says."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilflow._core import codec
from veilflow.releases.expm.loss import LOSSES, BoundedLoss, in_units

PROBABILITIES = st.floats(0, 1, width=32)


@pytest.mark.parametrize("name", LOSSES)
@settings(max_examples=30, deadline=None)
@given(p=PROBABILITIES, label=st.integers(0, 1))
def test_two_classes_are_within_the_bound(name, p, label):
    loss = BoundedLoss(name)
    found = float(loss(jnp.float32(p), jnp.asarray(label)))
    assert 0 <= found <= loss.sensitivity


@pytest.mark.parametrize("name", LOSSES)
@settings(max_examples=20, deadline=None)
@given(
    logits=st.lists(st.floats(-50, 50, width=32), min_size=3, max_size=3), label=st.integers(0, 2)
)
def test_three_classes_are_within_the_bound(name, logits, label):
    loss = BoundedLoss(name, 3)
    outputs = jax.nn.softmax(jnp.array(logits, jnp.float32))
    found = float(loss(outputs, jnp.asarray(label)))
    assert 0 <= found <= loss.sensitivity * (1 + 1e-6)


def test_the_squared_distance_of_softmax_reaches_two_and_of_sigmoid_one():
    assert float(BoundedLoss("l2", 3)(jnp.array([1.0, 0, 0]), jnp.asarray(1))) == 2
    assert BoundedLoss("l2", 3).sensitivity == 2
    assert float(BoundedLoss("l2")(jnp.float32(1), jnp.asarray(0))) == 1
    assert BoundedLoss("l2").sensitivity == 1


@pytest.mark.parametrize("name", LOSSES)
def test_a_better_probability_never_costs_more(name):
    loss = BoundedLoss(name)
    p = jnp.linspace(0, 1, 201)
    for_one = jax.vmap(loss, (0, None))(p, jnp.asarray(1))
    for_zero = jax.vmap(loss, (0, None))(p, jnp.asarray(0))
    assert (np.diff(for_one) <= 1e-6).all()
    np.testing.assert_allclose(for_zero, for_one[::-1], atol=1e-5)
    assert for_one[0] == loss.sensitivity
    assert for_one[-1] == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("name", LOSSES)
def test_derivatives_are_finite_at_the_ends(name):
    loss = BoundedLoss(name)
    slopes = jax.vmap(jax.grad(loss), (0, None))(jnp.array([0.0, 0.5, 1.0]), jnp.asarray(1))
    assert jnp.isfinite(slopes).all()


@pytest.mark.parametrize("name", ["bce", "cross-entropy", "hinge"])
def test_an_unbounded_loss_is_refused_with_the_reason(name):
    with pytest.raises(ValueError, match=r"unbounded.*'clipped-ce'"):
        BoundedLoss(name)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"name": "l3"}, "loss must be one of"),
        ({"num_classes": 1}, "num_classes must be at least 2"),
        ({"ceiling": 0.0}, "ceiling must be positive"),
        ({"ceiling": 17.0}, "at most 16"),
    ],
)
def test_bad_settings(settings, match):
    with pytest.raises(ValueError, match=match):
        BoundedLoss(**settings)


def test_the_bound_in_units_is_rounded_down():
    assert in_units(1.0, bits=16) == 65536
    assert in_units(0.1, bits=4) == 1


def test_json_and_back():
    loss = BoundedLoss("clipped-ce", 3, ceiling=2.5)
    assert codec.restored(BoundedLoss, codec.plain(loss)) == loss
