"""Anomalies by a threshold on a released density: any number of queries, at no cost."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from jaxtyping import Bool, Float

from veilflow._core import check
from veilflow._core.fields import finite, fraction, optional
from veilflow.models import artifact as artifacts
from veilflow.models.density import DensityFlow
from veilflow.models.detect import detector_file
from veilflow.models.detect.refit import SecondFit, can_refit
from veilflow.models.detect.scoring import ScoresRows
from veilflow.models.detect.thresholds import (
    PrivateThreshold,
    extends,
    plan_threshold,
    threshold_of,
    together,
)
from veilflow.models.fitted import Fitted
from veilflow.privacy.budget import Budget
from veilflow.privacy.dataset_ledger import ADAPTIVE
from veilflow.privacy.guarantees import Guarantee
from veilflow.releases.plan import FitPlan

PUBLIC = "the rows that set the threshold were declared public"
THRESHOLD = "the threshold"
"""A declared fact, where a person gave it."""


@dataclass(frozen=True, init=False, repr=False)
class LikelihoodDetector(ScoresRows, Fitted):
    """Calls a row an anomaly where a released model gives it little density.

    `estimator` has the settings of a density that suit a detector; any other density will do, too.
    Scores are post-processing of the model: they cost nothing, and there is no limit on them. A score
    of a private row is as private as the row. The threshold is declared, or set by one of three
    methods, each of which returns a new detector:

        detector = vf.LikelihoodDetector(model, false_alarm_rate=0.01).from_samples()
        detector.predict(rows)

    `plan` and `guarantee` cover both the model and private thresholds.

    Args:
        model: A fitted density, mixture, table or image model.
        false_alarm_rate: Share of normal rows that may be called anomalies.
        threshold: The score above which a row is an anomaly; None until `from_samples`,
            `from_public` or `from_private` sets it.
        label: The class to compare images with, for image models with classes.
    """

    kind: ClassVar[str] = "LikelihoodDetector"

    model: Any
    false_alarm_rate: float
    threshold: float | None
    label: Any

    def __init__(
        self,
        model: Any,
        *,
        false_alarm_rate: float = 0.01,
        threshold: float | None = None,
        label: Any = None,
    ):
        # not generated: `dataclasses.replace` must not drop what a private threshold has spent
        vars(self).update(
            model=model,
            false_alarm_rate=fraction("false_alarm_rate", false_alarm_rate),
            threshold=optional(finite)("threshold", threshold),
            label=label.item() if isinstance(label, np.generic) else label,
            facts={},
        )
        _ = self.scorer  # refuses what is not a model
        if threshold is None:
            vars(self).update(plan=model.plan, guarantee=model.guarantee)
        else:
            plan = replace(model.plan, declared=(*model.plan.declared, THRESHOLD))
            vars(self).update(plan=plan, guarantee=plan.guarantee)

    @classmethod
    def estimator(cls, *, budget: Budget, **settings: Any) -> DensityFlow:
        """The density to fit for a detector: a mixture of normals and their shape, and no marginals.

        Where bounds are declared, `DensityFlow` by itself starts from marginals, or in up to three
        columns from a grid. Both see every peak of a column, and so a row of common values has a high
        density, however odd their combination is. A mixture in the units of the data does not.

        Args:
            budget: The privacy budget of the fit.
            settings: Other settings of `DensityFlow`, such as `bounds`.

        Example:
            >>> import veilflow as vf
            >>> budget = vf.Budget(epsilon=1.0, delta=1e-6)
            >>> estimator = vf.LikelihoodDetector.estimator(budget=budget, bounds=(0, 1))
            >>> estimator.base, estimator.start
            ('mixture', 'none')
        """
        return DensityFlow(budget=budget, **{"base": "mixture", "start": "none", **settings})

    @classmethod
    def executed(
        cls, model: Any, plan: FitPlan, guarantee: Guarantee | None = None, **settings: Any
    ) -> Self:
        """A detector for whose threshold a plan was executed, which extends that of the model.

        Raises:
            ValueError: The plan leaves out a release or an assumption of the model.
        """
        if not extends(plan, model.plan):
            raise ValueError("the plan must hold all that was released and assumed for the model.")
        detector = cls(model, **settings)
        if guarantee is None:
            guarantee = model.guarantee if plan == model.plan else plan.guarantee
        vars(detector).update(plan=plan, guarantee=guarantee)
        return detector

    def from_samples(
        self,
        num_samples: int = 50_000,
        *,
        refit: bool | SecondFit | None = True,
        seed: int | None = None,
    ) -> Self:
        """The detector whose threshold comes from samples of the model: free.

        Rows of no fit are odder to a model than its own samples are. By how much is learned from a
        second fit, with the plan of the first and to samples of it. It costs time, about as much as
        the first one, and no budget. The threshold is then the score that samples exceed at the rate
        at which samples of the second fit exceed the right threshold there.

        Args:
            num_samples: Number of samples; at 50,000 the error of a rate of 0.01 is 5 % of it.
            refit: Do this where it is possible: for densities and mixtures that were fitted with
                privacy and with no given base. Otherwise samples of the model exceed the threshold
                at the false-alarm rate. Detectors of one model may share the result of
                `second_fit`.
            seed: For the same threshold each time. Never the seed of a fit.
        """
        check.count(num_samples=num_samples)
        rate = self.false_alarm_rate
        if refit is True:
            refit = self.second_fit(num_samples, seed=seed)
        if isinstance(refit, SecondFit):
            rate = refit.rate(rate)
        scores = self.scorer.sample_scores(num_samples, seed=seed)
        return self._with(threshold_of(scores, rate, "num_samples"), self._paid)

    def second_fit(self, num_samples: int = 50_000, *, seed: int | None = None) -> SecondFit | None:
        """What `from_samples` learns from a second fit, to share it among rates; None without one.

        Args:
            num_samples: As for `from_samples`.
            seed: As for `from_samples`, which learns the same with the same seed.
        """
        check.count(num_samples=num_samples)
        if not can_refit(self.model):
            return None
        return SecondFit.of(self.model, num_samples, seed=seed)

    def from_public(self, rows: Any) -> Self:
        """The detector whose threshold these normal rows exceed at the false-alarm rate: free.

        Args:
            rows: Public rows that are not derived from the records. The guarantee then rests on that,
                and says so.
        """
        what = "the number of public rows"
        conditions = (*self._paid.conditions, PUBLIC)
        threshold = threshold_of(self.score(rows), self.false_alarm_rate, what)
        return self._with(threshold, replace(self._paid, conditions=conditions))

    def from_private(
        self, rows: Any, *, budget: Budget, invalid: str = "error", **run: Any
    ) -> "LikelihoodDetector":
        """The detector whose threshold is a private quantile of the scores of private rows: paid.

        The quantile is sought in a range that comes from samples of the model, which are released. Its
        rank is off by about 20 / epsilon rows, so there should be many more than
        20 / (epsilon false_alarm_rate) of them.

        Guarantee:
            The quantile alone costs the epsilon of `budget`, at any delta. The plan holds it beside
            what the model cost, so that the guarantee is for both, whether or not these rows are
            records of the model. It rests on a condition: that `budget` was not chosen after a look
            at the model.

        Args:
            rows: Private normal rows.
            budget: What the quantile may spend. Its delta is not needed.
            invalid: What to do about cells that are not as declared: "error", or "replace" each as
                the fit of the model does; images that are not as declared are left out.
            run: `plan` (from `plan_private`), `progress`, `checkpoint` and `save_as`, as for every fit.
        """
        return PrivateThreshold(detector=self, budget=budget).fit(rows, invalid=invalid, **run)

    def plan_private(self, budget: Budget) -> FitPlan:
        """What `from_private` will ask and pay beside the model, known before any row is read."""
        return plan_threshold(self._paid, budget, probability=1 - self.false_alarm_rate)

    def plan_with(self, plan: FitPlan) -> FitPlan:
        """The plan of the model and of a threshold together; `plan` is from `plan_private`."""
        return together(self._paid, plan)

    def paid(self, threshold: float, plan: FitPlan) -> Self:
        """The detector with a threshold for which `plan`, from `plan_private`, was executed."""
        return self._with(threshold, self.plan_with(plan))

    def predict(self, rows: Any) -> Bool[np.ndarray, " rows"]:
        """Whether each row is an anomaly: its score is above the threshold, or infinite.

        Args:
            rows: As for the model's `log_prob`.
        """
        self._required_threshold()  # before rows are scored in vain
        return self.is_odd(self.score(rows))

    def is_odd(self, scores: Float[np.ndarray, " rows"]) -> Bool[np.ndarray, " rows"]:
        """Whether rows with these scores, from `score`, are anomalies."""
        # strictly above: a score that many rows share does not raise the false-alarm rate
        return (scores > self._required_threshold()) | np.isposinf(scores)

    def to_artifact(self) -> artifacts.Artifact:
        """The detector as plain data, with its model inside."""
        return detector_file.to_artifact(self)

    @classmethod
    def from_artifact(cls, artifact: artifacts.Artifact, **state: Any) -> Self:
        return cls.executed(**detector_file.from_artifact(artifact), **state)

    @classmethod
    def shapes(cls, plan: FitPlan, public: dict[str, Any], *, num_numbers: int) -> Any:
        raise NotImplementedError("the arrays of a detector are those of its model.")

    def _required_threshold(self) -> float:
        if self.threshold is None:
            raise ValueError(
                "there is no threshold yet. Use the detector that from_samples(), from_public(rows) "
                "or from_private(rows, budget=...) returns, or declare threshold=..."
            )
        return self.threshold

    @property
    def _paid(self) -> FitPlan:
        """The plan without what the present threshold rests on: what was spent stays spent."""
        own = self.model.plan
        spent_twice = len(self.plan.releases) > len(own.releases)
        conditions = (*own.conditions, ADAPTIVE.text) if spent_twice else own.conditions
        return replace(self.plan, declared=own.declared, conditions=conditions)

    def _with(self, threshold: float, plan: FitPlan) -> Self:
        settings = {"false_alarm_rate": self.false_alarm_rate, "label": self.label}
        return self.executed(self.model, plan, threshold=threshold, **settings)

    def _about(self) -> str:
        shown = "no threshold yet" if self.threshold is None else f"threshold {self.threshold:.4g}"
        return f"{type(self.model).__name__}, {shown}"
