"""Anomalies found by low likelihood: the ROC curve, its area, and a generator of test anomalies.

Curves are computed from scores of real rows without noise: they are as private as these rows.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from veilflow._core import check
from veilflow.evaluation._rows import Rows, tables


@dataclass(frozen=True)
class Roc:
    """The trade-off over all thresholds of a likelihood. As private as the rows behind the scores.

    Attributes:
        false_positive: Part of the ordinary rows called anomalies, rising.
        true_positive: Part of the anomalies found, at the same thresholds.
        auroc: The area below: the chance that an anomaly scores below an ordinary row, ties halved.
    """

    false_positive: Float[np.ndarray, " points"]
    true_positive: Float[np.ndarray, " points"]
    auroc: float


def roc_curve(ordinary: Any, anomalous: Any) -> Roc:
    """The ROC curve of "the log density is low" as a sign of an anomaly.

    No threshold is chosen here: one that was tuned on labeled test rows would be neither fair nor free.

    Args:
        ordinary: Log densities of ordinary rows; minus infinity is allowed.
        anomalous: Log densities of anomalies.
    """
    scores = {"ordinary": ordinary, "anomalous": anomalous}
    found = {name: np.asarray(values, dtype=np.float64) for name, values in scores.items()}
    for name, values in found.items():
        if values.ndim != 1 or values.size == 0 or np.isnan(values).any():
            raise ValueError(f"{name} must be log densities of at least one row, without NaN.")
    # ranks stand for the scores: they keep ties and order, and infinities become ordinary numbers
    joined = np.concatenate(list(found.values()))
    ranks = np.unique(joined, return_inverse=True)[1]
    labels = np.arange(len(joined)) >= len(found["ordinary"])
    from sklearn import metrics

    false, true, _ = metrics.roc_curve(labels, -ranks)
    return Roc(false, true, float(metrics.roc_auc_score(labels, -ranks)))


def anomalies(rows: Any, num_rows: int | None = None, *, seed: int | None = None) -> Rows:
    """Rows around the tails of others, as in the DP-NF paper's experiment.

    In each column, on either side by the toss of a coin, a cell is uniform between the 5th and 30th or
    between the 70th and 95th percentile of `rows`. The columns are independent of each other.

    Args:
        rows: Test rows, whose percentiles are read: the anomalies are as private as they are.
        num_rows: How many anomalies; as many as there are rows where not given.
        seed: For the same anomalies again.
    """
    (rows,) = tables(rows=rows)
    if num_rows is None:
        num_rows = len(rows)
    check.count(num_rows=num_rows)
    rng = np.random.default_rng(seed)
    ends = np.percentile(rows, [5, 30, 70, 95], axis=0)
    size = (num_rows, rows.shape[1])
    lower, upper = rng.uniform(ends[0], ends[1], size), rng.uniform(ends[2], ends[3], size)
    return np.where(rng.random(size) < 0.5, lower, upper)


def draw_roc(path: str | os.PathLike[str], curves: Mapping[str, Roc], *, title: str = "") -> None:
    """Draw ROC curves by name, each with its area. As private as the rows behind them."""
    from veilflow.evaluation import figures

    figure, ((axis,),) = figures.canvas(1, 1, panel=(4.6, 4.2))
    axis.plot([0, 1], [0, 1], color="0.7", linewidth=0.8, linestyle=":")
    for color, (name, curve) in zip(figures.cycle(), curves.items(), strict=False):
        label = f"{name}, area {curve.auroc:.3f}"
        axis.plot(curve.false_positive, curve.true_positive, color=color, label=label)
    axis.set(xlim=(0, 1), ylim=(0, 1.01), aspect="equal")
    axis.set_xlabel("ordinary rows called anomalies", fontsize=9)
    axis.set_ylabel("anomalies found", fontsize=9)
    axis.legend(fontsize=8, frameon=False, loc="lower right")
    figures.save(figure, path, title=title)
