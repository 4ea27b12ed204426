"""A mixture of normals that is known before a fit, as the base of a flow.

The fit takes the mixture as a public fact and pays nothing for it. Whether that is right depends on
where it comes from, which is kept beside its values and stated by the guarantee of the fit.
"""

import hashlib
import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from veilflow._core.codec import plain
from veilflow.flows import GaussianMixture
from veilflow.models.domain import Domain
from veilflow.models.mixture import FittedMixtureDensity

_FACT = "the base mixture"


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The fit that a mixture comes from.

    Attributes:
        domain: The declared domain of its rows.
        epsilon: The epsilon of its guarantee; infinite for a fit without privacy.
        delta: The delta of its guarantee.
    """

    domain: Domain
    epsilon: float
    delta: float


@dataclass(frozen=True, kw_only=True, repr=False)
class BaseMixture:
    """A mixture of normals in the units of the data, for `DensityFlow(base=...)`.

    `create` takes values from public knowledge. A fitted mixture is given to `DensityFlow` as it is.

    Attributes:
        weights: The weight of each normal.
        means: The mean of each normal.
        factors: The lower Cholesky factor of each covariance.
        origin: The fit that the mixture comes from; None for declared values.

    Example:
        >>> import veilflow as vf
        >>> vf.BaseMixture.create([0.5, 0.5], [[0.0], [3.0]], [[[1.0]], [[0.5]]])
        BaseMixture(components: 2, columns: 1)
    """

    weights: tuple[float, ...]
    means: tuple[tuple[float, ...], ...]
    factors: tuple[tuple[tuple[float, ...], ...], ...]
    origin: Origin | None = None

    @classmethod
    def create(cls, weights: Any, means: Any, covariances: Any) -> "BaseMixture":
        """A mixture of declared values, which must not come from the records.

        Args:
            weights: K positive numbers that sum to 1.
            means: K means, with one number per column.
            covariances: K symmetric positive definite matrices.

        Raises:
            ValueError: Shapes differ, or a value is out of range.
        """
        GaussianMixture.create(weights, means, covariances)  # or raise
        return cls._of(weights, means, np.linalg.cholesky(np.asarray(covariances, np.float64)))

    @classmethod
    def of(cls, model: FittedMixtureDensity) -> "BaseMixture":
        """The mixture of a fitted model."""
        claim, domain = model.guarantee, model.domain
        epsilon = claim.epsilon if claim.private else math.inf
        origin = Origin(domain=domain, epsilon=epsilon, delta=claim.delta)
        factors = domain.scale[:, None] * model.mixture.factors
        return cls._of(model.weights, model.means, factors, origin)

    @classmethod
    def _of(
        cls, weights: Any, means: Any, factors: Any, origin: Origin | None = None
    ) -> "BaseMixture":
        weights, means, factors = (
            _tuples(np.asarray(values, np.float64).tolist()) for values in (weights, means, factors)
        )
        return cls(weights=weights, means=means, factors=factors, origin=origin)

    @property
    def dim(self) -> int:
        """The number of columns."""
        return len(self.means[0])

    @property
    def digest(self) -> str:
        """A hash of the values and their origin, which stands for them in a plan."""
        text = json.dumps(plain(self), sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=32).hexdigest()

    @property
    def declared(self) -> tuple[str, ...]:
        """The fact that a fit takes as public; a private release is not one, but has a condition."""
        private = self.origin is not None and self.origin.epsilon < math.inf
        return () if private else (_FACT,)

    @property
    def conditions(self) -> tuple[str, ...]:
        """What the guarantee of a fit over this base rests on."""
        origin = self.origin
        if origin is None:
            return ()
        if origin.epsilon == math.inf:
            return (f"{_FACT} was fitted without privacy, to rows that are public",)
        return (
            f"{_FACT} was declared public: if it was fitted to the same records, its own guarantee, "
            f"epsilon {origin.epsilon:.4g} and delta {origin.delta:.3g} with its own assumptions, "
            "must be added to this one",
        )

    def within(self, domain: Domain) -> GaussianMixture:
        """The mixture in the flow coordinates of a domain."""
        means = domain.encode(np.asarray(self.means))
        factors = np.asarray(self.factors) / domain.scale[:, None]
        return GaussianMixture.create(self.weights, means, factors @ np.swapaxes(factors, 1, 2))

    def check_dim(self, dim: int) -> None:
        """Raise unless rows have as many columns as the mixture."""
        if dim != self.dim:
            raise ValueError(
                f"base is a mixture of {self.dim} columns, and there are {dim} here. Give one of the "
                "same columns, in the same order."
            )

    def check_domain(self, domain: Domain) -> None:
        """Raise unless the mixture belongs to a domain."""
        columns = max(domain.scale.size, domain.center.size)
        self.check_dim(self.dim if columns == 1 else columns)
        if self.origin is not None and not _same(domain, self.origin.domain):
            raise ValueError(
                f"base was fitted in another domain: {self.origin.domain}, and here it is {domain}. "
                "Declare the same bounds, or the same row_norm, for both fits."
            )
        self.within(domain)  # or raise

    def __repr__(self) -> str:
        return f"BaseMixture(components: {len(self.weights)}, columns: {self.dim})"


def base_mixture(name: str, value: Any) -> BaseMixture:
    """A rule for fields: a fitted mixture, or declared values."""
    if isinstance(value, FittedMixtureDensity):
        return BaseMixture.of(value)
    if isinstance(value, BaseMixture):
        return value
    raise TypeError(
        f"{name} must be a word, a fitted mixture as MixtureDensity(...).fit(rows) returns it, or "
        f"vf.BaseMixture.create(...), got {type(value).__name__}."
    )


def _same(one: Domain, other: Domain) -> bool:
    """Whether two domains are the same; bounds for all columns are bounds for each."""
    alike = np.all(one.scale == other.scale) and np.all(one.center == other.center)
    return type(one) is type(other) and bool(alike)


def _tuples(values: Any) -> Any:
    return tuple(map(_tuples, values)) if isinstance(values, list) else values
