"""Flows over pixels: maps that can be inverted, and fits that spend their budget."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reproductions.dp_lflow import pixel_flows, pixels

import veilflow as vf
from veilflow.engine.observed import loose_size
from veilflow.flows import Flow
from veilflow.images import read_images

SHAPE = (1, 4, 4)


def small(scales: int = 1) -> Flow:
    flow = pixel_flows.glow(SHAPE, key=jax.random.key(0), scales=scales, blocks=1, hidden=3)
    return jax.tree.map(lambda x: x + 0.05, flow)


def test_the_flow_after_glow_is_a_map_with_the_determinant_it_tells():
    flow, x = small(scales=2), jax.random.normal(jax.random.key(1), (16,))

    @jax.jit
    def both(x):
        z, log_det = flow.bijection.inverse_and_log_det(x)
        slopes = jax.jacobian(lambda x: flow.bijection.inverse_and_log_det(x)[0])(x)
        return flow.bijection.forward_and_log_det(z), log_det, slopes

    (back, backwards), log_det, slopes = both(x)
    np.testing.assert_allclose(back, x, atol=1e-4)
    expected = np.linalg.slogdet(slopes)[1]
    np.testing.assert_allclose([log_det, -backwards], [expected] * 2, atol=1e-3)
    assert flow.public_log_prob() == 0  # linear maps are clipped with the rest
    assert loose_size(flow) == 0


def test_a_squeeze_makes_channels_of_the_four_corners_of_each_square():
    image = jnp.arange(16.0)
    small, _ = pixel_flows._squeezed(SHAPE).inverse_and_private_log_det(image)
    np.testing.assert_array_equal(small.reshape(4, 2, 2)[0], [[0, 2], [8, 10]])
    np.testing.assert_array_equal(small.reshape(4, 2, 2)[3], [[5, 7], [13, 15]])


def test_the_realnvp_has_about_the_papers_size():
    flow = jax.eval_shape(lambda: pixel_flows.dense((3, 32, 32), key=jax.random.key(0)))
    assert 130 < pixels.megabytes(flow) < 160


@pytest.mark.parametrize("epsilon", [10.0, pytest.param(float("inf"), marks=pytest.mark.slow)])
def test_a_fit_spends_its_budget_and_draws_bytes(epsilon, monkeypatch):
    monkeypatch.setitem(pixels.FLOWS, "pixels-glow", lambda shape, key: small())
    for settings in (pixels.PRIVATE, pixels.OPEN):
        monkeypatch.setitem(settings, "steps", 2)
        monkeypatch.setitem(settings, "sampling_rate", 0.5)
    monkeypatch.setattr(pixels, "AT_ONCE", 4)
    spec = vf.ImageSpec(height=4, width=4, classes=(0, 1))
    rng = np.random.default_rng(0)
    images = read_images(rng.integers(0, 256, (40, 4, 4), np.uint8), spec, labels=np.arange(40) % 2)
    budget = vf.Budget(epsilon=epsilon, delta=1e-3)
    model = pixels.fit("pixels-glow", images, budget=budget, seed=1)
    assert 0.9 * epsilon < model.guarantee.epsilon <= epsilon
    drawn = model.sample(5, seed=2)
    assert drawn.shape == (5, 1, 4, 4)
    assert drawn.dtype == np.uint8
    assert len({image.tobytes() for image in drawn}) == 5
    np.testing.assert_array_equal(model.sample(3, seed=2), drawn[:3])


@pytest.mark.parametrize("epsilon", [10.0, 1.0])
def test_what_is_planned_for_the_largest_flow_spends_the_budget_and_no_more(epsilon):
    budget = vf.Budget(epsilon=epsilon, delta=1e-5)
    _, ledger = pixels.planned(pixels.PRIVATE, budget, 35_000_000, num_records=20_000)
    assert 0.98 * epsilon < ledger.epsilon(delta=1e-5) <= epsilon
