"""DP-AD: an ensemble of models without privacy, whose votes answer queries with privacy."""

import os
from dataclasses import dataclass, field
from typing import Any

from veilflow._core import fields
from veilflow._core.errors import PrivacyError
from veilflow.engine.training import Training
from veilflow.models import domain as domains
from veilflow.models.architecture import Architecture
from veilflow.models.detect.counter import InFile, InMemory, check_free
from veilflow.models.detect.ensemble_plan import (
    MIXTURE,
    Answering,
    EnsemblePlan,
    part_models,
    uniform_log_density,
)
from veilflow.models.detect.fitted_ensemble import FittedEnsemble
from veilflow.models.estimator import Fit
from veilflow.models.rows import RowEstimator
from veilflow.models.settings import is_budget, is_training, seed
from veilflow.privacy.budget import Budget
from veilflow.releases.answers import Answers
from veilflow.releases.part_densities import PartModels
from veilflow.releases.plan import spending
from veilflow.releases.release import Query, Release

UNIFORM = "uniform"
_MAX_PARTS = 10_000


@dataclass(frozen=True, kw_only=True)
class EnsembleDetector(RowEstimator[FittedEnsemble]):
    """Anomalies by vote: the records are split into parts, and each part's model has one vote.

    The models are trained without privacy and never leave: what is private is every *answer*. So a
    query costs budget, unlike those of a `LikelihoodDetector`, and their number is limited. `fit`
    releases nothing: what it returns, and its checkpoint, are as private as the records.

    Guarantee:
        All answers together keep to the budget, however many up to the limit are asked for and however
        each is chosen from the answers before; for adding or removing one row. Noise is drawn exactly.
        The models, the votes and the number of records of a part are not released.

    Args:
        budget: What all answers together may cost. A delta of 0 is enough, except for "noisy_max".
        answers: How and how often the ensemble answers, as `vf.Answering(max_queries=...)`.
        bounds: `(low, high)` of the columns, declared, as for `DensityFlow`.
        row_norm: Instead of bounds: the largest Euclidean norm of a row.
        parts: The number of parts. More parts tolerate more noise, but each has fewer records.
        threshold: The log-density, in units of the data, above which a part calls a row normal: a
            public number, or "uniform" for that of the uniform distribution over the bounds. Never
            from the records, nor from votes on labeled rows.
        flow: What each part learns: `vf.maf(...)`, `vf.nsf(...)` or `vf.realnvp(...)`, or "mixture"
            for a mixture of normals.
        num_components: For "mixture": the number of normals of each part; 8 by default.
        training: For flows: `vf.Training(...)` with steps of Adam, rows of each part in a step
            (`batch_size`) and the learning rate. Parts are trained without noise.
        seed: For parts and models that repeat. Answers stay random.

    Example:
        >>> import veilflow as vf
        >>> budget = vf.Budget(epsilon=8.0, delta=1e-6)
        >>> answers = vf.Answering(max_queries=100)
        >>> estimator = vf.EnsembleDetector(budget=budget, answers=answers, bounds=(-2, 3))
        >>> ensemble = estimator.fit(vf.datasets.moons(5000))  # doctest: +SKIP
        >>> ensemble.query([[0.0, 0.5], [3.0, 3.0]])  # doctest: +SKIP
    """

    budget: Budget
    answers: Answering
    bounds: Any = None
    row_norm: float | None = None
    parts: int = 10
    threshold: float | str = UNIFORM
    flow: Architecture | str | None = None
    num_components: int | None = None
    training: Training = field(default_factory=Training)
    seed: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        is_budget("budget", self.budget)
        if not self.budget.private:
            raise ValueError("budget must be finite: an ensemble is there to answer with privacy.")
        _ = self.domain
        flow = fields.instance(Architecture, "vf.maf(...), vf.nsf(...)")
        fields.convert(
            self,
            answers=fields.instance(Answering, "vf.Answering(max_queries=...)"),
            bounds=fields.optional(domains.plain_bounds),
            row_norm=fields.optional(fields.positive),
            parts=fields.count(),
            threshold=fields.either(fields.word(UNIFORM), fields.finite),
            flow=fields.optional(fields.either(fields.word(MIXTURE), flow)),
            num_components=fields.optional(fields.count()),
            training=is_training,
            seed=seed,
        )
        if not 2 <= self.parts <= _MAX_PARTS:
            raise ValueError(f"parts must be from 2 to {_MAX_PARTS}, got {self.parts}.")
        if self.answers.method == "noisy_max" and self.budget.delta == 0:
            raise ValueError(
                "noisy_max needs a positive delta: Gaussian noise has no guarantee at delta=0."
            )
        self._part_models()

    def plan(self, dim: int | None = None) -> EnsemblePlan:
        """What all answers will cost, and each of them: public, and known before the rows are.

        Args:
            dim: Number of columns, where bounds do not say it.

        Raises:
            BudgetError: No noise is enough for the budget.
        """
        dim, domain, threshold = self.num_columns(dim), self.domain, self.threshold
        settings, flow = self._part_models()
        return EnsemblePlan(
            model="EnsembleDetector",
            budget=self.budget,
            releases=spending(self.budget, (self.answers.release(self.parts, settings),)),
            declared=(*self.declared, "the threshold of the parts"),
            seeded=self.seed is not None,
            dim=dim,
            domain=domain,
            threshold=uniform_log_density(domain, dim) if isinstance(threshold, str) else threshold,
            flow=flow,
        )

    def query(self, release: Release, fit: Fit) -> Query:
        domain, plan, journal = self.domain, fit.plan, self.answers.journal
        assert isinstance(plan, EnsemblePlan)
        known: dict[str, Any] = {"encode": domain.encode, "flow": plan.flow}
        known["journal"] = self._counted_in
        if journal is not None:
            known["ready"] = lambda: check_free(journal)
        return Query(fit.source.records.map(domain.clamp), known)

    def assemble(self, fit: Fit) -> FittedEnsemble:
        plan, trained, journal = fit.plan, fit.released[Answers.purpose], self.answers.journal
        assert isinstance(plan, EnsemblePlan)
        if trained.get("journal") != self._counted_in:
            raise PrivacyError(
                "the interrupted fit was to count its answers in another journal, and may have begun "
                "to. A second count would answer twice as often as was paid for. Give the journal of "
                "the interrupted fit, at its place."
            )
        return FittedEnsemble(
            densities=plan.trained(trained["parts"]),
            columns=fit.source.columns,
            plan=plan,
            guarantee=plan.guarantee,
            facts={},
            counter=InMemory() if journal is None else InFile.create(journal, id=trained["name"]),
        )

    @property
    def _counted_in(self) -> str:
        """The real path of the journal; empty if answers are counted in memory."""
        journal = self.answers.journal
        return "" if journal is None else os.path.realpath(journal)

    def _part_models(self) -> tuple[PartModels, Architecture | None]:
        return part_models(self.flow, training=self.training, num_components=self.num_components)
