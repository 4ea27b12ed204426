"""Surfaces from noisy values: exact where they are known, quadratic unless the values say otherwise."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from veilflow.models.posterior.population import population
from veilflow.models.posterior.surface import Known, draw_surfaces

RNG = np.random.default_rng(0)
POINTS = 3 * RNG.standard_normal((60, 2))


def known(function, *, noise=0.1, deviations=None):
    deviations = np.full(len(POINTS), noise) if deviations is None else deviations
    rounds = np.arange(len(POINTS)) % 2
    # the constants of rounds are not known
    values = np.array([function(u) for u in POINTS]) + np.where(rounds, 700.0, -40.0)
    values = values + deviations * np.random.default_rng(1).standard_normal(len(POINTS))
    gradient, precision = np.zeros(2), np.eye(2)
    return Known(gradient, precision, 0.01 * np.eye(2), POINTS, values, deviations, rounds)


def normal(u):
    return -0.5 * u @ u


def two_humps(u):
    return np.logaddexp(normal(np.subtract(u, [2.0, 0.0])), normal(np.add(u, [2.0, 0.0])))


def at(surface, points):
    u = jnp.broadcast_to(jnp.float32(points), (surface.trend.shape[0], *np.shape(points)))
    return np.asarray(surface(u))


@pytest.mark.parametrize("function", [normal, two_humps])
def test_the_expected_surface_is_near_the_true_one(function):
    _, expected = draw_surfaces(known(function), 2, np.random.default_rng(0), padded=70)
    places = np.random.default_rng(5).uniform(-2.5, 2.5, (40, 2))
    off = at(expected, places)[0] - [function(u) for u in places]
    assert np.std(off) < 0.25  # up to a constant


def test_draws_are_as_far_from_each_other_as_the_values_are_uncertain():
    spreads = []
    for noise in (0.1, 2.0):
        drawn, _ = draw_surfaces(
            known(normal, noise=noise), 64, np.random.default_rng(0), padded=70
        )
        heights = at(drawn, [[1.0, 0.0], [-1.0, 0.0]])
        spreads.append(np.std(heights[:, 0] - heights[:, 1]))
    # the slope that the rounds released has a deviation of 0.1, over a distance of 2
    assert spreads[0] < 0.1
    assert 0.1 < spreads[1] < 0.4


def test_values_that_are_only_noise_change_nothing():
    blind = known(normal, deviations=np.full(len(POINTS), 1e6))
    _, expected = draw_surfaces(blind, 2, np.random.default_rng(0), padded=70)
    heights = at(expected, [[0.0, 0.0], [2.0, 0.0], [0.0, -1.0]])[0]
    np.testing.assert_allclose(heights - heights[0], [0.0, -2.0, -0.5], atol=1e-2)


def test_a_population_has_both_modes_and_the_prior():
    surfaces, expected = draw_surfaces(known(two_humps), 4, np.random.default_rng(0), padded=70)
    draws = population(
        surfaces,
        expected,
        log_prior,
        (jnp.zeros(2), jnp.eye(2)),
        *map(jnp.float32, (8.0, 1.0, 3.0)),
        jax.random.key(0),
        size=64,
    )
    draws = np.asarray(draws).reshape(-1, 2)
    assert 0.3 < np.mean(draws[:, 0] > 0) < 0.7
    assert np.abs(draws[:, 0]).mean() == pytest.approx(2.0, abs=0.3)
    # the prior is as certain of the second parameter as the values are, and has another mean
    assert draws[:, 1].mean() == pytest.approx(0.5, abs=0.25)


@pytest.mark.parametrize("bend", [0.3, 30.0])
def test_draws_do_not_follow_a_surface_that_rises_where_no_points_are(bend):
    _, expected = draw_surfaces(known(normal), 2, np.random.default_rng(0), padded=70)
    rising = dataclasses.replace(expected, trend=expected.trend.at[0, 2].set(-bend))
    settings = ((jnp.zeros(2), jnp.eye(2)), *map(jnp.float32, (25.0, 1.0, 3.0)), jax.random.key(0))
    standard = lambda theta: -0.5 * jnp.sum(theta**2)  # noqa: E731
    draws = population(rising.repeated(4), rising, standard, *settings, size=64)
    assert np.abs(np.asarray(draws)).max() < 30.0
    if bend < 1:
        assert np.asarray(draws).std() < 3.0


def log_prior(theta):
    return -0.5 * (theta[1] - 1.0) ** 2


def test_one_surface_is_repeated_with_its_points():
    _, expected = draw_surfaces(known(normal), 2, np.random.default_rng(0), padded=70)
    three = expected.repeated(3)
    heights = at(three, POINTS[:4])
    np.testing.assert_array_equal(heights[0], heights[2])
    assert {f.name for f in dataclasses.fields(three)} >= {"trend", "points"}
