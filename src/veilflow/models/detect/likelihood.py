"""Anomalies by a threshold on a released density: as many queries as one likes, for nothing."""

import os
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from jaxtyping import Bool, Float

from veilflow._core import check, codec
from veilflow._core.fields import convert, finite, fraction, optional
from veilflow.models import artifact as artifacts
from veilflow.models import registry
from veilflow.models.detect.scoring import AbstractScorer, odd_outside, scorer_of
from veilflow.models.detect.thresholds import (
    PrivateThreshold,
    plan_threshold,
    threshold_of,
    together,
)
from veilflow.models.fitted import Fitted
from veilflow.privacy.budget import Budget
from veilflow.privacy.guarantees import Guarantee
from veilflow.privacy.ledger import Ledger
from veilflow.releases.plan import FitPlan

PUBLIC = "the rows that set the threshold were declared public"
_OF_MODEL: Any = None
"""Stands for the plan, or for the guarantee, of the model itself."""


@dataclass(frozen=True, kw_only=True, repr=False)
class LikelihoodDetector(Fitted):
    """A row is odd where a released model gives it little density.

    Scores are post-processing of the model: they cost nothing, and there is no limit on them. What is
    said about private rows is as private as the rows are. The threshold is declared, or comes from
    one of three places, each of which returns a new detector:

        detector = vf.LikelihoodDetector(model, false_alarm_rate=0.01).from_samples()
        detector.predict(rows)

    Args:
        model: A fitted density, mixture, table or image model.
        false_alarm_rate: Share of normal rows that may be called odd.
        threshold: A score above which a row is odd; None until `from_samples`, `from_public` or
            `from_private` sets it.
        label: The class that images are compared with, for image models with classes.
        plan: What was executed for model and threshold; by default that of the model.
        guarantee: Of both; by default what the plan adds up to.
    """

    kind: ClassVar[str] = "LikelihoodDetector"

    model: Any = field(kw_only=False)
    false_alarm_rate: float = 0.01
    threshold: float | None = None
    label: Any = None
    plan: FitPlan = _OF_MODEL
    guarantee: Guarantee = _OF_MODEL
    facts: dict[str, Any] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        convert(self, false_alarm_rate=fraction, threshold=optional(finite))
        _ = self.scorer  # refuses what is no model
        convert(self, plan=self._whole_plan, guarantee=self._whole_guarantee)

    def from_samples(
        self, num_samples: int = 50_000, *, seed: int | None = None
    ) -> "LikelihoodDetector":
        """The detector whose threshold the model's own samples exceed at the false-alarm rate: free.

        On further samples of the model the rate is at most the one asked for, and at least that less
        1 / num_samples, on average over draws. On real normal rows it is as good as the model is.

        Args:
            num_samples: How many; at 50,000 a rate of 0.01 is off by 5 % of itself.
            seed: For the same threshold each time. Never the seed of a fit.
        """
        check.count(num_samples=num_samples)
        scores = self.scorer.sample_scores(num_samples, seed=seed)
        threshold = threshold_of(scores, self.false_alarm_rate, "num_samples")
        return self._with(threshold, self._paid)

    def from_public(self, rows: Any) -> "LikelihoodDetector":
        """The detector whose threshold these normal rows exceed at the false-alarm rate: free.

        Args:
            rows: Public rows, that have nothing to do with the records. The guarantee then rests on
                that, and says so.
        """
        scores = odd_outside(*self.scorer.score(rows))
        threshold = threshold_of(scores, self.false_alarm_rate, "the number of public rows")
        return self._with(threshold, replace(self._paid, conditions=(PUBLIC,)))

    def from_private(
        self,
        rows: Any,
        *,
        budget: Budget,
        invalid: str = "error",
        plan: FitPlan | None = None,
        progress: bool = True,
        checkpoint: str | os.PathLike[str] | None = None,
        save_as: str | os.PathLike[str] | None = None,
    ) -> "LikelihoodDetector":
        """The detector with a private quantile of the scores of private rows as its threshold: paid.

        The range it is looked for in comes from samples of the model, which are released. With m
        records the rank of the threshold is off by some 20 / epsilon records: there should be many
        more than 20 / (epsilon false_alarm_rate) of them.

        Guarantee:
            The quantile alone costs the epsilon of `budget`, at any delta. The plan holds it beside
            what the model cost, so that the guarantee is for both, whether or not these rows are
            records of the model.

        Args:
            rows: Private normal rows.
            budget: Of the quantile alone. Its delta is not needed.
            invalid: What to do about cells that are not as declared: "error", or "replace" each as
                the fit of the model does; images that are not as declared are left out.
            plan: As for every fit: what `plan_private` gives.
            progress: As for every fit.
            checkpoint: As for every fit.
            save_as: As for every fit.
        """
        return PrivateThreshold(detector=self, budget=budget).fit(
            rows,
            invalid=invalid,
            plan=plan,
            progress=progress,
            checkpoint=checkpoint,
            save_as=save_as,
        )

    def plan_private(self, budget: Budget) -> FitPlan:
        """What `from_private` will ask and pay, beside the model: known before rows are read.

        Args:
            budget: Of the quantile alone.
        """
        return plan_threshold(self._paid, budget, probability=1 - self.false_alarm_rate)

    def paid(self, threshold: float, plan: FitPlan) -> "LikelihoodDetector":
        """The detector with a threshold that `plan`, from `plan_private`, was executed for."""
        return self._with(threshold, together(self._paid, plan))

    def score(self, rows: Any) -> Float[np.ndarray, " rows"]:
        """How odd each row is: minus the natural log of its density. Higher is odder.

        Infinite, with a warning, outside the declared bounds; never NaN.

        Args:
            rows: As for the model's `log_prob`.
        """
        return odd_outside(*self.scorer.score(rows))

    def predict(self, rows: Any) -> Bool[np.ndarray, " rows"]:
        """Whether each row is an anomaly: its score is above the threshold, or infinite.

        Args:
            rows: As for the model's `log_prob`.
        """
        self._needed_threshold()  # before rows are scored for nothing
        return self.is_odd(self.score(rows))

    def is_odd(self, scores: Float[np.ndarray, " rows"]) -> Bool[np.ndarray, " rows"]:
        """Whether rows of these scores are anomalies.

        Args:
            scores: As `score` gives them.
        """
        # equal scores are not above: values that many rows share do not raise the false-alarm rate
        return (scores > self._needed_threshold()) | np.isposinf(scores)

    def explain(self, rows: Any) -> Float[np.ndarray, "rows columns"]:
        """Which column makes a row odd: the log-density of each cell given all others of its row.

        Measured against an even spread over the declared range or list, so that columns compare: 0
        is as likely as any value, lower is odder. Exact but for rounding and, for numbers, a fine
        trapezoid rule; in a table numbers count by their bin. Columns are those of `columns`.

        Args:
            rows: As for the model's `log_prob`.

        Raises:
            ValueError: The model has no columns (images), or no exact conditionals (`vf.hflow`).
        """
        return self.scorer.explain(rows)

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Names of the columns, where the model has any."""
        return self.scorer.columns

    def to_artifact(self) -> artifacts.Artifact:
        """The detector as plain data, with its model inside."""
        inner = self.model.to_artifact()
        return artifacts.Artifact(
            model=self.kind,
            manifest={
                "plan": codec.plain(self.plan),
                "false_alarm_rate": self.false_alarm_rate,
                "threshold": self.threshold,
                "label": None if self.label is None else _plain(self.label),
                "model": {
                    "class": inner.model,
                    "settings": inner.manifest,
                    "ledger": inner.ledger.to_json(),
                    "guarantee": inner.guarantee.to_json(),
                },
            },
            ledger=self.ledger,
            guarantee=self.guarantee,
            schema=inner.schema,
            arrays=inner.arrays,
        )

    @classmethod
    def from_artifact(cls, artifact: artifacts.Artifact, **state: Any) -> Self:
        settings = artifact.manifest
        inner = settings["model"]
        if inner["class"] in (cls.kind, "EnsembleDetector"):
            raise ValueError("a detector is not made of another.")
        whole = artifacts.Artifact(
            model=inner["class"],
            manifest=inner["settings"],
            ledger=Ledger.from_json(inner["ledger"]),
            guarantee=Guarantee.from_json(inner["guarantee"]),
            schema=artifact.schema,
            arrays=artifact.arrays,
        )
        artifacts.check(whole)
        model = registry.from_artifact(whole)
        plan = codec.restored(type(model.plan), settings["plan"])
        if plan.ledger != artifact.ledger:
            raise ValueError("the ledger is not the one of the plan.")
        return cls(
            model,
            false_alarm_rate=settings["false_alarm_rate"],
            threshold=settings["threshold"],
            label=settings["label"],
            plan=plan,
            guarantee=artifact.guarantee,
            **state,
        )

    @classmethod
    def shapes(cls, plan: FitPlan, public: dict[str, Any], *, num_numbers: int) -> Any:
        raise NotImplementedError("the arrays of a detector are those of its model.")

    def _needed_threshold(self) -> float:
        if self.threshold is None:
            raise ValueError(
                "there is no threshold yet. Take the detector that from_samples(), from_public(rows) "
                "or from_private(rows, budget=...) returns, or declare threshold=..."
            )
        return self.threshold

    @cached_property
    def scorer(self) -> AbstractScorer:
        """What the model is asked through."""
        return scorer_of(self.model, self.label)

    @property
    def _paid(self) -> FitPlan:
        """Without what the present threshold rests on: spent is spent, whatever sets the next."""
        return replace(self.plan, conditions=self.model.plan.conditions)

    def _with(self, threshold: float, plan: FitPlan) -> "LikelihoodDetector":
        return replace(self, threshold=threshold, plan=plan, guarantee=_OF_MODEL)

    def _whole_plan(self, name: str, given: FitPlan | None) -> FitPlan:
        """A rule for the field: that of the model, and perhaps more."""
        known = self.model.plan
        if given is None:
            return known
        if given.releases[: len(known.releases)] != known.releases:
            raise ValueError(f"{name} must begin with what was released for the model.")
        return given

    def _whole_guarantee(self, name: str, given: Guarantee | None) -> Guarantee:
        """A rule for the field: what the plan adds up to, unless a file says it."""
        if given is not None:
            return given
        return self.model.guarantee if self.plan == self.model.plan else self.plan.guarantee

    def _about(self) -> str:
        shown = "no threshold yet" if self.threshold is None else f"threshold {self.threshold:.4g}"
        return f"{type(self.model).__name__}, {shown}"


def _plain(label: Any) -> Any:
    """A class as JSON has it."""
    return label.item() if isinstance(label, np.generic) else label
