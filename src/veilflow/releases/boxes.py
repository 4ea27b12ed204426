"""A smooth density from boxes of mass: a mixture of normals fitted to released boxes by plain EM.

A histogram has edges that its data had not. A mixture fitted to it has none, and knows nothing that
the histogram does not say: this is post-processing of a release.
"""

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

_ROUNDS = 60
_RIDGE = 1e-6
"""Smallest variance, as a part of the unit cube's side squared."""


def fit_mixture(
    mass: Float[np.ndarray, " boxes"],
    low: Float[np.ndarray, "boxes dim"],
    high: Float[np.ndarray, "boxes dim"],
    *,
    num_components: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights, means and covariances of a mixture close to mass spread evenly over boxes.

    A box enters by its exact first and second moments, and responsibilities are taken at its center.
    """
    rng = np.random.default_rng(0)  # public: it only picks where EM starts
    centers, dim = (low + high) / 2, low.shape[1]
    spread = ((high - low) ** 2 / 12)[:, :, None] * np.eye(dim)
    second = centers[:, :, None] * centers[:, None, :] + spread
    num_components = min(num_components, len(mass))
    means = _spread_out(centers, mass, num_components, rng)
    weights = np.full(num_components, 1 / num_components)
    size = num_components ** (-1 / dim) / 2
    covariances = np.broadcast_to(size**2 * np.eye(dim) / 4, (num_components, dim, dim))
    for _ in range(_ROUNDS):
        log_joint = np.log(weights) + _log_normal(centers, means, covariances)
        log_joint -= log_joint.max(axis=1, keepdims=True)
        shares = np.exp(log_joint)
        shares *= (mass / shares.sum(axis=1))[:, None]
        weights = np.maximum(shares.sum(axis=0), 1e-12)
        means = shares.T @ centers / weights[:, None]
        moments = (shares.T @ second.reshape(len(mass), -1)).reshape(-1, dim, dim)
        covariances = moments / weights[:, None, None] - means[:, :, None] * means[:, None, :]
        covariances = (covariances + covariances.transpose(0, 2, 1)) / 2 + _RIDGE * np.eye(dim)
        kept = weights > 1e-6
        weights, means, covariances = weights[kept], means[kept], covariances[kept]
        weights = weights / weights.sum()
    return weights, means, covariances


def log_density(
    x: Float[np.ndarray, "rows dim"],
    weights: np.ndarray,
    means: np.ndarray,
    covariances: np.ndarray,
) -> Float[np.ndarray, " rows"]:
    """Log-density of a mixture."""
    return np.asarray(logsumexp(np.log(weights) + _log_normal(x, means, covariances), axis=1))


def _spread_out(
    centers: np.ndarray, mass: np.ndarray, num_components: int, rng: np.random.Generator
) -> np.ndarray:
    """Starting means, far from each other, by the k-means++ rule."""
    chosen = [rng.choice(len(mass), p=mass / mass.sum())]
    distance = np.full(len(mass), np.inf)
    while len(chosen) < num_components:
        distance = np.minimum(distance, ((centers - centers[chosen[-1]]) ** 2).sum(axis=1))
        odds = mass * distance
        if not odds.sum() > 0:
            break
        chosen.append(rng.choice(len(mass), p=odds / odds.sum()))
    return centers[chosen]


def _log_normal(x: np.ndarray, means: np.ndarray, covariances: np.ndarray) -> np.ndarray:
    """Log-density of every point under every component, as one matrix product.

    The square (x - m)' P (x - m) is linear in the products of coordinates, the coordinates and 1. In
    a unit cube, with variances no smaller than the ridge, doubles lose nothing that matters by it.
    """
    dim = x.shape[1]
    precisions = np.linalg.inv(covariances)
    pulled = np.einsum("kij,kj->ki", precisions, means)
    constant = np.linalg.slogdet(precisions)[1] - dim * np.log(2 * np.pi)
    constant -= np.einsum("ki,ki->k", pulled, means)
    products = (x[:, :, None] * x[:, None, :]).reshape(len(x), -1)
    features = np.concatenate([products, x, np.ones((len(x), 1))], axis=1)
    columns = [-0.5 * precisions.reshape(len(means), -1), pulled, 0.5 * constant[:, None]]
    return features @ np.concatenate(columns, axis=1).T
