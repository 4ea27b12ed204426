"""Squashing maps: exact log-determinants, and what a round trip through float32 can and cannot do."""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from tests.flows import hostile
from veilflow.flows import AbstractBijection, Flow, Logit, Sigmoid, StandardNormal, Tanh, Uniform

KINDS = [Sigmoid, Logit, Tanh]


@lru_cache
def batched(bijection: AbstractBijection, direction: str):
    run = jax.jit(jax.vmap(getattr(bijection, direction)))
    return lambda values: tuple(map(np.asarray, run(jnp.asarray(values, jnp.float32)[:, None])))


def squash(kind: type, values) -> tuple[np.ndarray, np.ndarray]:
    """Toward the interval."""
    direction = "inverse_and_log_det" if kind is Logit else "forward_and_log_det"
    return batched(kind(1), direction)(values)


def stretch(kind: type, values) -> tuple[np.ndarray, np.ndarray]:
    """Back to the line."""
    direction = "forward_and_log_det" if kind is Logit else "inverse_and_log_det"
    return batched(kind(1), direction)(values)


@pytest.mark.parametrize("kind", KINDS)
def test_log_dets_toward_the_interval_are_exact_up_to_1e4(kind: type):
    z = np.float32([0.0, 1e-3, 1.0, 10.0, 50.0, 100.0, 1e3, 1e4])
    z = np.concatenate([-z, z])
    _, log_det = squash(kind, z)
    size = np.abs(np.float64(z)) * (2 if kind is Tanh else 1)
    exact = -size - 2 * np.log1p(np.exp(-size)) + (2 * np.log(2) if kind is Tanh else 0)
    np.testing.assert_allclose(log_det, exact, rtol=1e-6, atol=1e-6)


RANGES = {Sigmoid: (-16.0, 9.0, 16.6356), Logit: (-16.0, 9.0, 16.6356), Tanh: (-5.0, 5.0, 8.6644)}


@pytest.mark.parametrize("kind", KINDS)
def test_a_round_trip_keeps_three_digits_where_promised_and_ends_at_the_edge(kind: type):
    low, high, edge = RANGES[kind]
    z = np.linspace(low, high, 2001, dtype=np.float32)
    back, log_det = stretch(kind, squash(kind, z)[0][:, 0])
    np.testing.assert_allclose(back[:, 0], z, atol=1e-3)
    np.testing.assert_allclose(log_det, -squash(kind, z)[1], atol=2e-3)
    # further out float32 has no number for the image but the edge itself
    back, _ = stretch(kind, squash(kind, [-1e4, -50.0, 50.0, 1e4])[0][:, 0])
    np.testing.assert_allclose(back[:, 0], [-edge, -edge, edge, edge], rtol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_points_at_and_beyond_the_edge_are_taken_as_just_inside(kind: type):
    outside = [-1e6, -1.0, 1.0, 1e6]
    edge = RANGES[kind][2]
    z, log_det = stretch(kind, outside)
    np.testing.assert_allclose(z[:, 0], [-edge, -edge, edge, edge], rtol=1e-4)
    assert np.all(log_det > edge - 1)


@pytest.mark.parametrize("kind", KINDS)
def test_squashing_maps_stay_finite_at_hostile_points(kind: type):
    hostile.assert_finite(kind(3))


def test_a_uniform_seen_through_a_logit_is_a_logistic():
    flow = Flow(Uniform(1, 0.0, 1.0), Logit(1))
    x = np.linspace(-12, 8, 41, dtype=np.float32)
    ours = jax.jit(jax.vmap(flow.log_prob))(x[:, None])
    np.testing.assert_allclose(ours, stats.logistic.logpdf(x), rtol=1e-5)


@pytest.mark.parametrize(("kind", "low"), [(Sigmoid, 0.0), (Tanh, -1.0)])
def test_a_squashed_normal_integrates_to_one_on_its_interval(kind: type, low: float):
    flow = Flow(StandardNormal(1), kind(1))
    x = np.linspace(low, 1, 20_001, dtype=np.float32)
    density = np.exp(np.float64(jax.jit(jax.vmap(flow.log_prob))(x[:, None])))
    np.testing.assert_allclose(np.trapezoid(density, x), 1, atol=1e-3)


def test_a_squashing_map_of_no_coordinate_is_refused():
    with pytest.raises(ValueError, match="size must be at least 1"):
        Sigmoid(0)
