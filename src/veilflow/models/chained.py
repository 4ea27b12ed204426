"""Chained equations for missing cells.

Each column is regressed on the others, and a missing cell is drawn from its regression. With normal
errors the chain converges to the normal of all columns, so one matrix suffices: the sums of products
over pairs of observed cells. It is released once. Filling a row is then a function of that row alone.
The usual implementation reads every row for every cell, unpaid: before a split, test rows then depend
on training rows, and an epsilon that is computed later means nothing.

A model that learns with gaps (`vf.TableFlow` on nullable columns) needs no such step.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from veilflow._core import check, fields
from veilflow.models.domain import Box, plain_bounds
from veilflow.models.estimator import Estimator, Fit, Source
from veilflow.models.fitted import ARRAYS, Fitted
from veilflow.models.settings import check_budget, seed
from veilflow.privacy.budget import Budget
from veilflow.privacy.guarantees import Sensitive
from veilflow.releases.plan import FitPlan, spending
from veilflow.releases.products import Products
from veilflow.tabular import arrays


class Normal(NamedTuple):
    """The normal of all columns, in coordinates of [-1, 1]."""

    mean: Float[np.ndarray, " dim"]
    covariance: Float[np.ndarray, "dim dim"]


@dataclass(frozen=True, kw_only=True, repr=False)
class FittedImputer(Fitted):
    """Released regressions. Filling rows is post-processing and costs nothing.

    Attributes:
        normal: Mean and covariance of the columns, in coordinates of [-1, 1].
        domain: The declared domain of the rows.
    """

    kind: ClassVar[str] = "ChainedImputer"

    normal: Normal = field(repr=False, metadata=ARRAYS)
    domain: Box

    def fill(self, rows: Any, *, seed: int | None = None) -> Float[np.ndarray, "rows dim"]:
        """Fill each missing cell with a draw, given the row's own other cells.

        Args:
            rows: As for `fit`. The filled rows are as private as these rows are.
            seed: For the same draws each time; use a different one for each of several imputations.
        """
        z, (mean, covariance) = _coordinates(_table(rows), self.domain), self.normal
        rng = np.random.default_rng(seed)
        for gaps in np.unique(np.isnan(z), axis=0):
            here, known = (np.isnan(z) == gaps).all(axis=1), ~gaps
            if not gaps.any():
                continue
            across = covariance[np.ix_(known, gaps)]
            slope = np.linalg.solve(covariance[np.ix_(known, known)], across)
            residual = covariance[np.ix_(gaps, gaps)] - across.T @ slope
            values, vectors = np.linalg.eigh((residual + residual.T) / 2)
            root = vectors * np.sqrt(np.maximum(values, 0.0))
            draws = rng.standard_normal((here.sum(), gaps.sum())) @ root.T
            draws += mean[gaps] + (z[here][:, known] - mean[known]) @ slope
            z[np.ix_(here, gaps)] = np.clip(draws, -1.0, 1.0)
        return self.domain.decode(z * self.domain.border)

    @classmethod
    def shapes(cls, plan: FitPlan, public: dict[str, Any], *, num_numbers: int) -> Normal:
        dim = plan.release(Products).dim
        public["domain"].check_dim(dim)
        if num_numbers != dim + dim**2:
            raise ValueError("the file does not have as many numbers as the settings require.")
        double = np.dtype(np.float64)
        shapes: Any = (jax.ShapeDtypeStruct(size, double) for size in ((dim,), (dim, dim)))
        return Normal(*shapes)


@dataclass(frozen=True, kw_only=True)
class ChainedImputer(Estimator[FittedImputer]):
    """An imputer of missing cells by chained linear regressions, to be fitted privately.

    Guarantee:
        The fitted imputer is (epsilon, delta)-differentially private as `budget` says, for adding or
        removing one row. Rows that it fills are as private as they were.

    Args:
        budget: The privacy budget of the whole fit. Chained equations read all rows: an infinite
            epsilon is only for rows that are public anyway.
        bounds: `(low, high)`: two numbers, or one of each per column, from knowledge of the domain
            and not from the rows. Cells outside are clamped.
        seed: For repeatable research, and for one fit only: two fits with the same seed have the
            same noise. The guarantee then says that the seed was chosen.

    Example:
        >>> import veilflow as vf
        >>> imputer = vf.ChainedImputer(bounds=(0, 10), budget=vf.Budget(epsilon=1.0, delta=1e-6))
        >>> rows = imputer.fit("gaps.csv").fill("gaps.csv")  # doctest: +SKIP
    """

    budget: Budget
    bounds: Any
    seed: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_budget(self.budget)
        fields.convert(self, bounds=plain_bounds, seed=seed)

    def plan(self, dim: int | None = None) -> FitPlan:
        """Everything that a fit will release and pay for: public, and known before the rows are.

        Args:
            dim: The number of columns, where the bounds do not say it.

        Raises:
            BudgetError: The settings cost more than the budget.
        """
        box = Box.declared(self.bounds)
        dim = len(box.low) if dim is None else dim
        check.count(dim=dim)
        box.check_dim(dim)
        products = Products(dim=dim, noise_multiplier=float(self.budget.private))
        return FitPlan(
            model="ChainedImputer",
            budget=self.budget,
            releases=spending(self.budget, (products,)),
            declared=("bounds",),
            seeded=self.seed is not None,
        )

    def read(self, data: Any) -> Source:
        """Read the rows of an array or frame. A cell that is not a finite number is a gap."""
        rows, box = _table(data), Box.declared(self.bounds)
        box.check_dim(rows.shape[1])
        return Source(Sensitive(_coordinates(rows, box)), {"dim": rows.shape[1]})

    def assemble(self, fit: Fit) -> FittedImputer:
        return FittedImputer(
            normal=Normal(*fit.released[Products.purpose]),
            domain=Box.declared(self.bounds),
            plan=fit.plan,
            guarantee=fit.plan.guarantee,
            facts={},
        )


def _table(rows: Any) -> Float[np.ndarray, "rows dim"]:
    """The cells in double precision, each read by itself; NaN where a cell is not a number."""
    array = arrays.as_array(rows)
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(
            "rows must be a table with at least one column, every row as long as the others."
        )
    return arrays.or_nan(arrays.numbers(array))


def _coordinates(rows: np.ndarray, box: Box) -> np.ndarray:
    """The cells in [-1, 1]; a cell that is not a finite number is missing."""
    missing = ~np.isfinite(rows)
    z = box.encode(box.clamp(np.where(missing, 0.0, rows))) / box.border
    return np.where(missing, np.nan, np.clip(z, -1.0, 1.0))
