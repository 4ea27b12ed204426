"""Sections of the curator's report for detectors of anomalies; as private as the records."""

import warnings
from typing import Any

import numpy as np
from jaxtyping import Float

from veilflow.models.detect.fitted_ensemble import FittedEnsemble
from veilflow.models.detect.likelihood import LikelihoodDetector
from veilflow.models.detect.scoring import images_of_class, is_outside
from veilflow.models.protocols import ImageModel
from veilflow.releases.answers import overview
from veilflow.reports import svg
from veilflow.tabular.io import read_rows

_BINS = 32
_MOST_SAMPLES = 20_000
_MOST_IMAGES = 2_000


def detector_sections(
    detector: LikelihoodDetector, data: Any, labels: Any, *, seed: int
) -> dict[str, Any]:
    """Scores of the records and of the model's own samples, and how many are called odd.

    Where labels or folders name classes, only images of the detector's class are scored.
    """
    if detector.threshold is None:
        raise ValueError("the detector has no threshold yet. Make one by detect fit.")
    most = _MOST_SAMPLES
    with warnings.catch_warnings():
        # the page says how many there are
        warnings.filterwarnings("ignore", "some rows lie outside the declared bounds")
        if isinstance(detector.model, ImageModel):
            spec, most = detector.model.spec, _MOST_IMAGES
            data = images_of_class(data, spec, detector.label, labels=labels)
        scores = detector.score(data)
        if not len(scores):
            raise ValueError("there are no records to compare with.")
        own = {} if detector.label is None else {"label": detector.label}
        sampled = detector.model.sample(min(len(scores), most), seed=seed, **own)
        expected = detector.score(sampled)
    rate, count = detector.false_alarm_rate, len(scores)
    return {
        "detector": {
            "count": count,
            "odd": float(np.mean(detector.is_odd(scores))),
            "odd_samples": float(np.mean(detector.is_odd(expected))),
            "rate": rate,
            # two standard deviations of the rate, by chance alone, among so many records
            "give_or_take": float(2 * np.sqrt(rate * (1 - rate) / count)),
            "outside": float(np.mean(np.isposinf(scores))),
            "threshold": detector.threshold,
            "label": detector.label,
            "svg": _drawing(scores, expected, detector.threshold),
        }
    }


def ensemble_sections(ensemble: FittedEnsemble, data: Any) -> dict[str, Any]:
    """Votes of the parts on the records. No query is spent, because nobody gets an answer."""
    values = read_rows(data, columns=ensemble.columns).values
    if not len(values):
        raise ValueError("there are no records to compare with.")
    answers = ensemble.answers
    outside = is_outside(ensemble.domain, values)
    bins = min(answers.parts + 1, _BINS)
    votes = overview(answers, ensemble.votes(values), outside, bins=bins)
    alt = f"How many of {answers.parts} parts call a record normal, over all records."
    return {
        "ensemble": {
            "count": len(values),
            "parts": answers.parts,
            "method": answers.method,
            "odd": votes.against,
            "answered": votes.answered,
            "outside": float(np.mean(outside)),
            "limit": answers.limit * answers.anomalies,
            "svg": svg.histogram(votes.shares, None, labels=["no part", "all parts"], alt=alt),
        }
    }


def _drawing(
    scores: Float[np.ndarray, " rows"], expected: Float[np.ndarray, " samples"], threshold: float
) -> str:
    """Both histograms on one range; scores beyond it are in the bins at its ends."""
    finite = np.concatenate([x[np.isfinite(x)] for x in (scores, expected)] + [[threshold]])
    low, high = np.quantile(finite, [0.005, 0.995])
    low, high = min(low, threshold), max(high, threshold)
    margin = 0.03 * (high - low) or 1.0
    low, high = float(low - margin), float(high + margin)
    shares = []
    for one in (scores, expected):
        inside = np.clip(one[~np.isposinf(one)], low, high)
        shares.append(np.histogram(inside, bins=_BINS, range=(low, high))[0] / max(len(one), 1))
    return svg.histogram(
        *shares,
        labels=[f"{low:.4g}", f"{high:.4g}"],
        alt=(
            "Scores: records as bars, samples of the model as a line; an upright line is the "
            f"threshold of {threshold:.4g}, and scores above it are called odd."
        ),
        marks=[(threshold - low) / (high - low)],
    )
