"""Thresholds of a detector: an order statistic of known scores, or a paid quantile of private ones."""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from veilflow.models.estimator import Estimator, Fit, Source
from veilflow.models.settings import is_budget
from veilflow.privacy.budget import Budget
from veilflow.privacy.dataset_ledger import ADAPTIVE
from veilflow.privacy.guarantees import Sensitive
from veilflow.releases.plan import FitPlan
from veilflow.releases.quantile import Quantile
from veilflow.releases.release import Query, Release

if TYPE_CHECKING:
    from veilflow.models.detect.likelihood import LikelihoodDetector

_RANGE_SAMPLES = 10_000
"""Samples of the model, for the range in which a private quantile is sought."""


def threshold_of(scores: Float[np.ndarray, " rows"], rate: float, what: str) -> float:
    """The smallest score that a further row exceeds with probability at most `rate`.

    All orders of n scores and a further one are equally likely, so the further one is above the r-th
    smallest with probability at most 1 - r / (n + 1); ties only lower it.
    """
    rank = math.ceil((len(scores) + 1) * (1 - rate) - 1e-9)
    if rank > len(scores):
        raise ValueError(
            f"a false-alarm rate of {rate:g} needs {what} to be at least {math.ceil(1 / rate) - 1}, "
            f"got {len(scores)}."
        )
    threshold = float(np.sort(scores)[rank - 1])
    if not math.isfinite(threshold):
        raise ValueError(
            f"more than {rate:.3g} of the rows have no density under the model, so no threshold keeps "
            "the false-alarm rate. Check the bounds of the model."
        )
    return threshold


def rate_above(threshold: float, scores: Float[np.ndarray, " rows"]) -> float:
    """The rate at which further scores of the same kind exceed a threshold: never 0."""
    return float((1 + np.count_nonzero(scores > threshold)) / (len(scores) + 1))


@dataclass(frozen=True, kw_only=True)
class PrivateThreshold(Estimator["LikelihoodDetector"]):
    """The estimator of a private threshold: its fit returns a detector.

    Args:
        detector: Scores the rows; the fitted one differs in its threshold and its plan.
        budget: What the quantile may spend.
        seed: None: the noise of a quantile comes from the operating system.
    """

    detector: "LikelihoodDetector"
    budget: Budget
    seed: int | None = None

    def plan(self) -> FitPlan:
        """What the quantile costs beside the model."""
        return self.detector.plan_private(self.budget)

    def read(self, data: Any, *, invalid: str = "error") -> Source:
        """The score of each row by the released model; infinite outside its bounds."""
        scores, outside = self.detector.scorer.score(data, invalid=invalid)
        return Source(Sensitive(np.where(outside, np.inf, scores), description="scores"))

    def query(self, release: Release, fit: Fit) -> Query:
        scores = self.detector.scorer.sample_scores(_RANGE_SAMPLES, seed=None)
        scores = scores[np.isfinite(scores)]
        if not len(scores):
            raise ValueError("the model gives its own samples no density. Fit it again.")
        lower, upper = float(scores.min()), float(scores.max())
        # as far beyond the maximum as the maximum is beyond the median
        upper += max(upper - float(np.median(scores)), 1e-6 * (1 + abs(upper)))
        return Query(fit.source.records, {"lower": lower, "upper": upper})

    def assemble(self, fit: Fit) -> "LikelihoodDetector":
        (release,) = fit.plan.releases
        return self.detector.paid(fit.released[release.purpose], fit.plan)


def plan_threshold(plan: FitPlan, budget: Budget, *, probability: float) -> FitPlan:
    """The plan of a private quantile, beside that of the model and of earlier private thresholds."""
    is_budget("budget", budget)
    if not budget.private:
        raise ValueError("budget must be finite: a threshold without privacy is not released.")
    earlier = sum(isinstance(release, Quantile) for release in plan.releases)
    purpose = f"{Quantile.purpose} {earlier + 1}" if earlier else Quantile.purpose
    quantile = Quantile(purpose=purpose, probability=probability, epsilon=budget.epsilon)
    return FitPlan(
        model="LikelihoodDetector",
        budget=budget,
        releases=(quantile,),
        declared=(),
        unit=plan.unit,
    )


def together(plan: FitPlan, more: FitPlan) -> FitPlan:
    """The plan of a model with the releases of a threshold added, for the sum of their budgets.

    The budget of the threshold is chosen once the model is released, so that the sum is a conditional
    one, as for two fits in the ledger of a data set.
    """
    epsilon = plan.budget.epsilon + more.budget.epsilon
    conditions = dict.fromkeys((*plan.conditions, ADAPTIVE.text))
    return replace(
        plan,
        budget=Budget(epsilon, plan.budget.delta),
        releases=(*plan.releases, *more.releases),
        conditions=tuple(conditions),
    )


def extends(plan: FitPlan, model: FitPlan) -> bool:
    """Whether a plan is that of a model with releases, declared facts, conditions and budget added."""
    common = replace(
        plan,
        budget=model.budget,
        declared=plan.declared[: len(model.declared)],
        releases=plan.releases[: len(model.releases)],
        conditions=plan.conditions[: len(model.conditions)],
    )
    return common == model
