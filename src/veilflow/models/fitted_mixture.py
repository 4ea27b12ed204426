"""A fitted mixture of normals: samples, log-densities, and the guarantee they carry."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import jax
import numpy as np
from jaxtyping import Float

from veilflow.flows import GaussianMixture
from veilflow.models.fitted import ARRAYS
from veilflow.models.row_density import RowDensity, RowPlan
from veilflow.releases.em import Mixture
from veilflow.releases.mixture import ExpectationMaximization

_LARGEST = 1e6
"""Flow coordinates end near 2; nothing that was fitted is this far out."""


@dataclass(frozen=True, kw_only=True, repr=False)
class FittedMixtureDensity(RowDensity):
    """A released mixture. All of its methods are post-processing: they cost nothing.

    Attributes:
        mixture: The normals, in the flow coordinates of `domain`.
    """

    kind: ClassVar[str] = "MixtureDensity"

    mixture: Mixture = field(repr=False, metadata=ARRAYS)

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

    @property
    def density(self) -> GaussianMixture:
        """The same density in flow coordinates, as a base that flows can start from."""
        return self._base

    @cached_property
    def _base(self) -> GaussianMixture:
        mixture = self.mixture
        return GaussianMixture.create(mixture.weights, mixture.means, mixture.covariances)

    @classmethod
    def shapes(cls, plan: RowPlan, public: dict[str, Any], *, num_numbers: int) -> Mixture:
        release = plan.release(ExpectationMaximization)
        dim, k = release.dim, release.num_components
        cls.check_columns(plan, public, dim)
        sizes = {"weights": (k,), "means": (k, dim), "factors": (k, dim, dim)}
        double = np.dtype(np.float64)
        shapes: Any = {n: jax.ShapeDtypeStruct(size, double) for n, size in sizes.items()}
        return Mixture(**shapes)

    @classmethod
    def checked(cls, tree: Mixture) -> Mixture:
        if not all((np.abs(array) < _LARGEST).all() for array in tree):
            raise ValueError("arrays hold numbers that no fit leads to.")
        GaussianMixture.create(tree.weights, tree.means, tree.covariances)  # or it makes no density
        return tree
