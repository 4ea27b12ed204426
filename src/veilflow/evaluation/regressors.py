"""Regressors trained on synthetic rows and tested on real ones, for labels that are numbers.

The scores are as private as the real rows on which they are computed.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from veilflow._core import check
from veilflow.evaluation._cells import FeatureMap, check_frames, numbers, subsample
from veilflow.evaluation.classifiers import maker
from veilflow.tabular.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

_LEAST_ROWS = 20


@dataclass(frozen=True)
class RegressorScore:
    """The scores of a regressor that was trained on synthetic rows, on real rows. As private as those.

    Attributes:
        r2: The share of the variance of the label that is predicted; below 0 if the mean of the real
            rows would be a better prediction.
        rank_correlation: Kendall's tau of predictions and labels, which few extreme labels do not
            decide; 0 if all predictions are equal.
    """

    r2: float
    rank_correlation: float


@dataclass(frozen=True)
class RegressorScores:
    """Scores of several regressors. As private as the real rows.

    Attributes:
        scores: The scores by regressor.
    """

    scores: dict[str, RegressorScore]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {name: asdict(score) for name, score in self.scores.items()}


REGRESSORS: dict[str, Callable[[int], Any]] = {
    "ridge regression": maker("linear_model", "Ridge", seeded=False),
    "gradient boosting": maker("ensemble", "HistGradientBoostingRegressor"),
}
"""The regressors by name, made from a seed, with scikit-learn's defaults."""


def compare_regressors(
    real: "pd.DataFrame",
    synthetic: "pd.DataFrame",
    schema: Schema,
    *,
    regressors: Sequence[str] = (),
    max_rows: int = 200_000,
    seed: int = 0,
) -> RegressorScores:
    """Train regressors on synthetic rows and test them on real ones. As private as `real`.

    Features are those of `compare_classifiers`. Rows without a label are left out.

    Args:
        real: Real rows to which the model was not fitted.
        synthetic: Rows that a model sampled. Real training rows in their place give the reference.
        schema: The schema of both tables, with a label that is a number or a moment.
        regressors: Some of `REGRESSORS`; by default all of them.
        max_rows: Larger tables are measured on this many rows, drawn at random.
        seed: The seed of that draw and of the regressors.

    Raises:
        ValueError: If the label is no number, or one of the tables has too few rows with a label, or
            all real labels are equal.
    """
    names = tuple(regressors) or tuple(REGRESSORS)
    for name in names:
        check.one_of(tuple(REGRESSORS), regressors=name)
    check.count(max_rows=max_rows)
    check_frames(schema, real=real, synthetic=synthetic)
    label = schema.label
    if label is None or not schema.columns[label].has_position:
        raise ValueError("regressors need a label that is a number or a moment: Schema(label=...).")
    frames: list[Any] = []
    labels = []
    for what, frame in (("real", real), ("synthetic", synthetic)):
        rows: Any = subsample(frame, max_rows, seed=seed)
        targets = numbers(rows, label, schema.columns[label])
        there = ~np.isnan(targets)
        if np.count_nonzero(there) < _LEAST_ROWS:
            raise ValueError(f"{what} must have at least {_LEAST_ROWS} rows with a label.")
        frames.append(rows[there])
        labels.append(targets[there])
    (test, truth), (learned, targets) = zip(frames, labels, strict=True)
    if (truth == truth[0]).all():
        raise ValueError("all real labels are equal, so there is nothing to predict.")
    features = FeatureMap.of(learned, schema)
    train, tested = features(learned), features(test, strict=True)
    # moments are large numbers: regressors in single precision see them by their deviation
    mean, scale = float(targets.mean()), float(targets.std()) or 1.0
    scores = {}
    for name in names:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # collinear columns: findings about the rows
            predict = REGRESSORS[name](seed).fit(train, (targets - mean) / scale).predict
            scores[name] = _score(truth, mean + scale * predict(tested))
    return RegressorScores(scores)


def _score(truth: np.ndarray, predicted: np.ndarray) -> RegressorScore:
    from scipy.stats import kendalltau

    r2 = 1 - float(np.mean((truth - predicted) ** 2) / np.var(truth))
    result: Any = kendalltau(truth, predicted)
    tau = float(result.statistic)
    return RegressorScore(r2, 0.0 if np.isnan(tau) else tau)
