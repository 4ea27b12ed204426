"""DP-MoG: a private mixture of normals over rows of numbers, by expectation-maximization.

After Park, Foulds, Choudhary and Welling, "DP-EM: differentially private expectation maximization"
(2017), made sound: see `releases/mixture.py` for the mechanism and `releases/em.py` for what makes it
accurate.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import jax
import numpy as np
from jaxtyping import Float

from veilflow._core import fields
from veilflow.flows import GaussianMixture
from veilflow.models import domain as domains
from veilflow.models.estimator import Fit, facts_of
from veilflow.models.fitted import ARRAYS
from veilflow.models.rows import RowDensity, RowEstimator, RowPlan
from veilflow.models.settings import check_budget, seed
from veilflow.privacy.budget import Budget
from veilflow.releases.em import Mixture
from veilflow.releases.mixture import ExpectationMaximization
from veilflow.releases.plan import spending
from veilflow.releases.release import Query, Release

_LARGEST = 1e6
"""Flow coordinates end near 2: no fit leads this far out."""


@dataclass(frozen=True, kw_only=True, repr=False)
class FittedMixtureDensity(RowDensity):
    """A released mixture. Its methods are post-processing and cost nothing.

    Attributes:
        mixture: The normals, in the flow coordinates of `domain`.
    """

    kind: ClassVar[str] = "MixtureDensity"

    mixture: Mixture = field(repr=False, metadata=ARRAYS)

    @property
    def dim(self) -> int:
        """The number of columns."""
        return self.mixture.means.shape[1]

    @property
    def weights(self) -> Float[np.ndarray, " k"]:
        """The weight of each normal."""
        return self.mixture.weights

    @property
    def means(self) -> Float[np.ndarray, "k dim"]:
        """The mean of each normal, in the units of the data."""
        return self.domain.decode(self.mixture.means)

    @property
    def covariances(self) -> Float[np.ndarray, "k dim dim"]:
        """The covariance of each normal, in the units of the data."""
        factors = self.domain.scale[:, None] * self.mixture.factors
        return factors @ np.swapaxes(factors, 1, 2)

    @property
    def density(self) -> GaussianMixture:
        """The released density over flow coordinates, which can be the base of a flow."""
        return self._base

    @cached_property
    def _base(self) -> GaussianMixture:
        mixture = self.mixture
        return GaussianMixture.create(mixture.weights, mixture.means, mixture.covariances)

    @classmethod
    def shapes(cls, plan: Any, public: dict[str, Any], *, num_numbers: int) -> Mixture:
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
            raise ValueError("arrays hold numbers that no fit can lead to.")
        GaussianMixture.create(tree.weights, tree.means, tree.covariances)  # or raise
        return tree


@dataclass(frozen=True, kw_only=True)
class MixtureDensity(RowEstimator[FittedMixtureDensity]):
    """A mixture of normals to be fitted privately to rows of numbers.

    Guarantee:
        Everything `fit` returns is (epsilon, delta)-differentially private as `budget` says, for
        adding or removing one row, by the PLD accountant. The bounds, and the number of records if
        given, are declared public facts; nothing else is read from the rows without being paid for.

    Args:
        budget: The privacy budget of the whole fit. An infinite epsilon fits without privacy, for
            reference.
        bounds: `(low, high)`: two numbers, or one of each per column, from knowledge of the domain
            and not from the rows. Rows outside are clamped.
        row_norm: The largest Euclidean norm of a row, instead of bounds.
        num_components: The number of normals in the mixture.
        num_records: The number of records, if it may be public. It serves to warn, before anything
            is spent, of a delta that is too large for it; the fit itself does not need it, because
            the counts of the components are among what is released.
        steps: The number of steps of expectation-maximization, each of which is released.
        seed: For repeatable research, and for one fit only: two fits with the same seed have the
            same noise. The guarantee then says that the seed was chosen.

    Example:
        >>> import numpy as np, veilflow as vf
        >>> rows = np.random.default_rng(0).normal(size=(5000, 2))
        >>> budget = vf.Budget(epsilon=1.0, delta=1e-6)
        >>> estimator = vf.MixtureDensity(budget=budget, bounds=(-4, 4), num_components=3)
        >>> model = estimator.fit(rows)  # doctest: +SKIP
    """

    budget: Budget
    bounds: Any = None
    row_norm: float | None = None
    num_components: int = 8
    num_records: int | None = None
    steps: int = 24
    seed: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_budget(self.budget)
        _ = self.domain
        fields.convert(
            self,
            bounds=fields.optional(domains.plain_bounds),
            row_norm=fields.optional(fields.positive),
            num_components=fields.count(),
            num_records=fields.optional(fields.count()),
            steps=fields.count(),
            seed=seed,
        )

    def plan(self, dim: int | None = None) -> RowPlan:
        """Everything that a fit will release and pay for: public, and known before the rows are.

        Args:
            dim: The number of columns, where the bounds do not say it.

        Raises:
            BudgetError: The settings cost more than the budget.
        """
        dim = self.num_columns(dim)
        mixture = ExpectationMaximization(
            dim=dim,
            num_components=self.num_components,
            steps=self.steps,
            spread=self.domain.spread(dim),
            noise_multiplier=float(self.budget.private),
        )
        return RowPlan(
            model="MixtureDensity",
            budget=self.budget,
            releases=spending(self.budget, (mixture,)),
            declared=self.declared,
            num_records=self.num_records,
            seeded=self.seed is not None,
            domain=self.domain,
        )

    def query(self, release: Release, fit: Fit) -> Query:
        return Query(self.coordinates(fit.source))

    def assemble(self, fit: Fit) -> FittedMixtureDensity:
        plan, domain = fit.plan, self.domain
        mixture, count = fit.released[ExpectationMaximization.purpose]
        # the mean of rows in a convex domain lies in it
        means = domain.encode(domain.clamp(domain.decode(mixture.means)))
        return FittedMixtureDensity(
            mixture=mixture._replace(means=means),
            columns=fit.source.columns,
            plan=plan,
            guarantee=plan.guarantee,
            facts=facts_of(plan, num_records=plan.num_records or max(1, round(count))),
        )
