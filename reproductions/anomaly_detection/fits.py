"""A released density as a detector: what it tells apart, and whether its thresholds keep their word.

What is measured here is about public benchmarks. On private rows every number below would be as
private as the rows.
"""

import math
import warnings
from typing import Any

import numpy as np
from jaxtyping import Float

import veilflow as vf
from reproductions.anomaly_detection import sets
from reproductions.dp_nf import estimators
from reproductions.dp_nf.data import Facts
from veilflow import evaluation

RATES = (0.01, 0.05, 0.1)
"""Requested false-alarm rates."""
CALIBRATED = (sets.LIFE, *sets.TOYS)
"""Data sets on which thresholds are measured."""
PRIVATE_EPSILON = 1.0
"""The epsilon of a private threshold, on top of that of the model."""
_SAMPLES = 20_000
"""Samples of a model from which a threshold is computed."""
_POINTS = 200
"""Points of a curve that are kept for the figures."""

Scores = Float[np.ndarray, " rows"]


def perform(
    name: str, method: str, *, epsilon: float, split: int
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Fit and measure.

    Args:
        name: The data set.
        method: As `dp_nf.estimators` has them: `flow`, `mixture-3`.
        epsilon: The budget; infinite for a reference without privacy.
        split: From 1.

    Returns:
        Numbers as plain JSON, and the ROC curve.
    """
    case = sets.load(name, split)
    estimator = _estimator(method, case.facts, epsilon=epsilon, num_records=len(case.records))
    model = estimators.fit(estimator, case.records)
    with warnings.catch_warnings():
        # rows outside the bounds are as odd as can be: what the warning says, and is meant here
        warnings.filterwarnings("ignore", "some rows lie outside", UserWarning)
        detector = vf.LikelihoodDetector(model)
        ordinary, strange = detector.score(case.ordinary), detector.score(case.anomalies)
        curve = evaluation.roc_curve(-ordinary, -strange)
        result: dict[str, Any] = {
            "auroc": curve.auroc,
            "precision": average_precision(ordinary, strange),
            "guarantee": model.guarantee.to_json(),
            "ledger": model.ledger.to_json(),
        }
        if name in CALIBRATED and epsilon != math.inf:
            again = detector.second_fit(_SAMPLES, seed=split)
            for rate in RATES:
                for way, threshold in (
                    ("samples", _of_samples(model, rate, again, split)),
                    ("private", _of_records(model, rate, case.records)),
                ):
                    alarms = {"alarms": _alarms(threshold, ordinary), "asked": rate}
                    result[f"{way} {rate:g}"] = alarms
    return result, {"roc": _thinned(curve)}


def _estimator(method: str, facts: Facts, *, epsilon: float, num_records: int) -> Any:
    """For `flow` the density of a detector as it comes; others are those of DP-NF."""
    if method != "flow":
        return estimators.build(method, facts, epsilon=epsilon, num_records=num_records)
    budget = vf.Budget(epsilon=epsilon, delta=facts.delta)
    public = {"num_records": num_records, **facts.domain}
    return vf.LikelihoodDetector.estimator(budget=budget, **public)


def average_precision(ordinary: Scores, anomalous: Scores) -> float:
    """The mean, over anomalies, of the share of anomalies among the rows that score as high.

    Unlike the area it depends on how many of the rows are anomalies.
    """
    from sklearn.metrics import average_precision_score

    joined = np.concatenate([ordinary, anomalous])
    # ranks stand for the scores: infinities become ordinary numbers
    ranks = np.unique(joined, return_inverse=True)[1]
    return float(average_precision_score(np.arange(len(joined)) >= len(ordinary), ranks))


def _of_samples(model: Any, rate: float, again: Any, seed: int) -> float:
    detector = vf.LikelihoodDetector(model, false_alarm_rate=rate)
    found = detector.from_samples(_SAMPLES, refit=again, seed=seed)
    assert found.threshold is not None
    return found.threshold


def _of_records(model: Any, rate: float, records: np.ndarray) -> float:
    budget = vf.Budget(PRIVATE_EPSILON, 0.0)
    found = vf.LikelihoodDetector(model, false_alarm_rate=rate).from_private(records, budget=budget)
    assert found.threshold is not None
    return found.threshold


def _alarms(threshold: float, ordinary: Scores) -> float:
    """The share of normal rows that are called odd."""
    return float(np.mean((ordinary > threshold) | np.isposinf(ordinary)))


def _thinned(curve: evaluation.Roc) -> np.ndarray:
    at = np.linspace(0, len(curve.false_positive) - 1, _POINTS).round().astype(int)
    return np.stack([curve.false_positive[at], curve.true_positive[at]])
