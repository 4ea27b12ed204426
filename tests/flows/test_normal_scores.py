"""Points as normal scores: there and back, volumes, shares, and rows at and beyond the ends."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from veilflow.flows.bijections.normal_scores import NormalScores
from veilflow.nn.frozen import trainable_part

SHARES = [np.array([0.5, 0.3, 0.2]), np.ones(1), np.array([3.0, 1.0])]
ENDS = np.array([3.0, 1.0, 2.0])


@pytest.fixture(scope="module")
def scores() -> NormalScores:
    return NormalScores.create(SHARES)


def points(number: int = 200) -> np.ndarray:
    return np.float32(ENDS * np.random.default_rng(0).uniform(size=(number, 3)))


def test_there_and_back(scores: NormalScores):
    x = points()
    z, log_det = jax.vmap(scores.inverse_and_log_det)(x)
    back, other = jax.vmap(scores.forward_and_log_det)(z)
    np.testing.assert_allclose(back, x, atol=1e-3)
    np.testing.assert_allclose(other, -log_det, atol=1e-5)


def test_the_log_determinant_is_that_of_the_jacobian(scores: NormalScores):
    x = points(50)
    inside = np.abs(x - np.round(x)).min(axis=1) > 0.01  # the slope jumps between units
    _, log_det = jax.vmap(scores.inverse_and_log_det)(x[inside])
    of = jax.vmap(jax.jacfwd(lambda x: scores.inverse_and_log_det(x)[0]))(x[inside])
    np.testing.assert_allclose(log_det, np.linalg.slogdet(of)[1], atol=1e-3)


def test_normal_numbers_are_units_in_their_shares_spread_evenly(scores: NormalScores):
    z = jax.random.normal(jax.random.key(1), (20_000, 3))
    x = np.asarray(jax.vmap(lambda z: scores.forward_and_log_det(z)[0])(z))
    for i, own in enumerate(SHARES):
        units = np.clip(np.floor(x[:, i]), 0, len(own) - 1)
        counted = np.bincount(units.astype(int), minlength=len(own)) / len(x)
        np.testing.assert_allclose(counted, own / own.sum(), atol=0.015)
        np.testing.assert_allclose(np.quantile(x[:, i] % 1, [0.25, 0.75]), [0.25, 0.75], atol=0.02)


@pytest.mark.parametrize("far", [-np.inf, -1e38, -1e-45, 0.0, 1e20, np.inf])
def test_a_point_at_or_beyond_an_end_has_a_bounded_score(scores: NormalScores, far: float):
    z, log_det = scores.inverse_and_log_det(jnp.full(3, far))
    assert np.isfinite(log_det)
    assert np.abs(z).max() < 5.3


def test_shares_are_never_trained(scores: NormalScores):
    trained, rest = trainable_part(scores)
    assert jax.tree.leaves(trained) == []
    assert len(jax.tree.leaves(rest)) == 2


@pytest.mark.parametrize(
    "bad", [[np.array([0.0, 1.0])], [np.array([])], [np.array([np.nan])], [np.array([-1.0])]]
)
def test_shares_must_be_positive_numbers(bad):
    with pytest.raises(ValueError, match="shares must be positive"):
        NormalScores.create(bad)
