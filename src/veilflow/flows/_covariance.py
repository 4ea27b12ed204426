"""Cholesky factors of declared or released covariances, in float64 on the host."""

from typing import Any

import numpy as np


def cholesky(covariance: Any, *, name: str = "covariance") -> np.ndarray:
    """The lower triangular L with L L^T = covariance, positive on its diagonal.

    Args:
        covariance: A symmetric positive definite matrix, or a stack of them.
        name: Its name in error messages.

    Returns:
        L, float64, of the same shape.

    Raises:
        ValueError: If it is not symmetric positive definite.
    """
    covariance = np.asarray(covariance, np.float64)
    if covariance.ndim < 2 or covariance.shape[-1] != covariance.shape[-2] or not covariance.size:
        raise ValueError(f"{name} must be a square matrix, got shape {covariance.shape}.")
    if not np.all(np.isfinite(covariance)):
        raise ValueError(f"{name} must be finite.")
    transposed = np.swapaxes(covariance, -1, -2)
    scale = np.abs(covariance).max(axis=(-1, -2), keepdims=True)
    if np.any(np.abs(covariance - transposed) > 1e-6 * scale):  # allows for float32 arithmetic
        raise ValueError(f"{name} must be symmetric. Take the mean of it and its transpose.")
    covariance = covariance / 2 + transposed / 2
    try:
        return np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        raise ValueError(
            f"{name} must be positive definite, got a smallest eigenvalue of "
            f"{np.linalg.eigvalsh(covariance).min():.3g}. A noisy one can be repaired by raising its "
            "eigenvalues to a positive floor."
        ) from None
