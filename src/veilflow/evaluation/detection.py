"""Can a classifier tell synthetic rows from real ones? A score of 0.5 means that it cannot.

The score is as private as the real rows.
"""

import warnings
from typing import TYPE_CHECKING

import numpy as np

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
"""What the discriminator takes as categories; longer lists it sees as ordered codes."""


def detection_score(
    real: "pd.DataFrame",
    synthetic: "pd.DataFrame",
    schema: Schema,
    *,
    folds: int = 3,
    max_rows: int = 50_000,
    seed: int = 0,
) -> float:
    """Area under the ROC curve of gradient-boosted trees that tell the tables apart, cross-validated.

    1 means that every synthetic row is found out. Scores below 0.5 are chance, or come from rows
    that are in both tables: a row seen as real in training is called real again. So give real rows
    that the model was not fitted to.

    Args:
        real: Real rows. The score is as private as they are.
        synthetic: Rows a model made.
        schema: Of both.
        folds: Of the cross-validation; the score is the mean over them.
        max_rows: At most this many rows of each table are used; of both, as many as the smaller has.
        seed: Of that draw, of the folds and of the trees.

    Raises:
        ValueError: A table has fewer rows than there are folds.
    """
    check.count(folds=folds, at_least=2)
    check.count(max_rows=max_rows, at_least=folds)
    check_frames(schema, real=real, synthetic=synthetic)
    size = min(len(real), len(synthetic), max_rows)
    if size < folds:
        raise ValueError(f"real and synthetic must each have at least {folds} rows, one per fold.")
    real, synthetic = (subsample(frame, size, seed=seed) for frame in (real, synthetic))
    cells, is_category = _cells(real, synthetic, schema)
    labels = np.repeat([0, 1], size)
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import StratifiedKFold

    scores = []
    for train, test in StratifiedKFold(folds, shuffle=True, random_state=seed).split(cells, labels):
        trees = HistGradientBoostingClassifier(random_state=seed)
        trees.set_params(categorical_features=is_category)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a column without any value is one more thing to see
            found = trees.fit(cells[train], labels[train]).predict_proba(cells[test])[:, 1]
        scores.append(roc_auc_score(labels[test], found))
    return float(np.mean(scores))


def _cells(
    real: "pd.DataFrame", synthetic: "pd.DataFrame", schema: Schema
) -> tuple[np.ndarray, np.ndarray]:
    """Both tables below each other, numbers with gaps and codes; and which columns are categories."""
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
