"""Chained equations for missing cells: paid for, or for rows that are public.

Each column is regressed on the others, and a missing cell drawn from its regression. With normal errors
the chain ends at the normal of all columns, so that one matrix says everything: sums of products over
the pairs of cells that are there. It is released once. To fill a row is then a function of that row
alone. The usual program reads every row for every cell, unpaid: before a split, test rows then tell of
training rows, and an epsilon that comes later tells nothing. So nothing runs here until it is said
which of the two it is.

A model that learns with gaps (`vf.TableFlow` on nullable columns) needs no such step.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float

from veilflow._core.errors import PrivacyError
from veilflow._core.keys import Secret
from veilflow.models.assumptions import assuming
from veilflow.models.domain import Box
from veilflow.models.start.release import release
from veilflow.privacy import calibration
from veilflow.privacy.budget import Budget
from veilflow.privacy.events import Gaussian
from veilflow.privacy.guarantees import ClippedSum, Guarantee, Sensitive
from veilflow.privacy.ledger import Ledger

_SMALLEST = 1e-3
"""No variance, in coordinates of [-1, 1], is below this."""


@dataclass(frozen=True, kw_only=True)
class ChainedImputer:
    """Missing cells by chained linear regressions.

    Guarantee:
        With a budget, the fitted imputer is (epsilon, delta)-differentially private for adding or
        removing one row. Rows that it fills are as private as they were.

    Args:
        bounds: `(low, high)`, numbers or one per column, declared. Cells outside are clamped.
        budget: What the fit may spend.
        public: Instead of a budget: that all rows given to `fit` are public.
        seed: For repeatable research.
    """

    bounds: Any
    budget: Budget | None = None
    public: bool = False
    seed: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if (self.budget is None) != self.public:
            raise PrivacyError(
                "chained equations read all rows. Give a budget that pays for it, or public=True if "
                "all rows are public; not both. vf.TableFlow learns with gaps and needs neither."
            )

    def fit(self, rows: Any) -> "FittedImputer":
        """Learn how columns depend on each other. With a budget, a second call is a second spend.

        Args:
            rows: A two-dimensional array or frame of numbers, missing cells NaN.
        """
        rows = np.asarray(rows, np.float64)
        if rows.ndim != 2 or 0 in rows.shape:
            raise ValueError("rows must be a table with at least one row and one column.")
        box = Box.declared(self.bounds)
        box.check_dim(rows.shape[1])
        secret, dim = Secret.from_seed(self.seed), rows.shape[1]
        noise, ledger = 0.0, Ledger().assuming("bounds were declared, not read from the records")
        if self.budget is not None and self.budget.private:
            noise = calibration.calibrate(
                Gaussian, self.budget, bracket=(1e-3, 1e6), increasing=False, what="noise"
            )
            ledger = assuming(ledger, hardened=False, generator=True, seeded=secret.chosen)
        found = release(
            products(Sensitive(rows), box), noise_multiplier=noise, key=secret.key("imputation")
        )
        guarantee = None
        if self.budget is not None:
            ledger = ledger.spend(found.event, purpose="products of cells")
            guarantee = ledger.guarantee(delta=self.budget.delta)
        mean, covariance = _moments(np.asarray(found.value, np.float64), dim)
        return FittedImputer(mean, covariance, box, ledger, guarantee)


@dataclass(frozen=True)
class FittedImputer:
    """Released regressions.

    Attributes:
        mean: Of each column, in coordinates of [-1, 1].
        covariance: Of the columns.
        box: The declared bounds.
        ledger: What was spent.
        guarantee: What that adds up to; None where rows were public.
    """

    mean: Float[np.ndarray, " dim"]
    covariance: Float[np.ndarray, "dim dim"]
    box: Box
    ledger: Ledger
    guarantee: Guarantee | None

    def fill(self, rows: Any, *, seed: int | None = None) -> Float[np.ndarray, "rows dim"]:
        """Rows with a draw in each missing cell, given the row's own other cells.

        Args:
            rows: As for `fit`. What is returned is as private as they are.
            seed: To draw the same again; another one for each of several imputations.
        """
        z = _coordinates(np.asarray(rows, np.float64), self.box)
        rng = np.random.default_rng(seed)
        for gaps in np.unique(np.isnan(z), axis=0):
            here = (np.isnan(z) == gaps).all(axis=1)
            if not gaps.any():
                continue
            known = ~gaps
            slope = np.linalg.solve(
                self.covariance[np.ix_(known, known)], self.covariance[np.ix_(known, gaps)]
            )
            left = (
                self.covariance[np.ix_(gaps, gaps)] - self.covariance[np.ix_(gaps, known)] @ slope
            )
            values, vectors = np.linalg.eigh((left + left.T) / 2)
            root = vectors * np.sqrt(np.maximum(values, 0.0))
            drawn = rng.standard_normal((here.sum(), gaps.sum())) @ root.T
            drawn += self.mean[gaps] + (z[here][:, known] - self.mean[known]) @ slope
            z[np.ix_(here, gaps)] = np.clip(drawn, -1.0, 1.0)
        return self.box.decode(z * self.box.border)


def products(rows: Sensitive[Float[np.ndarray, "rows dim"]], box: Box) -> ClippedSum:
    """The sum over rows of aa^T, a = (which cells are there, the cells), as a vector.

    Guarantee:
        Cells are in [-1, 1] and 0 where missing, so |aa^T| = |a|^2 is at most twice the columns.
    """
    z = _coordinates(rows.open(), box)
    here = ~np.isnan(z)
    whole = np.concatenate([here, np.where(here, z, 0.0)], axis=1)
    upper = np.triu_indices(whole.shape[1])
    weight = np.where(upper[0] == upper[1], 1.0, 2.0**0.5)
    return ClippedSum((whole.T @ whole)[upper] * weight, 2.0 * z.shape[1])


def _coordinates(rows: np.ndarray, box: Box) -> np.ndarray:
    """Cells in [-1, 1]; what is not a finite number is missing."""
    missing = ~np.isfinite(rows)
    z = box.encode(box.clamp(np.where(missing, 0.0, rows))) / box.border
    return np.where(missing, np.nan, np.clip(z, -1.0, 1.0))


def _moments(total: np.ndarray, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance over the pairs of cells that are there, made positive definite."""
    upper = np.triu_indices(2 * dim)
    whole = np.zeros((2 * dim, 2 * dim))
    whole[upper] = total / np.where(upper[0] == upper[1], 1.0, 2.0**0.5)
    whole = whole + np.triu(whole, 1).T
    number = np.maximum(whole[:dim, :dim], 1.0)
    mean = np.clip(np.diag(whole[:dim, dim:]) / np.diag(number), -1.0, 1.0)
    means = whole[:dim, dim:].T / number  # of column i where column j is there
    covariance = whole[dim:, dim:] / number - means * means.T
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    return mean, (vectors * np.clip(values, _SMALLEST, None)) @ vectors.T
