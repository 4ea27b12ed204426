"""Anomalies by a threshold on a released density: as many queries as one likes, for nothing."""

import math
import os
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from veilflow._core import check
from veilflow.models import artifact as artifacts
from veilflow.models import registry
from veilflow.models.detect.scoring import AbstractScorer, odd_outside, scorer_of
from veilflow.privacy.budget import Budget
from veilflow.privacy.guarantees import Guarantee, Sensitive
from veilflow.privacy.ledger import Entry, Ledger
from veilflow.privacy.mechanisms import quantile

PUBLIC_ASSUMPTION = "the rows that set the threshold were declared public"
_RANGE_SAMPLES = 10_000
"""Of the model, for the range in which a private quantile is looked for."""
_CANDIDATES = 4096


@dataclass(frozen=True, repr=False)
class LikelihoodDetector:
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
    """

    model: Any
    false_alarm_rate: float = 0.01
    threshold: float | None = None
    label: Any = None
    paid: tuple[Entry, ...] = ()
    """What was spent on the threshold, beyond the model's ledger."""
    assumptions: tuple[str, ...] = ()
    """What the threshold rests on."""

    def __init__(
        self,
        model: Any,
        *,
        false_alarm_rate: float = 0.01,
        threshold: float | None = None,
        label: Any = None,
        paid: tuple[Entry, ...] = (),
        assumptions: tuple[str, ...] = (),
    ):
        check.fraction(false_alarm_rate=false_alarm_rate)
        if threshold is not None:
            check.finite(threshold=threshold)
            threshold = float(threshold)
        for name, value in {
            "model": model,
            "false_alarm_rate": float(false_alarm_rate),
            "threshold": threshold,
            "label": label,
            "paid": tuple(paid),
            "assumptions": tuple(assumptions),
        }.items():
            object.__setattr__(self, name, value)
        _ = self._scorer  # refuses what is no model

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
        scores = self._scorer.sample_scores(num_samples, seed=seed)
        return self._with(_threshold(scores, self.false_alarm_rate, "num_samples"))

    def from_public(self, rows: Any) -> "LikelihoodDetector":
        """The detector whose threshold these normal rows exceed at the false-alarm rate: free.

        Args:
            rows: Public rows, that have nothing to do with the records. The guarantee then rests on
                that, and says so.
        """
        scores = odd_outside(*self._scorer.score(rows))
        threshold = _threshold(scores, self.false_alarm_rate, "the number of public rows")
        return self._with(threshold, assumptions=(PUBLIC_ASSUMPTION,))

    def from_private(self, rows: Any, *, budget: Budget) -> "LikelihoodDetector":
        """The detector with a private quantile of the scores of private rows as its threshold: paid.

        The range it is looked for in comes from samples of the model, which are released. With m
        records the rank of the threshold is off by some 20 / epsilon records: there should be many
        more than 20 / (epsilon false_alarm_rate) of them.

        Guarantee:
            The quantile alone costs the epsilon of `budget`, at any delta. The ledger holds it beside
            what the model cost, so that the guarantee is for both, whether or not these rows are
            records of the model.

        Args:
            rows: Private normal rows.
            budget: Of the quantile alone. Its delta is not needed.
        """
        if not isinstance(budget, Budget):
            raise TypeError(f"budget must be a Budget, got {type(budget).__name__}.")
        if not budget.private:
            raise ValueError("budget must be finite: a threshold without privacy is not released.")
        known = self._scorer.sample_scores(_RANGE_SAMPLES, seed=None)
        known = known[np.isfinite(known)]
        if not len(known):
            raise ValueError("the model gives its own samples no density. Fit it again.")
        lower, upper = float(known.min()), float(known.max())
        # beyond the highest of the samples by as much as that is beyond their middle
        upper += max(upper - float(np.median(known)), 1e-6 * (1 + abs(upper)))
        scores, outside = self._scorer.score(rows)
        released = quantile(
            Sensitive(np.where(outside, np.inf, scores), description="scores"),
            probability=1 - self.false_alarm_rate,
            lower=lower,
            upper=upper,
            epsilon=budget.epsilon,
            num_candidates=_CANDIDATES,
            default=upper,
        )
        entry = Entry("threshold (private quantile)", released.event)
        return self._with(released.value, paid=(*self.paid, entry))

    def score(self, rows: Any) -> Float[np.ndarray, " rows"]:
        """How odd each row is: minus the natural log of its density. Higher is odder.

        Infinite, with a warning, outside the declared bounds; never NaN.

        Args:
            rows: As for the model's `log_prob`.
        """
        return odd_outside(*self._scorer.score(rows))

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
        return self._scorer.explain(rows)

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Names of the columns, where the model has any."""
        return self._scorer.columns

    @property
    def ledger(self) -> Ledger:
        """Every release that went into the model and the threshold."""
        ledger = replace(self.model.ledger, entries=(*self.model.ledger.entries, *self.paid))
        for sentence in self.assumptions:
            ledger = ledger.assuming(sentence)
        return ledger

    @cached_property
    def guarantee(self) -> Guarantee:
        """What the ledger adds up to, at the delta of the model's guarantee."""
        if not self.paid and not self.assumptions:
            return self.model.guarantee
        if not self.paid:
            extra = tuple(s for s in self.assumptions if s not in self.model.guarantee.assumptions)
            return replace(
                self.model.guarantee, assumptions=self.model.guarantee.assumptions + extra
            )
        return self.ledger.guarantee(delta=self.model.guarantee.delta)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write model and threshold to one `*.veil` file, all or nothing. It may be released."""
        artifacts.save(self.to_artifact(), path)

    def to_artifact(self) -> artifacts.Artifact:
        """The detector as plain data."""
        inner = self.model.to_artifact()
        return artifacts.Artifact(
            model="LikelihoodDetector",
            manifest={
                "false_alarm_rate": self.false_alarm_rate,
                "threshold": self.threshold,
                "label": None if self.label is None else _plain(self.label),
                "num_paid": len(self.paid),
                "assumptions": list(self.assumptions),
                "model": {
                    "class": inner.model,
                    "settings": inner.manifest,
                    "guarantee": inner.guarantee.to_json(),
                    "assumptions": list(inner.ledger.assumptions),
                },
            },
            ledger=self.ledger,
            guarantee=self.guarantee,
            schema=inner.schema,
            arrays=inner.arrays,
        )

    @classmethod
    def from_artifact(cls, artifact: artifacts.Artifact) -> "LikelihoodDetector":
        """The detector that `to_artifact` described."""
        settings, ledger = artifact.manifest, artifact.ledger
        inner, num_paid = settings["model"], settings["num_paid"]
        if inner["class"] in ("LikelihoodDetector", "EnsembleDetector"):
            raise ValueError("a detector is not made of another.")
        check.count(at_least=0, num_paid=num_paid)
        if num_paid > len(ledger.entries):
            raise ValueError("the ledger has fewer entries than were paid for the threshold.")
        first = len(ledger.entries) - num_paid
        whole = artifacts.Artifact(
            model=inner["class"],
            manifest=inner["settings"],
            ledger=replace(
                ledger,
                entries=ledger.entries[:first],
                assumptions=tuple(str(sentence) for sentence in inner["assumptions"]),
            ),
            guarantee=Guarantee.from_json(inner["guarantee"]),
            schema=artifact.schema,
            arrays=artifact.arrays,
        )
        artifacts.check(whole)
        detector = cls(
            registry.from_artifact(whole),
            false_alarm_rate=settings["false_alarm_rate"],
            threshold=settings["threshold"],
            label=settings["label"],
            paid=ledger.entries[first:],
            assumptions=tuple(str(sentence) for sentence in settings["assumptions"]),
        )
        # the file's own statement, checked against its ledger when it was read
        object.__setattr__(detector, "guarantee", artifact.guarantee)
        return detector

    def _needed_threshold(self) -> float:
        if self.threshold is None:
            raise ValueError(
                "there is no threshold yet. Take the detector that from_samples(), from_public(rows) "
                "or from_private(rows, budget=...) returns, or declare threshold=..."
            )
        return self.threshold

    @cached_property
    def _scorer(self) -> AbstractScorer:
        return scorer_of(self.model, self.label)

    def _with(
        self,
        threshold: float,
        *,
        paid: tuple[Entry, ...] | None = None,
        assumptions: tuple[str, ...] = (),
    ) -> "LikelihoodDetector":
        # what was paid before stays paid, whatever sets the threshold now
        return LikelihoodDetector(
            self.model,
            false_alarm_rate=self.false_alarm_rate,
            threshold=threshold,
            label=self.label,
            paid=self.paid if paid is None else paid,
            assumptions=assumptions,
        )

    def __repr__(self) -> str:
        shown = "no threshold yet" if self.threshold is None else f"threshold {self.threshold:.4g}"
        return f"LikelihoodDetector({type(self.model).__name__}, {shown}; {self.guarantee})"


def _threshold(scores: Float[np.ndarray, " rows"], rate: float, what: str) -> float:
    """The smallest score that a further row exceeds with probability at most `rate`.

    Of n scores and a further one, all orders are alike, so the further one is above the r-th smallest
    with probability at most 1 - r / (n + 1); ties only make it less.
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
            f"more than {rate:.3g} of the rows have no density under the model: no threshold keeps "
            "the false-alarm rate. Look at the bounds of the model."
        )
    return threshold


def _plain(label: Any) -> Any:
    """A class as JSON has it."""
    return label.item() if isinstance(label, np.generic) else label
