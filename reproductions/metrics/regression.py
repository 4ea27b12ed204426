"""Does synthetic data teach what real data teaches? A regression trained on one, tested on the other.

The errors are as private as the real rows they are computed on.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.neighbors import KNeighborsRegressor

from reproductions.metrics.rows import Rows, tables


@dataclass(frozen=True)
class KnnRegression:
    """Mean squared errors on real test rows. As private as those rows.

    Attributes:
        synthetic: The error of neighbors among the synthetic rows.
        real: The error of neighbors among the real training rows, the reference to reach.
        constant: The error of the mean of the real training rows, the reference to beat.
    """

    synthetic: float
    real: float
    constant: float


def knn_regression(
    synthetic: Any, *, real_train: Any, real_test: Any, neighbors: int = 5, target: int = -1
) -> KnnRegression:
    """Train k nearest neighbors on synthetic and on real rows, and test both on other real rows.

    Args:
        synthetic: Rows a model made.
        real_train: The rows it was fitted to.
        real_test: Rows held out. The result is as private as these and `real_train`.
        neighbors: How many neighbors are averaged.
        target: The column to predict from the others.
    """
    _, train, test = tables(synthetic=synthetic, real_train=real_train, real_test=real_test)
    errors = test[:, target] - train[:, target].mean()
    return KnnRegression(
        synthetic=knn_mse(synthetic, test, neighbors=neighbors, target=target),
        real=knn_mse(train, test, neighbors=neighbors, target=target),
        constant=float(np.mean(errors**2)),
    )


def knn_mse(train: Any, test: Any, *, neighbors: int = 5, target: int = -1) -> float:
    """Mean squared error on `test` of the average target of the nearest rows in `train`.

    Args:
        train: Rows to look for neighbors in.
        test: Rows to predict. The result is as private as both.
        neighbors: How many neighbors are averaged, by Euclidean distance of the other columns.
        target: The column to predict.
    """
    train, test = tables(min_columns=2, train=train, test=test)
    fitted = KNeighborsRegressor(n_neighbors=neighbors).fit(*_split(train, target))
    features, truth = _split(test, target)
    return float(np.mean((fitted.predict(features) - truth) ** 2))


def _split(rows: Rows, target: int) -> tuple[Rows, np.ndarray]:
    return np.delete(rows, target, axis=1), rows[:, target]
