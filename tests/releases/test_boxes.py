"""A mixture fitted to boxes of mass: plain EM, exact where it can be checked."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from veilflow.releases.boxes import fit_mixture, log_density


def random_boxes(count: int, dim: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    low = rng.uniform(0, 0.9, size=(count, dim))
    high = low + rng.uniform(0.01, 0.1, size=(count, dim))
    mass = rng.uniform(0.1, 1, size=count)
    return mass / mass.sum(), low, high


def moments_of_boxes(mass, low, high) -> tuple[np.ndarray, np.ndarray]:
    centers = (low + high) / 2
    mean = mass @ centers
    within = np.diag(mass @ ((high - low) ** 2 / 12))
    return mean, (centers * mass[:, None]).T @ centers + within - np.outer(mean, mean)


@pytest.mark.parametrize(("count", "dim"), [(1, 1), (5, 2), (200, 1), (200, 2), (100, 3)])
def test_the_mixture_has_the_moments_of_the_boxes(count, dim):
    boxes = random_boxes(count, dim)
    weights, means, covariances = fit_mixture(*boxes, num_components=8)
    assert weights.sum() == pytest.approx(1)
    assert (weights > 0).all()
    assert len(weights) <= min(8, count)
    mean = weights @ means
    second = covariances + means[:, :, None] * means[:, None, :]
    covariance = np.tensordot(weights, second, 1) - np.outer(mean, mean)
    expected = moments_of_boxes(*boxes)
    np.testing.assert_allclose(mean, expected[0], atol=1e-5)
    np.testing.assert_allclose(covariance, expected[1], atol=1e-5)
    assert (np.linalg.eigvalsh(covariances) > 0).all()


def test_two_clusters_are_found():
    side = np.linspace(0, 1, 65)
    low, high = side[:-1, None], side[1:, None]
    density = stats.norm(0.2, 0.03).pdf((low + high) / 2) + stats.norm(0.8, 0.05).pdf(
        (low + high) / 2
    )
    mass = density[:, 0] / density.sum()
    weights, means, covariances = fit_mixture(mass, low, high, num_components=2)
    order = np.argsort(means[:, 0])
    np.testing.assert_allclose(means[order, 0], [0.2, 0.8], atol=0.01)
    np.testing.assert_allclose(covariances[order, 0, 0] ** 0.5, [0.03, 0.05], atol=0.005)
    np.testing.assert_allclose(weights, 0.5, atol=0.02)


def test_a_spike_and_an_empty_rest_give_a_density():
    low = np.arange(16)[:, None] / 16
    mass = np.full(16, 1e-9)
    mass[3] = 1
    found = fit_mixture(mass / mass.sum(), low, low + 1 / 16, num_components=8)
    assert all(np.isfinite(part).all() for part in found)
    assert (np.linalg.eigvalsh(found[2]) > 0).all()


def test_the_fit_repeats():
    boxes = random_boxes(50, 2)
    one, two = (fit_mixture(*boxes, num_components=5) for _ in range(2))
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dim", [1, 3])
def test_the_log_density_is_that_of_scipy(dim):
    rng = np.random.default_rng(2)
    weights, means = np.array([0.2, 0.5, 0.3]), rng.uniform(size=(3, dim))
    factors = 0.2 * rng.normal(size=(3, dim, dim))
    covariances = factors @ factors.transpose(0, 2, 1) + 1e-3 * np.eye(dim)
    x = rng.uniform(size=(40, dim))
    pairs = zip(means, covariances, strict=True)
    parts = [stats.multivariate_normal(m, c).logpdf(x) for m, c in pairs]
    expected = logsumexp(np.stack(parts, axis=1) + np.log(weights), axis=1)
    np.testing.assert_allclose(log_density(x, weights, means, covariances), expected, atol=1e-6)
