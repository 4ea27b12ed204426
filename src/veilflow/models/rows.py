"""What models of rows of numbers share: a declared domain, how rows are read, samples and scores."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from veilflow._core import check
from veilflow._core.chunks import apply_in_chunks
from veilflow._core.keys import Secret
from veilflow.flows import AbstractBase
from veilflow.models import domain as domains
from veilflow.models.domain import Domain
from veilflow.models.estimator import Estimator, Model, Source
from veilflow.models.fitted import Fitted
from veilflow.models.sampling import AbstractSampler, blocks
from veilflow.models.settings import read_for
from veilflow.privacy.guarantees import Sensitive
from veilflow.releases.plan import FitPlan
from veilflow.tabular.io import read_rows

_CHUNK = 4096
"""Rows scored at once by one compiled program."""


@dataclass(frozen=True, kw_only=True, repr=False)
class RowPlan(FitPlan):
    """The plan of a fit to rows.

    Attributes:
        domain: The declared domain. It is part of the plan because the noise of a run in one domain
            must not be used again in another: a checkpoint belongs to its domain.
    """

    domain: Domain


class RowEstimator(Estimator[Model]):
    """Settings of a model of rows with declared bounds, or with a declared largest norm."""

    bounds: Any
    row_norm: float | None

    @property
    def domain(self) -> Domain:
        """The declared domain of the rows."""
        return domains.declared(bounds=self.bounds, row_norm=self.row_norm)

    @property
    def declared(self) -> tuple[str, ...]:
        """The facts that the guarantee takes as public."""
        return (self.domain.fact,)

    def read(self, data: Any, *, invalid: str = "error") -> Source:
        """Read the rows. There may be none: whether there is one is a fact about the records.

        Args:
            data: A two-dimensional array, a frame, or the path of a CSV, Parquet, Arrow or NumPy file.
            invalid: How to treat a cell that is not a finite number: "error" raises; "replace" moves
                an infinite cell to the nearer bound and any other cell to the lower one (with
                `row_norm`, to 0). Each row is read by itself: what it holds replaces nothing in
                another.
        """
        table = read_for(self.domain, data, invalid=invalid)
        dim = table.values.shape[1]
        self.domain.check_dim(dim)
        records = Sensitive(table.values, description=f"{dim} columns")
        return Source(records, {"dim": dim}, table.columns)

    def coordinates(self, source: Source) -> Sensitive[Any]:
        """The rows in flow coordinates, clamped to the domain."""
        domain = self.domain
        encode = lambda x: domain.encode(domain.clamp(x))  # noqa: E731
        return source.view("coordinates", lambda: source.records.map(encode))

    def num_columns(self, dim: int | None) -> int:
        """`dim`, or the number of columns that bounds are declared for.

        Raises:
            ValueError: Neither is known, or they differ.
        """
        domain = self.domain
        declared = max(domain.scale.size, domain.center.size)
        if dim is None and declared == 1:
            raise ValueError(
                "give dim, the number of columns: bounds for all columns do not say it."
            )
        dim = declared if dim is None else dim
        check.count(dim=dim)
        domain.check_dim(dim)
        return dim


@dataclass(frozen=True, kw_only=True, repr=False)
class RowDensity(Fitted, AbstractSampler):
    """A released density over flow coordinates, in the units of the data.

    Attributes:
        plan: The plan that was executed.
        columns: Names of the columns, if the rows had any.
    """

    plan: RowPlan
    columns: tuple[str, ...] | None

    @property
    def domain(self) -> Domain:
        """The declared domain of the rows."""
        return self.plan.domain

    @property
    @abstractmethod
    def density(self) -> AbstractBase:
        """The released density over flow coordinates."""

    def _blocks(self, num_rows: int, secret: Secret) -> Iterator[Float[np.ndarray, "rows dim"]]:
        return blocks(self.density, self.domain, num_rows, secret)

    def log_prob(self, rows: Any) -> Float[np.ndarray, " rows"]:
        """The natural logarithm of the density at each row, in the units of the data.

        The result for private rows is as private as the rows are.

        Args:
            rows: An array, a frame or a file, as for `fit`; a single row is allowed, too.
        """
        values = read_rows(rows, columns=self.columns).values
        if values.shape[1] != self.dim:
            raise ValueError(f"rows must have {self.dim} columns, got {values.shape[1]}.")
        coordinates = np.clip(self.domain.encode(values), -1e30, 1e30).astype(np.float32)
        density = self.density
        result = apply_in_chunks(lambda part: _log_prob(density, part), coordinates, size=_CHUNK)
        # NaN arises only where no row of the domain is: the density there is zero
        result = np.nan_to_num(result.astype(np.float64), nan=-np.inf, neginf=-np.inf)
        return result - self.domain.log_scale(self.dim)

    @classmethod
    def check_columns(cls, plan: RowPlan, public: dict[str, Any], dim: int) -> None:
        """Raise unless the domain and the columns of a file are for rows of `dim` numbers."""
        plan.domain.check_dim(dim)
        if public["columns"] is not None and len(public["columns"]) != dim:
            raise ValueError("columns must name every number of a row.")

    def _about(self) -> str:
        return f"columns: {self.dim if self.columns is None else ', '.join(self.columns)}"


@eqx.filter_jit
def _log_prob(density: AbstractBase, rows: Float[Array, "rows dim"]) -> Float[Array, " rows"]:
    return jax.vmap(density.log_prob)(jnp.asarray(rows))
