"""DP-AD: an ensemble of models without privacy, whose votes answer queries with privacy."""

import os
from dataclasses import dataclass, field, replace
from typing import Any

from veilflow._core import fields
from veilflow.engine.training import Training
from veilflow.models import domain as domains
from veilflow.models.architecture import Architecture
from veilflow.models.detect.counter import InFile, InMemory, check_free
from veilflow.models.detect.ensemble_plan import (
    DENSITIES,
    EnsemblePlan,
    paid_for,
    part_models,
    plan_ensemble,
    uniform_log_density,
)
from veilflow.models.detect.fitted_ensemble import FittedEnsemble
from veilflow.models.estimator import Fit
from veilflow.models.rows import RowEstimator
from veilflow.models.settings import is_budget, is_training, seed
from veilflow.privacy.budget import Budget
from veilflow.releases.answers import METHODS, Answers
from veilflow.releases.part_densities import PartModels
from veilflow.releases.release import Query, Release

UNIFORM = "uniform"
_MOST_PARTS = 10_000


@dataclass(frozen=True, kw_only=True)
class EnsembleDetector(RowEstimator[FittedEnsemble]):
    """Anomalies by vote: records are split into parts, and each part's model has one vote.

    The models are trained without privacy and never leave: what is private is every *answer*. So a
    query costs budget, unlike those of a `LikelihoodDetector`, and there are only so many. `fit`
    releases nothing: what it returns, and its checkpoint, are as private as the records.

    - "exponential" is Algorithm 2 of DP-NF: "normal" with probability sigmoid(epsilon (2c - k) / 2)
      where c of k parts find the row normal. For few queries.
    - "sparse_vector" pays for anomalies only, however many rows are asked about. For streams with few
      anomalies, and many parts: its noise is on counts of votes.
    - "noisy_max" adds Gaussian noise to the votes. Needs a delta; for many queries.

    Guarantee:
        All answers together keep to the budget, however many up to the limit are asked for and however
        each is chosen from the answers before; for adding or removing one row. Noise is drawn exactly.
        The models, the votes and the number of records of a part are not released.

    Args:
        budget: What all answers together may cost. A delta of 0 will do, but for "noisy_max".
        bounds: `(low, high)` of the columns, declared, as for `DensityFlow`.
        row_norm: Instead of bounds: the largest Euclidean norm of a row.
        parts: How many parts. More parts bear more noise, and each has fewer records to learn from.
        density: "flow" or "mixture".
        method: "exponential", "sparse_vector" or "noisy_max".
        max_queries: Most answers; of "sparse_vector" there is no limit on them, and none is given.
        max_anomalies: Of "sparse_vector": most answers "anomaly".
        quorum: Of "sparse_vector": the share of parts that must call a row odd. Above a half there
            are fewer false alarms in a long stream.
        renew: Of "sparse_vector": draw a new noisy threshold after each anomaly. Then a crash, or
            the end of the process, costs one anomaly. Without, there is one threshold for all: less
            noise where delta is 0 or epsilon large, but the stream ends with its process.
        threshold: Log-density in units of the data above which a part calls a row normal: a public
            number, or "uniform" for that of rows spread evenly over the bounds. Never from the
            records, nor from votes on labeled rows.
        flow: For "flow": `vf.maf(...)`, `vf.nsf(...)` or `vf.realnvp(...)`.
        num_components: For "mixture": normals of each part.
        training: For "flow": `vf.Training(...)` with steps of Adam, rows of each part in a step
            (`batch_size`) and the learning rate. Parts are trained without noise.
        journal: A file to be made by `fit`, in which spent queries are written down before they are
            answered. Without one the ensemble lives in this process only and cannot be saved.
        seed: For parts and models that repeat. Answers stay random.

    Example:
        >>> import veilflow as vf
        >>> budget = vf.Budget(epsilon=8.0, delta=1e-6)
        >>> estimator = vf.EnsembleDetector(budget=budget, bounds=(-2, 3), max_queries=100)
        >>> ensemble = estimator.fit(vf.datasets.moons(5000))  # doctest: +SKIP
        >>> ensemble.query([[0.0, 0.5], [3.0, 3.0]])  # doctest: +SKIP
    """

    budget: Budget
    bounds: Any = None
    row_norm: float | None = None
    parts: int = 10
    density: str = "flow"
    method: str = "exponential"
    max_queries: int | None = None
    max_anomalies: int | None = None
    quorum: float = 0.5
    renew: bool = True
    threshold: float | str = UNIFORM
    flow: Architecture | None = None
    num_components: int = 8
    training: Training = field(default_factory=Training)
    journal: str | os.PathLike[str] | None = None
    seed: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        is_budget("budget", self.budget)
        if not self.budget.private:
            raise ValueError("budget must be finite: an ensemble is there to answer with privacy.")
        _ = self.domain
        fields.convert(
            self,
            bounds=fields.optional(domains.plain_bounds),
            row_norm=fields.optional(fields.positive),
            parts=fields.count(),
            density=fields.word(*DENSITIES),
            method=fields.word(*METHODS),
            max_queries=fields.optional(fields.count()),
            max_anomalies=fields.optional(fields.count()),
            quorum=fields.fraction,
            renew=fields.flag,
            threshold=fields.either(fields.word(UNIFORM), fields.finite),
            flow=fields.optional(fields.instance(Architecture, "vf.maf(...), vf.nsf(...)")),
            num_components=fields.count(),
            training=is_training,
            journal=fields.optional(fields.path),
            seed=seed,
        )
        if not 2 <= self.parts <= _MOST_PARTS:
            raise ValueError(f"parts must be from 2 to {_MOST_PARTS}, got {self.parts}.")
        self._part_models()
        paid_for(self.method, max_queries=self.max_queries, max_anomalies=self.max_anomalies)
        if self.quorum != 0.5 and self.method != "sparse_vector":
            raise ValueError(f"quorum is for sparse_vector; {self.method} asks for the majority.")
        if not self.renew and self.method != "sparse_vector":
            raise ValueError(f"renew is for sparse_vector; {self.method} has no noisy threshold.")
        if self.method == "noisy_max" and self.budget.delta == 0:
            raise ValueError(
                "noisy_max needs a positive delta: Gaussian noise has no guarantee at delta=0."
            )

    def plan(self, dim: int | None = None) -> EnsemblePlan:
        """What all answers will cost, and each of them: public, and known before the rows are.

        Args:
            dim: Number of columns, where bounds do not say it.

        Raises:
            BudgetError: No noise is enough for the budget.
        """
        dim, domain, threshold = self.num_columns(dim), self.domain, self.threshold
        most = {"max_queries": self.max_queries, "max_anomalies": self.max_anomalies}
        settings, flow = self._part_models()
        return plan_ensemble(
            method=self.method,
            parts=self.parts,
            limit=paid_for(self.method, **most),
            quorum=self.quorum,
            renew=self.renew,
            settings=settings,
            flow=flow,
            budget=self.budget,
            dim=dim,
            domain=domain,
            threshold=uniform_log_density(domain, dim) if isinstance(threshold, str) else threshold,
            declared=(*self.declared, "the threshold of the parts"),
            seeded=self.seed is not None,
        )

    def query(self, release: Release, fit: Fit) -> Query:
        domain, plan = self.domain, fit.plan
        assert isinstance(plan, EnsemblePlan)
        known: dict[str, Any] = {"encode": domain.encode, "flow": plan.flow}
        if self.journal is not None:
            known["ready"] = lambda path=self.journal: check_free(path)
        return Query(fit.source.records.map(domain.clamp), known)

    def assemble(self, fit: Fit) -> FittedEnsemble:
        plan, made = fit.plan, fit.released[Answers.purpose]
        assert isinstance(plan, EnsemblePlan)
        ensemble = FittedEnsemble(
            densities=plan.trained(made["parts"]),
            columns=fit.source.columns,
            plan=plan,
            guarantee=plan.guarantee,
            facts={},
            counter=InMemory(),
        )
        if self.journal is None:
            return ensemble
        return replace(ensemble, counter=InFile.create(self.journal, id=made["name"]))

    def _part_models(self) -> tuple[PartModels, Architecture | None]:
        return part_models(
            self.density,
            training=self.training,
            flow=self.flow,
            num_components=self.num_components,
        )
