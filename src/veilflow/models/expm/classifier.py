"""ExpM+NF: private classifiers by one draw from the exponential mechanism.

After Bridges, Tombs and Stanley, "Differentially private training via the exponential mechanism and
normalizing flows" (2024), made sound: a proper public prior, exact sums of losses, samplers with an
unconditional guarantee, and for the others a sentence that says what it rests on.
"""

from dataclasses import dataclass, field
from typing import Any

from veilflow._core.fields import convert, count, optional, positive
from veilflow._core.keys import Secret
from veilflow.models import domain as domains
from veilflow.models.domain import Domain
from veilflow.models.estimator import Estimator, Fit, Source, facts_of
from veilflow.models.expm.classifier_plan import (
    Class,
    check_model,
    classes_of,
    loss_of,
    network_of,
    plan_classifier,
)
from veilflow.models.expm.fitted_classifier import FittedExpMechClassifier, Parameters
from veilflow.models.expm.inputs import places_of, read_inputs
from veilflow.models.settings import is_budget, seed
from veilflow.privacy.budget import Budget
from veilflow.privacy.guarantees import Sensitive
from veilflow.privacy.unit import Unit
from veilflow.releases.count import Count
from veilflow.releases.expm.diagnosis import DRAWS, Diagnosis, diagnose
from veilflow.releases.expm.draw import ExponentialDraw, sampler_of
from veilflow.releases.expm.flow_sampler import FlowSampler
from veilflow.releases.expm.prior import Prior, check_prior
from veilflow.releases.expm.target import Target
from veilflow.releases.plan import FitPlan
from veilflow.releases.release import Query, Release


@dataclass(frozen=True, kw_only=True)
class ExpMechClassifier(Estimator[FittedExpMechClassifier]):
    """A classifier to be drawn privately.

    Guarantee:
        Everything `fit` returns is differentially private as `budget` says, for adding or removing one
        record with its label. With sampler "zoom", "rejection" or "grid" that is unconditional, and
        delta may be 0. With "flow" or "hmc" it is CONDITIONAL on a sentence that travels with the
        guarantee. Bounds, classes, the prior, and the number of records if given, count as declared
        public facts.

    Args:
        budget: What the whole fit may spend.
        prior: The public prior of the parameters: `vf.GaussianPrior(2.0)` or `vf.LaplacePrior(1.0)`.
            Features are scaled to [-1, 1], so a scale of 1 to 5 is usual.
        sampler: "zoom" for rows with up to a few dozen features, "rejection" where epsilon times
            records is below about 15, "grid" for one or two parameters, "flow" and "hmc" without
            proof; or settings of one of them, from `vf.expm`.
        model: "logistic", "mlp", or "grud" for series with gaps; or a network from `vf.expm`.
        loss: "l2", "ramp" or "clipped-ce"; or a `vf.expm.BoundedLoss`.
        bounds: `(low, high)`, numbers or one per feature, from knowledge of the domain and not from
            the records. Values outside are clamped.
        row_norm: Instead of bounds: the largest Euclidean norm of a row.
        num_records: The number of records, if it may be known. Otherwise samplers that need it pay
            for a private count, with 2 % of epsilon.
        num_models: The number of parameter vectors that are released. They share the budget, and
            predictions are their mean.
        classes: All values of a label, in the order of the columns of `predict_proba`.
        seed: For repeatable research, and for one fit only. Exact samplers draw from the entropy of
            the operating system, which no seed controls.

    Example:
        >>> import numpy as np, veilflow as vf
        >>> rows = np.random.default_rng(0).uniform(-1, 1, (5000, 3))
        >>> budget = vf.Budget(epsilon=1.0, delta=0)
        >>> estimator = vf.ExpMechClassifier(
        ...     budget=budget, prior=vf.GaussianPrior(2.0), bounds=(-1, 1), num_records=5000
        ... )
        >>> model = estimator.fit(rows, (rows[:, 0] > 0).astype(int))  # doctest: +SKIP
    """

    budget: Budget
    prior: Prior | None = None
    sampler: Any = "zoom"
    model: Any = "logistic"
    loss: Any = "l2"
    bounds: Any = None
    row_norm: float | None = None
    num_records: int | None = None
    num_models: int = 1
    classes: tuple[Class, ...] = (0, 1)
    seed: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        is_budget("budget", self.budget)
        if not self.budget.private:
            raise ValueError(
                "epsilon must be finite: the exponential mechanism has no limit to draw from. For a "
                "classifier without privacy use another library, such as scikit-learn."
            )
        check_prior(self.prior)
        check_model(self.model)
        _ = self.domain
        convert(
            self,
            sampler=lambda _, value: sampler_of(value),
            classes=lambda _, value: classes_of(value),
            bounds=optional(domains.plain_bounds),
            row_norm=optional(positive),
            num_records=optional(count()),
            num_models=count(),
            seed=seed,
        )
        convert(self, loss=lambda _, value: loss_of(value, num_classes=len(self.classes)))

    @property
    def domain(self) -> Domain:
        """The declared bounds of the rows."""
        return domains.declared(bounds=self.bounds, row_norm=self.row_norm)

    def plan(self, num_features: int | None = None) -> FitPlan:
        """Everything that a fit will ask and pay: public, and known before the records are.

        Args:
            num_features: Numbers in a row, or at each time of a series; needed where neither bounds
                nor the network imply it.

        Raises:
            BudgetError: The settings cost more than the budget.
            ValueError: The target is out of the sampler's reach.
        """
        assert self.prior is not None
        num_classes = len(self.classes)
        target = Target(
            network=network_of(self.model, self.domain, num_features, num_classes=num_classes),
            loss=self.loss,
            prior=self.prior,
            epsilon=self.budget.epsilon,
        )
        return plan_classifier(
            ExponentialDraw(target=target, sampler=self.sampler, num_models=self.num_models),
            domain=self.domain,
            budget=self.budget,
            num_records=self.num_records,
            seeded=self.seed is not None,
        )

    def read(self, features: Any, labels: Any, *, invalid: str = "error") -> Source:
        """Records with labels, scaled to [-1, 1] by the declared bounds.

        Args:
            features: Rows: a two-dimensional array, a frame, or the path of a file. Series: a tuple of
                values, mask (1 where measured) and time since the last measurement, each of shape
                (records, time, features).
            labels: One declared class per record. It is no error if all records have the same class:
                that would reveal a fact about them.
            invalid: What to do about cells that are not finite numbers and labels outside the
                declared classes: "error", or "replace". Infinite cells are replaced by the nearer
                bound, other cells by the lower one (with `row_norm`, by 0; in a series, by a gap),
                and labels by the first class. Each record is read by itself: no cell affects
                another record.
        """
        inputs = read_inputs(features, invalid=invalid)
        self.domain.check_dim(inputs.num_features)
        places = places_of(labels, self.classes, num=len(inputs), invalid=invalid)
        records = Sensitive(
            (inputs.scaled(self.domain), places),
            description="records with labels",
            unit=Unit.RECORD,
        )
        return Source(records, {"num_features": inputs.num_features}, inputs.columns)

    def diagnose(
        self, features: Any, labels: Any, *, draws: int = DRAWS, invalid: str = "error"
    ) -> Diagnosis:
        """How well the flow of sampler "flow" approximates its target, for public records.

        A flow is trained on these records as `fit` would train it. They count as public or generated:
        nothing is paid, so never give private ones. Take as many as there are private records, because
        the target gets narrower with their number. See `vf.expm.Diagnosis` for what the numbers prove.

        Args:
            features: As for `fit`.
            labels: As for `fit`.
            draws: Number of draws from the flow.
            invalid: As for `fit`.

        Raises:
            ValueError: The sampler is not a flow.
        """
        if not isinstance(self.sampler, FlowSampler):
            raise ValueError(
                f"sampler={self.sampler.name!r} trains no flow, so there is nothing to diagnose. Use "
                "sampler='flow'."
            )
        inputs = read_inputs(features, invalid=invalid)
        places = places_of(labels, self.classes, num=len(inputs), invalid=invalid)
        return diagnose(
            self.sampler,
            self.plan(inputs.num_features).release(ExponentialDraw).target,
            (inputs.scaled(self.domain), places),
            secret=Secret.from_seed(self.seed),
            draws=draws,
        )

    def query(self, release: Release, fit: Fit) -> Query:
        if isinstance(release, Count):
            return Query(fit.source.records.map(lambda records: records[1]))
        return Query(fit.source.records, {"num_records": _num_records(fit)})

    def assemble(self, fit: Fit) -> FittedExpMechClassifier:
        plan, number = fit.plan, _num_records(fit)
        return FittedExpMechClassifier(
            domain=self.domain,
            columns=fit.source.columns,
            classes=self.classes,
            parameters=Parameters(fit.released[ExponentialDraw.purpose]),
            plan=plan,
            guarantee=plan.guarantee,
            facts={} if number is None else facts_of(plan, num_records=number),
        )


def _num_records(fit: Fit) -> int | None:
    """The declared or paid number of records; None where the fit did not need it."""
    known = Count.purpose in fit.released or fit.plan.num_records is not None
    return fit.num_records if known else None
