"""What all fitted densities share: scores, files and how they show themselves."""

import os
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from veilflow._core.keys import Secret
from veilflow.flows import AbstractBase
from veilflow.models import artifact as artifacts
from veilflow.models import domain as domains
from veilflow.models.domain import Domain
from veilflow.models.sampling import AbstractSampler, blocks
from veilflow.privacy.guarantees import Guarantee
from veilflow.tabular.io import read_rows

_CHUNK = 4096
"""Rows handled at once, by one compiled program."""


class AbstractFitted(AbstractSampler):
    """A released density over flow coordinates, seen in the units of the data."""

    domain: Domain
    guarantee: Guarantee

    @property
    @abstractmethod
    def density(self) -> AbstractBase:
        """The released density over flow coordinates."""

    @abstractmethod
    def to_artifact(self) -> artifacts.Artifact:
        """The model as plain data."""

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
        result, density = np.empty(len(values)), self.density
        for start in range(0, len(values), _CHUNK):
            part = coordinates[start : start + _CHUNK]
            padded = np.zeros((_CHUNK, self.dim), np.float32)
            padded[: len(part)] = part
            found = _log_prob(density, jnp.asarray(padded))
            result[start : start + _CHUNK] = np.asarray(found)[: len(part)]
        # far away the square of a coordinate overflows: the density there is zero
        return np.nan_to_num(result, nan=-np.inf, neginf=-np.inf) - self.domain.log_scale(self.dim)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one `*.veil` file, all or nothing."""
        artifacts.save(self.to_artifact(), path)

    def _schema(self) -> dict[str, Any]:
        """What the columns are, as `read_schema` takes it."""
        columns = None if self.columns is None else list(self.columns)
        return {"columns": columns, "domain": self.domain.to_json()}

    def __repr__(self) -> str:
        names = self.dim if self.columns is None else ", ".join(self.columns)
        return f"{type(self).__name__}(columns: {names}; {self.guarantee})"


def read_schema(schema: dict[str, Any], dim: int) -> tuple[Domain, tuple[str, ...] | None]:
    """The domain and the names of the columns in a file."""
    domain, columns = domains.from_json(schema["domain"]), schema["columns"]
    domain.check_dim(dim)
    if columns is not None and (type(columns) is not list or len(columns) != dim):
        raise ValueError("columns must name every number of a row.")
    return domain, None if columns is None else tuple(map(str, columns))


@eqx.filter_jit
def _log_prob(density: AbstractBase, rows: Float[Array, "rows dim"]) -> Float[Array, " rows"]:
    return jax.vmap(density.log_prob)(rows)
