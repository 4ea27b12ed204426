"""What fitted densities over rows of numbers share: samples, scores and how they show themselves."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from veilflow._core.chunks import apply_in_chunks
from veilflow._core.keys import Secret
from veilflow.flows import AbstractBase
from veilflow.models.domain import Domain
from veilflow.models.fitted import Fitted
from veilflow.models.sampling import AbstractSampler, blocks
from veilflow.releases.plan import FitPlan
from veilflow.tabular.io import read_rows

_CHUNK = 4096
"""Rows handled at once, by one compiled program."""


@dataclass(frozen=True, kw_only=True)
class RowPlan(FitPlan):
    """The plan of a fit of rows.

    Attributes:
        domain: As declared. Noise of a run in one domain must not be used again in another, so a
            checkpoint belongs to it.
    """

    domain: Domain


@dataclass(frozen=True, kw_only=True, repr=False)
class RowDensity(Fitted, AbstractSampler):
    """A released density over flow coordinates, seen in the units of the data.

    Attributes:
        plan: What was executed.
        columns: Names of the columns, where the rows had any.
    """

    plan: RowPlan
    columns: tuple[str, ...] | None

    @property
    def domain(self) -> Domain:
        """The declared bounds."""
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
            rows: Array, frame or file, as for `fit`; also single rows.
        """
        values = read_rows(rows, columns=self.columns).values
        if values.shape[1] != self.dim:
            raise ValueError(f"rows must have {self.dim} columns, got {values.shape[1]}.")
        coordinates = np.clip(self.domain.encode(values), -1e30, 1e30).astype(np.float32)
        density = self.density
        result = apply_in_chunks(lambda part: _log_prob(density, part), coordinates, size=_CHUNK)
        # what rounds to no number lies where no row of the domain is: the density there is zero
        result = np.nan_to_num(result.astype(np.float64), nan=-np.inf, neginf=-np.inf)
        return result - self.domain.log_scale(self.dim)

    @classmethod
    def check_columns(cls, plan: RowPlan, public: dict[str, Any], dim: int) -> None:
        """Raise unless domain and columns of a file are for `dim` numbers a row."""
        plan.domain.check_dim(dim)
        if public["columns"] is not None and len(public["columns"]) != dim:
            raise ValueError("columns must name every number of a row.")

    def _about(self) -> str:
        return f"columns: {self.dim if self.columns is None else ', '.join(self.columns)}"


@eqx.filter_jit
def _log_prob(density: AbstractBase, rows: Float[Array, "rows dim"]) -> Float[Array, " rows"]:
    return jax.vmap(density.log_prob)(jnp.asarray(rows))
