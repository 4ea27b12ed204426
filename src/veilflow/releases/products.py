"""Sums of products of observed cells: what regressing all columns on each other requires."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from jaxtyping import Float

from veilflow.privacy.budget import Budget
from veilflow.privacy.guarantees import ClippedSum, Released, Sensitive
from veilflow.privacy.ledger import Ledger
from veilflow.privacy.mechanisms import gaussian_once
from veilflow.releases.gaussian import OneGaussian
from veilflow.releases.release import Tools
from veilflow.releases.rows import from_upper_triangle, upper_triangle

_NOISE = (1e-3, 1e6)
"""Range of noise multipliers that is searched."""
_SMALLEST = 1e-3
"""Floor of variances, in coordinates of [-1, 1]."""


@dataclass(frozen=True, kw_only=True)
class Products(OneGaussian):
    """Mean and covariance of columns with missing cells.

    Guarantee:
        One Gaussian mechanism for add/remove of one row. A row is a = (indicators of observed cells,
        cells), with cells in [-1, 1] and 0 where they are missing; |aa^T| = |a|^2 is at most twice
        the number of columns.

    Attributes:
        dim: Number of columns.
    """

    purpose: str = "products of cells"
    dim: int

    @property
    def numbers(self) -> int:
        return self.dim * (2 * self.dim + 1)

    def priced(self, budget: Budget, others: Ledger) -> Self:
        return self._with_least_noise(budget, others, bracket=_NOISE)

    def run(
        self, records: Sensitive[Float[np.ndarray, "rows dim"]], tools: Tools
    ) -> Released[np.ndarray]:
        """Release the sums. Cells are clamped to [-1, 1]; one that is not finite is missing."""
        return gaussian_once(
            products(records.open()),
            noise_multiplier=self.noise_multiplier,
            secret=tools.secret,
            purpose="imputation",
        )

    def result(self, value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance over the pairs of observed cells, made positive definite."""
        dim = self.dim
        sums = from_upper_triangle(value, 2 * dim)
        counts = np.maximum(sums[:dim, :dim], 1.0)
        mean = np.clip(np.diag(sums[:dim, dim:]) / np.diag(counts), -1.0, 1.0)
        means = sums[:dim, dim:].T / counts  # of column i over the rows with column j observed
        covariance = sums[dim:, dim:] / counts - means * means.T
        values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
        return mean, (vectors * np.clip(values, _SMALLEST, None)) @ vectors.T


def products(rows: Float[np.ndarray, "rows dim"]) -> ClippedSum:
    """The sum over rows of aa^T, as an upper triangle with the norm of the matrix."""
    observed = np.isfinite(rows)
    cells = np.clip(np.where(observed, rows, 0.0), -1.0, 1.0)
    both = np.concatenate([observed, cells], axis=1)
    return ClippedSum(upper_triangle(both.T @ both), 2.0 * rows.shape[1])
