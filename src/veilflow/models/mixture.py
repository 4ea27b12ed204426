"""DP-MoG: a private mixture of normals over rows of numbers, by expectation-maximization.

After Park, Foulds, Choudhary and Welling, "DP-EM: differentially private expectation maximization"
(2017), made sound: see `releases/mixture.py` for the mechanism and `releases/em.py` for what makes it
accurate.
"""

from dataclasses import dataclass, field
from typing import Any

from veilflow._core.fields import convert, count, optional, positive
from veilflow.models import domain as domains
from veilflow.models.estimator import Fit, facts_of
from veilflow.models.fitted_mixture import FittedMixtureDensity
from veilflow.models.row_density import RowPlan
from veilflow.models.row_estimator import RowEstimator
from veilflow.models.settings import check_budget, seed
from veilflow.privacy.budget import Budget
from veilflow.releases.mixture import ExpectationMaximization
from veilflow.releases.plan import spending
from veilflow.releases.release import Query, Release


@dataclass(frozen=True, kw_only=True)
class MixtureDensity(RowEstimator[FittedMixtureDensity]):
    """A mixture of normals to be fitted privately to rows of numbers.

    Guarantee:
        Everything `fit` returns is (epsilon, delta)-differentially private as `budget` says, for
        adding or removing one row, by the PLD accountant. Bounds, and the number of records if
        given, count as declared public facts; nothing else is read from the rows without being paid.

    Args:
        budget: What the whole fit may spend. An infinite epsilon fits without noise, for reference.
        bounds: `(low, high)`, numbers or one per column, from knowledge of the domain and not from
            the rows. Rows outside are clamped.
        row_norm: Instead of bounds: the largest Euclidean norm of a row.
        num_components: Normals in the mixture.
        num_records: How many records there are, if that may be known: a delta that is too large for
            them is then warned of before anything is spent. It is not needed otherwise, since the
            counts of the components are among what is released.
        steps: Steps of expectation-maximization; each is one release.
        seed: For repeatable research, and for one fit only: two fits with one seed have the same
            noise. The guarantee then says that the seed was chosen.

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
        convert(
            self,
            bounds=optional(domains.plain_bounds),
            row_norm=optional(positive),
            num_components=count(),
            num_records=optional(count()),
            steps=count(),
            seed=seed,
        )

    def plan(self, dim: int | None = None) -> RowPlan:
        """Everything that a fit will ask and pay: public, and known before the rows are.

        Args:
            dim: Number of columns, where bounds do not say it.

        Raises:
            BudgetError: The settings cost more than the budget.
        """
        dim = self.num_columns(dim)
        mixture = ExpectationMaximization(
            dim=dim,
            num_components=self.num_components,
            steps=self.steps,
            # rows spread evenly over the ball around the domain have this deviation
            spread=self.domain.radius(dim) / (dim + 2) ** 0.5,
            noise_multiplier=float(self.budget.private),
        )
        return RowPlan(
            model="MixtureDensity",
            domain=self.domain,
            budget=self.budget,
            releases=spending(self.budget, (mixture,)),
            declared=self.declared,
            num_records=self.num_records,
            seeded=self.seed is not None,
        )

    def query(self, release: Release, fit: Fit) -> Query:
        return Query(self.coordinates(fit.source))

    def assemble(self, fit: Fit) -> FittedMixtureDensity:
        plan, domain = fit.plan, self.domain
        mixture, counted = fit.released[ExpectationMaximization.purpose]
        # the mean of rows in a convex domain is in it
        means = domain.encode(domain.clamp(domain.decode(mixture.means)))
        number = plan.num_records or max(1, round(counted))
        return FittedMixtureDensity(
            mixture=mixture._replace(means=means),
            columns=fit.source.columns,
            plan=plan,
            guarantee=plan.guarantee,
            facts=facts_of(plan, num_records=number),
        )
