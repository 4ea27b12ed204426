"""Anomalies found by low likelihood: the ROC curve and its area.

Curves are computed from scores of real rows without noise: they are as private as these rows.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float


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
