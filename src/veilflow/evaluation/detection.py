"""Telling rows apart: anomalies by their likelihood, and synthetic rows from real ones by trees.

Curves and scores are computed from real rows without noise: they are as private as these rows.
"""

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from veilflow._core import check
from veilflow.evaluation._cells import (
    check_frames,
    check_listed,
    code,
    listed,
    num_codes,
    numbers,
    subsample,
)
from veilflow.tabular.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

_MAX_CATEGORIES = 255
"""The most categories that the trees take; values of longer lists are ordered codes to them."""


@dataclass(frozen=True)
class Roc:
    """The ROC curve of a likelihood as an anomaly score. As private as the rows that were scored.

    Attributes:
        false_positive: The share of ordinary rows that are called anomalies, increasing.
        true_positive: The share of anomalies that are found, at the same thresholds.
        auroc: The area under the curve: the probability that an anomaly scores below an ordinary
            row, where ties count one half.
    """

    false_positive: Float[np.ndarray, " points"]
    true_positive: Float[np.ndarray, " points"]
    auroc: float


def roc_curve(ordinary: Any, anomalous: Any) -> Roc:
    """The ROC curve of a low log density as the sign of an anomaly.

    No threshold is chosen: one tuned on labeled test rows would be neither fair nor free.

    Args:
        ordinary: Log densities of ordinary rows; minus infinity is allowed.
        anomalous: Log densities of anomalies.
    """
    from sklearn import metrics

    scores = [np.asarray(values, dtype=np.float64) for values in (ordinary, anomalous)]
    for name, values in zip(("ordinary", "anomalous"), scores, strict=True):
        if values.ndim != 1 or values.size == 0 or np.isnan(values).any():
            raise ValueError(f"{name} must be log densities of at least one row, without NaN.")
    # ranks keep order and ties of the scores, and turn infinities into finite numbers
    ranks = np.unique(np.concatenate(scores), return_inverse=True)[1]
    labels = np.arange(len(ranks)) >= len(scores[0])
    false, true, _ = metrics.roc_curve(labels, -ranks)
    return Roc(false, true, float(metrics.roc_auc_score(labels, -ranks)))


def detection_score(
    real: "pd.DataFrame",
    synthetic: "pd.DataFrame",
    schema: Schema,
    *,
    folds: int = 3,
    max_rows: int = 50_000,
    seed: int = 0,
) -> float:
    """The cross-validated area under the ROC curve of boosted trees that tell two tables apart.

    0.5 means that they cannot, and 1 that they recognize every synthetic row. Scores below 0.5 are
    chance, or come from rows in both tables: a row that was real in training is called real again.
    So give real rows to which the model was not fitted.

    Args:
        real: Real rows. The score is as private as they are.
        synthetic: Rows that a model sampled.
        schema: The schema of both tables.
        folds: The number of folds of the cross-validation; the score is the mean over them.
        max_rows: The most rows of each table to use; of both, as many as the smaller table has.
        seed: The seed of that draw, of the folds and of the trees.

    Raises:
        ValueError: If a table has fewer rows than there are folds.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import StratifiedKFold

    check.count(folds=folds, at_least=2)
    check.count(max_rows=max_rows, at_least=folds)
    check_frames(schema, real=real, synthetic=synthetic)
    size = min(len(real), len(synthetic), max_rows)
    if size < folds:
        raise ValueError(f"real and synthetic must each have at least {folds} rows, one per fold.")
    real, synthetic = (subsample(frame, size, seed=seed) for frame in (real, synthetic))
    cells, is_category = _cells(real, synthetic, schema)
    labels = np.repeat([0, 1], size)
    scores = []
    for train, test in StratifiedKFold(folds, shuffle=True, random_state=seed).split(cells, labels):
        trees = HistGradientBoostingClassifier(random_state=seed)
        trees.set_params(categorical_features=is_category)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about columns without any value
            shares = trees.fit(cells[train], labels[train]).predict_proba(cells[test])[:, 1]
        scores.append(roc_auc_score(labels[test], shares))
    return float(np.mean(scores))


def _cells(
    real: "pd.DataFrame", synthetic: "pd.DataFrame", schema: Schema
) -> tuple[np.ndarray, np.ndarray]:
    """The cells of both tables, numbers with gaps and codes, and which columns are categories."""
    columns, is_category = [], []
    for name, column in schema.columns.items():
        if column.has_position:
            columns.append([numbers(frame, name, column) for frame in (real, synthetic)])
            is_category.append(False)
            continue
        values = listed(name, column, real, synthetic)
        codes = [code(frame, name, column, bins=1, values=values) for frame in (real, synthetic)]
        check_listed("real", name, codes[0], values)
        columns.append(codes)
        is_category.append(num_codes(column, bins=1, values=values) <= _MAX_CATEGORIES)
    cells = np.stack([np.concatenate(c, dtype=np.float64) for c in columns], axis=1)
    return cells, np.array(is_category)
