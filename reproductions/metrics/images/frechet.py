"""The Frechet distance between two sets of features, each seen as a Gaussian.

As private as the images behind the features: no ledger pays for it.
"""

from typing import Any

import numpy as np
from jaxtyping import Float

from reproductions.metrics.rows import Rows, tables


def frechet_distance(features_a: Any, features_b: Any) -> float:
    """The squared Wasserstein distance between Gaussians with the two sets' moments.

    `|mean_a - mean_b|^2 + tr(A) + tr(B) - 2 tr((A B)^(1/2))`, with the covariances A and B. With any
    factors `A = F F'` and `B = G G'`, the last trace is the sum of the singular values of `F' G`. The
    factors come from eigenvalues of symmetric matrices, where rounding is harmless: no square root of
    the unsymmetric product A B, whose computed eigenvalues may be complex, is taken. Covariances of any
    rank are fine, so there may be fewer images than features; the distance is biased upwards then, so
    compare only distances of equally many images.

    Args:
        features_a: A row of features per image, at least two rows.
        features_b: Likewise, of the same features.
    """
    a, b = tables(features_a=features_a, features_b=features_b)
    for name, rows in (("features_a", a), ("features_b", b)):
        if len(rows) < 2:
            raise ValueError(f"{name} must have at least 2 rows: one row has no covariance.")
    (mean_a, factor_a), (mean_b, factor_b) = _moments(a), _moments(b)
    common = np.linalg.svd(factor_a.T @ factor_b, compute_uv=False).sum()
    spread = np.square(factor_a).sum() + np.square(factor_b).sum() - 2 * common
    # nonnegative but for rounding, which equal sets show
    return float(max(0.0, np.square(mean_a - mean_b).sum() + spread))


def _moments(
    rows: Rows,
) -> tuple[Float[np.ndarray, " dim"], Float[np.ndarray, "dim dim"]]:
    """Mean and a factor F of the covariance F F'."""
    mean = rows.mean(axis=0)
    centered = rows - mean
    values, vectors = np.linalg.eigh(centered.T @ centered / (len(rows) - 1))
    return mean, vectors * np.sqrt(np.maximum(values, 0))
