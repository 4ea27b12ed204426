"""Do models of single classes tell their class from the others? Out-of-distribution AUROC.

As private as the test images: no ledger pays for it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from reproductions.metrics.images.pixels import class_labels
from veilflow.evaluation import roc_curve


@dataclass(frozen=True)
class OodAuroc:
    """How well each class's model finds images of other classes. As private as the test images.

    Attributes:
        by_class: For each class, the chance that an image of another class has a higher score than one
            of its own, ties halved.
    """

    by_class: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean over the classes."""
        return float(np.mean(self.by_class))

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"by_class": list(self.by_class), "mean": self.mean}


def ood_auroc(scores_by_class: Any, labels: Any) -> OodAuroc:
    """The area under the ROC curve of each class's model: its class is ordinary, all others are not.

    The paper rescales scores to [0, 1] first; areas depend on their order alone, so this does not.

    Args:
        scores_by_class: (classes, images). Row c holds every test image's out-of-distribution score by
            the model of class c, higher for stranger images: minus its log density. Infinite scores
            are allowed.
        labels: The class of each test image, in 0 ... classes - 1.

    Raises:
        ValueError: Not a row of scores for each class, NaN, or a class without test images.
    """
    scores = np.asarray(scores_by_class, dtype=np.float64)
    if scores.ndim != 2 or len(scores) < 2 or scores.shape[1] == 0:
        raise ValueError(
            "scores_by_class must have shape (classes, images) with at least two classes, got "
            f"{scores.shape}."
        )
    if np.isnan(scores).any():
        raise ValueError("scores_by_class must not hold NaN.")
    truth = class_labels(len(scores), scores.shape[1], labels=labels)
    missing = sorted(set(range(len(scores))) - set(truth.tolist()))
    if missing:
        raise ValueError(
            f"labels must hold every class, got no image of {missing}. Leave out their models."
        )
    areas = (
        # the curve takes log densities: low ones are the anomalies
        roc_curve(ordinary=-row[truth == c], anomalous=-row[truth != c]).auroc
        for c, row in enumerate(scores)
    )
    return OodAuroc(tuple(areas))
