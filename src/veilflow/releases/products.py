"""Sums of products of observed cells: what regressing all columns on each other requires."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from jaxtyping import Float

from veilflow.privacy import calibration
from veilflow.privacy.budget import Budget
from veilflow.privacy.events import Event, Gaussian, NonPrivate
from veilflow.privacy.guarantees import ClippedSum, Released, Sensitive
from veilflow.privacy.ledger import Ledger
from veilflow.privacy.mechanisms import gaussian_once
from veilflow.releases.release import Release, Tools

_NOISE = (1e-3, 1e6)
"""Where the noise multiplier is looked for."""
_SMALLEST = 1e-3
"""No variance, in coordinates of [-1, 1], is below this."""


@dataclass(frozen=True, kw_only=True)
class Products(Release):
    """Mean and covariance of columns with gaps.

    Guarantee:
        One Gaussian mechanism for add/remove of one row. A row is a = (which cells are there, the
        cells), with cells in [-1, 1] and 0 where they are missing; |aa^T| = |a|^2 is at most twice
        the number of columns.

    Attributes:
        dim: Number of columns.
        noise_multiplier: Noise over sensitivity; 0 for none, without privacy.
    """

    purpose: str = "products of cells"
    dim: int
    noise_multiplier: float

    @property
    def event(self) -> Event:
        return Gaussian(self.noise_multiplier) if self.noise_multiplier else NonPrivate()

    @property
    def num_draws(self) -> int:
        return self._numbers if self.noise_multiplier else 0

    @property
    def grids(self) -> tuple[tuple[float, int], ...]:
        return ((self.noise_multiplier, self._numbers),)

    @property
    def _numbers(self) -> int:
        return self.dim * (2 * self.dim + 1)

    def priced(self, budget: Budget, others: Ledger) -> Self:
        noise = calibration.calibrate(
            Gaussian, budget, bracket=_NOISE, increasing=False, ledger=others, what="noise"
        )
        return replace(self, noise_multiplier=noise)

    def run(
        self, records: Sensitive[Float[np.ndarray, "rows dim"]], tools: Tools
    ) -> Released[np.ndarray]:
        """Ask for the sums. A cell outside [-1, 1] is moved to it; one that is no number is missing."""
        return gaussian_once(
            products(records.open()),
            noise_multiplier=self.noise_multiplier,
            secret=tools.secret,
            purpose="imputation",
        )

    def result(self, value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance over the pairs of cells that are there, made positive definite."""
        dim = self.dim
        upper = np.triu_indices(2 * dim)
        whole = np.zeros((2 * dim, 2 * dim))
        whole[upper] = value / np.where(upper[0] == upper[1], 1.0, 2.0**0.5)
        whole = whole + np.triu(whole, 1).T
        number = np.maximum(whole[:dim, :dim], 1.0)
        mean = np.clip(np.diag(whole[:dim, dim:]) / np.diag(number), -1.0, 1.0)
        means = whole[:dim, dim:].T / number  # of column i where column j is there
        covariance = whole[dim:, dim:] / number - means * means.T
        values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
        return mean, (vectors * np.clip(values, _SMALLEST, None)) @ vectors.T


def products(rows: Float[np.ndarray, "rows dim"]) -> ClippedSum:
    """The sum over rows of aa^T, as its upper triangle with the norm of the whole."""
    here = np.isfinite(rows)
    cells = np.clip(np.where(here, rows, 0.0), -1.0, 1.0)
    whole = np.concatenate([here, cells], axis=1)
    upper = np.triu_indices(whole.shape[1])
    weight = np.where(upper[0] == upper[1], 1.0, 2.0**0.5)
    return ClippedSum((whole.T @ whole)[upper] * weight, 2.0 * rows.shape[1])
