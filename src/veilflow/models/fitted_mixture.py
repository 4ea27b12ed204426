"""A fitted mixture of normals: samples, log-densities, and the guarantee they carry."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from veilflow._core import check
from veilflow._core.keys import Secret
from veilflow.flows import GaussianMixture
from veilflow.models import artifact as artifacts
from veilflow.models import domain as domains
from veilflow.models.domain import Domain
from veilflow.models.em import Mixture
from veilflow.models.sampling import AbstractSampler, blocks
from veilflow.privacy.guarantees import Guarantee
from veilflow.privacy.ledger import Ledger
from veilflow.tabular.io import read_rows

_CHUNK = 8192
"""Rows handled at once, by one compiled program."""
_LARGEST = 1e6
"""Flow coordinates end near 2; nothing that was fitted is this far out."""


@dataclass(frozen=True, kw_only=True, repr=False)
class FittedMixtureDensity(AbstractSampler):
    """A released mixture. All of its methods are post-processing: they cost nothing.

    Attributes:
        mixture: The normals, in the flow coordinates of `domain`.
        domain: The declared bounds.
        columns: Names of the columns, where the rows had any.
        ledger: Every release that went into the model.
        guarantee: What the ledger adds up to, with its assumptions.
        settings: Public settings and released facts of the fit.
    """

    mixture: Mixture = field(repr=False)
    domain: Domain
    columns: tuple[str, ...] | None
    ledger: Ledger
    guarantee: Guarantee
    settings: dict[str, Any]

    @property
    def dim(self) -> int:
        """Numbers in a row."""
        return self.mixture.means.shape[1]

    @property
    def weights(self) -> Float[np.ndarray, " k"]:
        """How much of the mass each normal has."""
        return self.mixture.weights

    @property
    def means(self) -> Float[np.ndarray, "k dim"]:
        """The mean of each, in the units of the data."""
        return self.domain.decode(self.mixture.means)

    @property
    def covariances(self) -> Float[np.ndarray, "k dim dim"]:
        """The covariance of each, in the units of the data."""
        factors = self.domain.scale[:, None] * self.mixture.factors
        return factors @ np.swapaxes(factors, 1, 2)

    @cached_property
    def base(self) -> GaussianMixture:
        """The same density in flow coordinates, as a base that flows can start from."""
        mixture = self.mixture
        return GaussianMixture.create(mixture.weights, mixture.means, mixture.covariances)

    def _blocks(self, num_rows: int, secret: Secret) -> Iterator[Float[np.ndarray, "rows dim"]]:
        return blocks(self.base, self.domain, num_rows, secret)

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
        result = np.empty(len(values))
        for start in range(0, len(values), _CHUNK):
            part = coordinates[start : start + _CHUNK]
            padded = np.zeros((_CHUNK, self.dim), np.float32)
            padded[: len(part)] = part
            found = _log_prob(self.base, jnp.asarray(padded))
            result[start : start + _CHUNK] = np.asarray(found)[: len(part)]
        # far away the square of a coordinate overflows: the density there is zero
        return np.nan_to_num(result, nan=-np.inf, neginf=-np.inf) - self.domain.log_scale(self.dim)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one `*.veil` file, all or nothing."""
        artifacts.save(self.to_artifact(), path)

    def to_artifact(self) -> artifacts.Artifact:
        """The model as plain data."""
        return artifacts.Artifact(
            model="MixtureDensity",
            manifest=self.settings,
            ledger=self.ledger,
            guarantee=self.guarantee,
            schema={
                "columns": None if self.columns is None else list(self.columns),
                "domain": self.domain.to_json(),
            },
            arrays=self.mixture._asdict(),
        )

    @classmethod
    def from_artifact(cls, artifact: artifacts.Artifact) -> "FittedMixtureDensity":
        """The model that `to_artifact` described."""
        settings, columns, arrays = artifact.manifest, artifact.schema["columns"], artifact.arrays
        dim, k = settings["dim"], settings["num_components"]
        check.count(dim=dim, num_components=k)
        shapes = {"weights": (k,), "means": (k, dim), "factors": (k, dim, dim)}
        if {name: array.shape for name, array in arrays.items()} != shapes:
            raise ValueError("arrays do not have the shapes the settings ask for.")
        for array in arrays.values():
            if array.dtype != np.float64 or not (np.abs(array) < _LARGEST).all():
                raise ValueError("arrays must hold finite numbers in double precision.")
        domain = domains.from_json(artifact.schema["domain"])
        domain.check_dim(dim)
        if columns is not None and (type(columns) is not list or len(columns) != dim):
            raise ValueError("columns must name every number of a row.")
        model = cls(
            mixture=Mixture(**arrays),
            domain=domain,
            columns=None if columns is None else tuple(map(str, columns)),
            ledger=artifact.ledger,
            guarantee=artifact.guarantee,
            settings=settings,
        )
        assert (
            model.base.dim == dim
        )  # made now: weights or factors that make no density are refused
        return model

    def __repr__(self) -> str:
        names = self.dim if self.columns is None else ", ".join(self.columns)
        return f"FittedMixtureDensity(columns: {names}; {self.guarantee})"


@eqx.filter_jit
def _log_prob(base: GaussianMixture, rows: Float[Array, "rows dim"]) -> Float[Array, " rows"]:
    return jax.vmap(base.log_prob)(rows)
