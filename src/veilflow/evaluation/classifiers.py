"""Classifiers trained on synthetic rows and tested on real ones.

The scores are as private as the real rows on which they are computed.
"""

import importlib
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from veilflow._core import check
from veilflow.evaluation._cells import FeatureMap, check_frames, label_codes, subsample
from veilflow.tabular.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

_ROWS_PER_CLASS = 10
"""Early stopping holds out a tenth of the training rows, and needs a row of each class there."""


@dataclass(frozen=True)
class Score:
    """The scores of a classifier that was trained on synthetic rows, on real rows. As private as those.

    Attributes:
        macro_f1: The mean F1 score over the classes that occur or are predicted.
        auroc: The area under the ROC curve; with more than two classes, the mean over each class
            against the rest.
        average_precision: That of the last class of the label, if there are two classes.
    """

    macro_f1: float
    auroc: float
    average_precision: float | None


@dataclass(frozen=True)
class ClassifierScores:
    """Scores of several classifiers. As private as the real rows.

    Attributes:
        scores: The scores by classifier.
    """

    scores: dict[str, Score]

    @property
    def mean(self) -> Score:
        """The means over the classifiers."""
        scores = self.scores.values()
        precisions = [s.average_precision for s in scores if s.average_precision is not None]
        return Score(
            macro_f1=float(np.mean([s.macro_f1 for s in scores])),
            auroc=float(np.mean([s.auroc for s in scores])),
            average_precision=float(np.mean(precisions)) if precisions else None,
        )

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "mean": asdict(self.mean),
            "scores": {name: asdict(score) for name, score in self.scores.items()},
        }


def compare_classifiers(
    real: "pd.DataFrame",
    synthetic: "pd.DataFrame",
    schema: Schema,
    *,
    classifiers: Sequence[str] = (),
    max_rows: int = 200_000,
    seed: int = 0,
) -> ClassifierScores:
    """Train classifiers on synthetic rows and test them on real ones. As private as `real`.

    All columns but the label are features: an indicator for each value that the schema lists and for
    missing cells; numbers standardized by the mean and standard deviation of the synthetic rows, where
    missing ones are at the mean and have an indicator.

    Scores are defined for poor synthetic tables, too. A class with fewer than two synthetic rows is
    not learned: its probability and its F1 score are 0. If a single class is left, or no feature
    varies, the prediction for every row is the share of each class.

    Args:
        real: Real rows to which the model was not fitted.
        synthetic: Rows that a model sampled. Real training rows in their place give the reference.
        schema: The schema of both tables, with a label.
        classifiers: Some of `CLASSIFIERS`; by default all nine.
        max_rows: Larger tables are measured on this many rows, drawn at random.
        seed: The seed of that draw and of the classifiers.

    Raises:
        ValueError: If the schema has no label of classes, all real rows are of one class, or there
            are fewer than ten synthetic rows per class.
    """
    names = tuple(classifiers) or tuple(CLASSIFIERS)
    for name in names:
        check.one_of(tuple(CLASSIFIERS), classifiers=name)
    check.count(max_rows=max_rows)
    check_frames(schema, real=real, synthetic=synthetic)
    real, synthetic = (subsample(f, max_rows, seed=seed) for f in (real, synthetic))
    truth, labels, num_classes = label_codes(real, synthetic, schema)
    if (truth == truth[0]).all():
        raise ValueError(
            "real must hold rows of at least two classes, or there is nothing to predict."
        )
    usable = (np.bincount(labels[labels >= 0], minlength=num_classes) >= 2)[labels] & (labels >= 0)
    learned: Any = synthetic[usable]
    labels = labels[usable]
    if len(labels) < _ROWS_PER_CLASS * max(1, len(np.unique(labels))):
        raise ValueError(
            f"synthetic must have at least {_ROWS_PER_CLASS} rows for each class it has. Sample "
            "more rows: as many as there were training rows is usual."
        )
    features = FeatureMap.of(learned, schema)
    train, test = features(learned), features(real, strict=True)
    nothing_to_learn = (labels == labels[0]).all() or (train == train[0]).all()
    scores = {}
    for name in names:
        if nothing_to_learn:
            shares = np.bincount(labels, minlength=num_classes) / len(labels)
            probabilities = np.broadcast_to(shares, (len(truth), num_classes))
        else:
            probabilities = _predict(CLASSIFIERS[name](seed), train, labels, test, num_classes)
        scores[name] = _score(truth, probabilities)
    return ClassifierScores(scores)


def _predict(
    classifier: Any, train: np.ndarray, labels: np.ndarray, test: np.ndarray, num_classes: int
) -> np.ndarray:
    """Probabilities of all classes for each test row; 0 for classes that were not learned."""
    probabilities = np.zeros((len(test), num_classes))
    with warnings.catch_warnings():
        # not converged, collinear, a rare class: findings about the rows, not about the call
        warnings.simplefilter("ignore")
        classifier.fit(train, labels)
        probabilities[:, classifier.classes_] = classifier.predict_proba(test)
    return probabilities


def _score(truth: np.ndarray, probabilities: np.ndarray) -> Score:
    from sklearn import metrics

    predicted = probabilities.argmax(axis=1)
    num_classes = probabilities.shape[1]
    tested = [c for c in range(num_classes) if 0 < (truth == c).sum() < len(truth)]
    areas = [metrics.roc_auc_score(truth == c, probabilities[:, c]) for c in tested]
    f1 = metrics.f1_score(truth, predicted, average="macro")
    precision = None
    if num_classes == 2:
        precision = float(metrics.average_precision_score(truth == 1, probabilities[:, 1]))
    return Score(float(f1), float(np.mean(areas)), precision)


Maker = Callable[[int], Any]
"""From a seed to a classifier."""


def maker(module: str, kind: str, *, seeded: bool = True, **settings: Any) -> Maker:
    """A maker of a classifier or regressor of scikit-learn, which is imported when one is made."""

    def make(seed: int) -> Any:
        cls = getattr(importlib.import_module(f"sklearn.{module}"), kind)
        return cls(**settings, **({"random_state": seed} if seeded else {}))

    return make


CLASSIFIERS: dict[str, Maker] = {
    "logistic regression": maker("linear_model", "LogisticRegression", max_iter=500),
    "decision tree": maker("tree", "DecisionTreeClassifier"),
    "gradient boosting": maker("ensemble", "HistGradientBoostingClassifier"),
    "random forest": maker("ensemble", "RandomForestClassifier"),
    "AdaBoost": maker("ensemble", "AdaBoostClassifier"),
    "bagging": maker("ensemble", "BaggingClassifier"),
    "neural network": maker("neural_network", "MLPClassifier", early_stopping=True, max_iter=50),
    "linear discriminant": maker(
        "discriminant_analysis", "LinearDiscriminantAnalysis", seeded=False
    ),
    # with the default smoothing, one-hot columns make it rank synthetic tables above real ones
    "naive Bayes": maker("naive_bayes", "GaussianNB", seeded=False, var_smoothing=1e-2),
}
"""The nine classifiers by name, made from a seed; scikit-learn's defaults but for these settings."""
