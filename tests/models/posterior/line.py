"""A small problem with a known answer: a straight line, with normal errors and a normal prior."""

import jax
import jax.numpy as jnp
import numpy as np

NAMES = ("intercept", "slope")
ERROR, PRIOR = 0.5, 3.0
TRUTH = (0.7, -1.3)


def log_likelihood(theta: jax.Array, record: tuple[jax.Array, jax.Array]) -> jax.Array:
    x, y = record
    return -0.5 * ((y - theta[0] - theta[1] * x) / ERROR) ** 2


def log_prior(theta: jax.Array) -> jax.Array:
    return -0.5 * jnp.sum((theta / PRIOR) ** 2)


def records(number: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 2, number)
    y = TRUTH[0] + TRUTH[1] * x + ERROR * rng.standard_normal(number)
    return x.astype(np.float32), y.astype(np.float32)


def posterior(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance, in closed form."""
    design = np.stack([np.ones_like(x), x], axis=1).astype(np.float64)
    precision = design.T @ design / ERROR**2 + np.eye(2) / PRIOR**2
    covariance = np.linalg.inv(precision)
    return covariance @ (design.T @ y) / ERROR**2, covariance
