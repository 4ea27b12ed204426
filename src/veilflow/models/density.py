"""DP-NF: a private density over rows of numbers, by a normalizing flow.

After Waites and Cummings, "Differentially private normalizing flows for privacy-preserving density
estimation" (2021), made sound: Poisson sampling, add/remove adjacency, a public divisor, declared
bounds instead of scaling by the data, a fixed number of steps, and the PLD accountant. What the paper
reads from the data for free (means, scales, priors) is released first and paid for.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from veilflow._core import fields
from veilflow.engine.training import Training
from veilflow.flows import AbstractBase
from veilflow.models import density_parts as parts
from veilflow.models import domain as domains
from veilflow.models.architecture import Architecture
from veilflow.models.base_mixture import BaseMixture, base_mixture
from veilflow.models.density_base import SIMPLE
from veilflow.models.density_plan import CLAMPED, STARTS, DensityPlan, plan_density
from veilflow.models.domain import Box
from veilflow.models.estimator import Fit, facts_of
from veilflow.models.fitted_density import FittedDensityFlow
from veilflow.models.mixture import FittedMixtureDensity
from veilflow.models.record_count import RecordCount, num_records, roughly
from veilflow.models.rows import RowEstimator
from veilflow.models.settings import check_budget, is_training, seed
from veilflow.privacy.budget import Budget
from veilflow.releases.actnorm import ActNorms
from veilflow.releases.count import Count
from veilflow.releases.mixture import ExpectationMaximization
from veilflow.releases.release import Derived, Query, Release
from veilflow.releases.training import PrivateTraining, Task
from veilflow.releases.whitening import Whitening


@dataclass(frozen=True, kw_only=True)
class DensityFlow(RowEstimator[FittedDensityFlow]):
    """A density model to be fitted privately to rows of numbers.

    Guarantee:
        Everything `fit` returns is (epsilon, delta)-differentially private as `budget` says, for
        adding or removing one row, by the PLD accountant. The bounds, and the number of records if
        given, are declared public facts; nothing else is read from the rows without being paid for.

    Only the budget and the bounds are required. The planner (`models/density_plan.py`) sets whatever
    is left at None or "auto", from public facts alone. A setting that would have no effect, such as
    `training` where a grid is the whole model, is refused.

    Args:
        budget: The privacy budget of the whole fit. An infinite epsilon fits without privacy, for
            reference.
        bounds: `(low, high)`: two numbers, or one of each per column, from knowledge of the domain
            and not from the rows. Rows outside are clamped.
        row_norm: The largest Euclidean norm of a row, instead of bounds.
        num_records: The number of records, if it may be public. Otherwise a private count is paid
            for with 2 % of epsilon; "about 25000" says how large it will be, if that may be public.
        flow: The flow to train: `vf.maf(...)`, `vf.nsf(...)` or `vf.realnvp(...)`.
        base: What the flow starts from: "normal"; "logistic" or "student" (5 degrees of freedom),
            which expect rows far out and whose log-densities have a bounded slope; or "mixture" for a
            paid one (a grid in up to three dimensions of a box, private EM in more). Over a mixture by
            EM, the flow is the shape that all its components share. Also a fitted mixture of the same
            columns and domain, or declared values (`vf.BaseMixture.create`): this fit takes them as
            public, and all of its budget goes into the shape. If the mixture was fitted to the same
            records, its own guarantee must be added to this one, which says so.
        num_components: The number of normals of a base by private EM.
        start: What is released before base and training: "columns" (a map that makes every column
            normal; for a normal base, whitening follows), "whitening" (mean and covariance), "grid"
            (a density on a grid), "actnorm" (scales and shifts inside the flow), or "none".
        training: How the flow is trained, as `vf.Training(...)`.
        rehearse: Whether a mixture by EM is corrected, and its shape prepared, by what EM does to known
            mixtures with the same noise. It costs seconds and no budget.
        count_clamped: Also release, for 2 % of epsilon, how many rows lay outside the bounds.
        seed: For repeatable research, and for one fit only: two fits with the same seed have the
            same noise. The guarantee then says that the seed was chosen. Paid counts and grids stay
            random: declare `num_records` for runs that repeat exactly.

    Example:
        >>> import numpy as np, veilflow as vf
        >>> rows = np.random.default_rng(0).uniform(size=(1000, 2))
        >>> estimator = vf.DensityFlow(budget=vf.Budget(epsilon=1.0, delta=1e-6), bounds=(0, 1))
        >>> model = estimator.fit(rows)  # doctest: +SKIP
    """

    budget: Budget
    bounds: Any = None
    row_norm: float | None = None
    num_records: RecordCount = None
    flow: Architecture | None = None
    base: str | BaseMixture | FittedMixtureDensity = "auto"
    start: str = "auto"
    num_components: int | None = None
    training: Training = field(default_factory=Training)
    rehearse: bool = True
    count_clamped: bool = False
    seed: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_budget(self.budget)
        box = isinstance(self.domain, Box)
        fields.convert(
            self,
            bounds=fields.optional(domains.plain_bounds),
            row_norm=fields.optional(fields.positive),
            num_records=num_records,
            flow=fields.optional(fields.instance(Architecture, "vf.maf(...), vf.nsf(...)")),
            base=fields.either(fields.word("auto", *SIMPLE, "mixture"), base_mixture),
            start=fields.word("auto", *STARTS),
            num_components=fields.optional(fields.count()),
            training=is_training,
            rehearse=fields.flag,
            count_clamped=fields.flag,
            seed=seed,
        )
        self.training.rate(roughly(self.num_records))
        if self.start == "grid" and not box:
            raise ValueError("start='grid' needs bounds: a ball has no axes to cut along.")
        if self.start == "grid" and self.base in SIMPLE:
            raise ValueError("start='grid' makes the base. Leave base out, or give another start.")
        if self.start == "actnorm" and self.base == "mixture":
            raise ValueError("start='actnorm' leads to a normal base. Give another start or base.")
        if self.start == "columns" and not box:
            raise ValueError("start='columns' needs bounds for every column. Give bounds.")
        if isinstance(self.base, BaseMixture):
            self._check_beside(self.base)

    def _check_beside(self, base: BaseMixture) -> None:
        """Raise unless the other settings go with a mixture that is known before the fit."""
        base.check_domain(self.domain)
        if self.num_components is not None:
            raise ValueError(
                f"num_components={self.num_components} is for a base by private EM, and the base "
                f"that was given has {len(base.weights)} already. Leave num_components out."
            )
        if self.start not in ("auto", "none"):
            raise ValueError(
                f"start={self.start!r} would move the rows away from the mixture that was given as "
                "base. Leave start out, or give base='mixture' for one that is fitted after it."
            )
        if self.training.steps == 0:
            raise ValueError(
                "steps=0 leaves nothing to fit: the mixture that was given as base would be the "
                "model. Give steps above 0, or use the mixture itself."
            )

    def plan(self, dim: int | None = None) -> DensityPlan:
        """Everything that a fit will release and pay for: public, and known before the rows are.

        Args:
            dim: The number of columns, where the bounds do not say it.

        Raises:
            BudgetError: The settings cost more than the budget.
        """
        if dim is None and isinstance(self.base, BaseMixture):
            dim = self.base.dim
        return plan_density(self, self.num_columns(dim))

    def query(self, release: Release, fit: Fit) -> Query:
        if isinstance(release, Count):
            outside, rows = self.domain.outside, fit.source.records
            clamped = release.purpose == CLAMPED
            return Query(rows.map(lambda x: x[outside(x)]) if clamped else rows)
        if isinstance(release, Derived):
            return Query(None, {"make": parts.rehearsal_of(fit)})
        known: dict[str, Any] = {}
        if isinstance(release, Whitening | ActNorms | ExpectationMaximization):
            known["num_records"] = fit.num_records
        if isinstance(release, ActNorms):
            known["flow"] = parts.untrained(fit, self._base_of(fit))
        if isinstance(release, PrivateTraining):
            known["task"] = Task(
                plan=release.plan(fit.num_records),
                model=parts.untrained(fit, self._base_of(fit)),
                loss=parts.loss,
            )
        return Query(parts.behind_maps(self.coordinates(fit.source).map(_single), fit), known)

    def assemble(self, fit: Fit) -> FittedDensityFlow:
        plan: DensityPlan = fit.plan
        flow, assembly = parts.assembled(fit, self._base_of(fit))
        facts: dict[str, Any] = {"num_records": fit.num_records}
        if self.count_clamped:
            facts["clamped_rows"] = fit.released[CLAMPED]
        return FittedDensityFlow(
            flow=flow,
            assembly=assembly,
            columns=fit.source.columns,
            plan=plan,
            guarantee=plan.guarantee,
            facts=facts_of(plan, **facts),
        )

    def _base_of(self, fit: Fit) -> AbstractBase:
        if isinstance(self.base, BaseMixture):
            return self.base.within(self.domain)
        return parts.released_base(fit)


def _single(rows: np.ndarray) -> np.ndarray:
    return rows.astype(np.float32)
