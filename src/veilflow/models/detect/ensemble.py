"""DP-AD: an ensemble of models without privacy, whose votes answer queries with privacy."""

import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from veilflow._core import check
from veilflow._core.keys import Secret
from veilflow.engine.progress import counting_bar
from veilflow.models import domain as domains
from veilflow.models.architecture import Architecture, nsf
from veilflow.models.assumptions import declared
from veilflow.models.detect.answers import METHODS, Plan
from veilflow.models.detect.fitted_ensemble import FittedEnsemble
from veilflow.models.detect.journal import Counter, InMemory, Journal
from veilflow.models.detect.part_densities import PartDensities, train_flows
from veilflow.models.detect.part_mixtures import train_mixtures
from veilflow.models.detect.partition import split
from veilflow.models.domain import Ball, Domain
from veilflow.models.settings import make_whole, opened
from veilflow.privacy.budget import Budget
from veilflow.privacy.guarantees import Guarantee
from veilflow.privacy.ledger import Ledger

DENSITIES = ("flow", "mixture")
UNIFORM = "uniform"
_MOST_PARTS = 10_000
_ITERATIONS = 50
"""Of EM."""


@dataclass(frozen=True, kw_only=True)
class EnsembleDetector:
    """Anomalies by vote: records are split into parts, and each part's model has one vote.

    The models are trained without privacy and never leave: what is private is every *answer*. So a
    query costs budget, unlike those of a `LikelihoodDetector`, and there are only so many.

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
        steps: For "flow": steps of Adam.
        batch_size: For "flow": rows of each part in a step.
        learning_rate: For "flow": of Adam, with cosine decay.
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
    steps: int = 1000
    batch_size: int = 128
    learning_rate: float = 3e-3
    journal: str | os.PathLike[str] | None = None
    seed: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.budget, Budget):
            raise TypeError(
                f"budget must be a Budget, got {type(self.budget).__name__}. "
                "Write budget=vf.Budget(epsilon=1.0, delta=1e-6)."
            )
        if not self.budget.private:
            raise ValueError("budget must be finite: an ensemble is there to answer with privacy.")
        check.one_of(DENSITIES, density=self.density)
        check.one_of(METHODS, method=self.method)
        make_whole(self, "parts", "num_components", "steps", "batch_size")
        if not 2 <= self.parts <= _MOST_PARTS:
            raise ValueError(f"parts must be from 2 to {_MOST_PARTS}, got {self.parts}.")
        check.positive(learning_rate=self.learning_rate)
        self._domain()
        if self.flow is not None and not isinstance(self.flow, Architecture):
            raise TypeError(
                f"flow must be vf.maf(...), vf.nsf(...) or vf.realnvp(...), got {self.flow!r}."
            )
        if isinstance(self.threshold, str):
            check.one_of((UNIFORM,), threshold=self.threshold)
        else:
            check.finite(threshold=self.threshold)
        self._limit()
        check.fraction(quorum=self.quorum)
        if self.quorum != 0.5 and self.method != "sparse_vector":
            raise ValueError(f"quorum is for sparse_vector; {self.method} asks for the majority.")
        if not self.renew and self.method != "sparse_vector":
            raise ValueError(f"renew is for sparse_vector; {self.method} has no noisy threshold.")
        if self.method == "noisy_max" and self.budget.delta == 0:
            raise ValueError(
                "noisy_max needs a positive delta: Gaussian noise has no guarantee at delta=0."
            )
        Secret.from_seed(self.seed)

    @property
    def plan(self) -> Plan:
        """What each answer costs: public, and known before the rows are.

        Raises:
            BudgetError: No noise is enough for the budget.
        """
        most = self._limit()
        return Plan.within(
            self.budget,
            method=self.method,
            parts=self.parts,
            limit=most if self.renew else 1,
            quorum=self.quorum,
            anomalies=1 if self.renew else most,
        )

    @property
    def guarantee(self) -> Guarantee:
        """Of all answers that will be given: public, and known before the rows are."""
        return guarantee_of(self.plan, self._assumptions(), delta=self.budget.delta)

    def fit(self, rows: Any, *, progress: bool = True) -> FittedEnsemble:
        """Train a model on each part. Nothing is released by it; what is returned is private.

        Args:
            rows: A two-dimensional array, a frame, or the path of a CSV, Parquet, Arrow or NumPy
                file. Every cell a finite number. Rows outside the bounds are moved to them.
            progress: Show a progress bar on standard error.

        Returns:
            The ensemble, which answers queries. Keep it where the records are.

        Raises:
            BudgetError: No noise is enough for the budget.
            ValueError: Rows are not a table of finite numbers or do not fit the bounds.
            FileExistsError: The journal is there already, with what another ensemble spent.
        """
        plan, domain = self.plan, self._domain()
        table, sensitive = opened(rows, domain)
        dim = table.values.shape[1]
        counter: Counter = InMemory() if self.journal is None else Journal.create(self.journal)
        try:
            secret = Secret.from_seed(self.seed)
            moved = sensitive.map(domain.clamp).open()
            parts = split(moved, parts=self.parts, secret=secret)
            densities = self._trained([domain.encode(part) for part in parts], secret, progress)
        except BaseException:
            if isinstance(counter, Journal):  # nothing was answered, so nothing is forgotten
                Path(counter.path).unlink(missing_ok=True)
            raise
        ledger = Ledger()
        for sentence in self._assumptions():
            ledger = ledger.assuming(sentence)
        return FittedEnsemble(
            densities=densities,
            domain=domain,
            columns=table.columns,
            threshold=uniform_log_density(domain, dim)
            if isinstance(self.threshold, str)
            else float(self.threshold),
            plan=plan,
            assumptions=ledger.assumptions,
            guarantee=self.guarantee,
            counter=counter,
            settings={
                "density": self.density,
                "architecture": self._architecture().to_json() if self.density == "flow" else None,
                "num_components": self.num_components if self.density == "mixture" else None,
                "dim": dim,
                "delta": self.budget.delta,
            },
        )

    def _trained(self, parts: list[Any], secret: Secret, progress: bool) -> PartDensities:
        total = self.steps if self.density == "flow" else _ITERATIONS
        with counting_bar("training", total, show=progress) as monitor:
            if self.density == "mixture":
                return train_mixtures(
                    parts,
                    num_components=self.num_components,
                    iterations=total,
                    secret=secret,
                    monitor=monitor,
                )
            return train_flows(
                parts,
                architecture=self._architecture(),
                steps=total,
                batch_size=self.batch_size,
                learning_rate=self.learning_rate,
                secret=secret,
                monitor=monitor,
            )

    def _architecture(self) -> Architecture:
        return nsf(blocks=3, hidden=(64,)) if self.flow is None else self.flow

    def _assumptions(self) -> tuple[str, ...]:
        return (
            declared(self._domain(), num_records=None),
            "the threshold of the parts was declared, not read from the records",
            "a part's model is the same whatever the records of other parts are",
        )

    def _limit(self) -> int:
        """Queries, or anomalies, that are paid for."""
        name, other = "max_queries", "max_anomalies"
        if self.method == "sparse_vector":
            name, other = other, name
        if getattr(self, other) is not None:
            why = (
                "it answers any number of queries"
                if self.method == "sparse_vector"
                else "every answer costs the same"
            )
            raise ValueError(f"{other} must be left out with method={self.method!r}: {why}.")
        if getattr(self, name) is None:
            raise ValueError(f"method={self.method!r} needs {name}: the budget is shared by these.")
        check.count(**{name: getattr(self, name)})
        return int(getattr(self, name))

    def _domain(self) -> Domain:
        return domains.declared(bounds=self.bounds, row_norm=self.row_norm)


def guarantee_of(plan: Plan, assumptions: tuple[str, ...], *, delta: float) -> Guarantee:
    """What holds for all answers of a plan, however many of them are asked for."""
    ledger = plan.ledger(plan.limit)
    for sentence in assumptions:
        ledger = ledger.assuming(sentence)
    return ledger.guarantee(delta=delta)


def uniform_log_density(domain: Domain, dim: int) -> float:
    """The log-density of rows spread evenly over a domain: a public number."""
    if isinstance(domain, Ball):
        log_unit_ball = dim / 2 * math.log(math.pi) - math.lgamma(dim / 2 + 1)
        return -(log_unit_ball + dim * math.log(domain.row_norm))
    return -(domain.log_scale(dim) + dim * math.log(2 * domain.border))
