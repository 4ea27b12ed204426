"""A fitted mixture of normals: samples, log-densities, and the guarantee they carry."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from veilflow._core import check
from veilflow.flows import GaussianMixture
from veilflow.models import artifact as artifacts
from veilflow.models.domain import Domain
from veilflow.models.em import Mixture
from veilflow.models.fitted import AbstractFitted, read_schema
from veilflow.privacy.guarantees import Guarantee
from veilflow.privacy.ledger import Ledger

_CHUNK = 8192
"""Rows handled at once, by one compiled program."""
_LARGEST = 1e6
"""Flow coordinates end near 2; nothing that was fitted is this far out."""


@dataclass(frozen=True, kw_only=True, repr=False)
class FittedMixtureDensity(AbstractFitted):
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

    @property
    def density(self) -> GaussianMixture:
        """The same: a mixture needs no floor."""
        return self.base

    def to_artifact(self) -> artifacts.Artifact:
        """The model as plain data."""
        return artifacts.Artifact(
            model="MixtureDensity",
            manifest=self.settings,
            ledger=self.ledger,
            guarantee=self.guarantee,
            schema=self._schema(),
            arrays=self.mixture._asdict(),
        )

    @classmethod
    def from_artifact(cls, artifact: artifacts.Artifact) -> "FittedMixtureDensity":
        """The model that `to_artifact` described."""
        settings, arrays = artifact.manifest, artifact.arrays
        dim, k = settings["dim"], settings["num_components"]
        check.count(dim=dim, num_components=k)
        shapes = {"weights": (k,), "means": (k, dim), "factors": (k, dim, dim)}
        if {name: array.shape for name, array in arrays.items()} != shapes:
            raise ValueError("arrays do not have the shapes the settings ask for.")
        for array in arrays.values():
            if array.dtype != np.float64 or not (np.abs(array) < _LARGEST).all():
                raise ValueError("arrays must hold finite numbers in double precision.")
        domain, columns = read_schema(artifact.schema, dim)
        model = cls(
            mixture=Mixture(**arrays),
            domain=domain,
            columns=columns,
            ledger=artifact.ledger,
            guarantee=artifact.guarantee,
            settings=settings,
        )
        _ = model.base  # made now: weights or factors that make no density are refused
        return model
