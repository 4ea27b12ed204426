"""Does a synthetic table teach what the real one teaches? Trained on one, tested on the other.

The scores are as private as the real rows they are computed on.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from veilflow._core import check
from veilflow.evaluation._cells import check_frames, subsample
from veilflow.evaluation._features import FeatureMap, label_codes
from veilflow.tabular.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

_ROWS_PER_CLASS = 10
"""Early stopping holds a tenth of the training rows out, and wants a row of each class there."""


@dataclass(frozen=True)
class Score:
    """How well a classifier trained on synthetic rows does on real ones. As private as those.

    Attributes:
        macro_f1: The mean of the classes' F1 scores, over classes that occur or are predicted.
        auroc: Area under the ROC curve; of more than two classes, the mean of each against the rest.
        average_precision: Of the last class of the label, if there are two classes.
    """

    macro_f1: float
    auroc: float
    average_precision: float | None


@dataclass(frozen=True)
class ClassifierScores:
    """Scores of several classifiers. As private as the real rows.

    Attributes:
        scores: By classifier.
    """

    scores: dict[str, Score]

    @property
    def mean(self) -> Score:
        """The means over the classifiers."""
        found = self.scores.values()
        precisions = [s.average_precision for s in found if s.average_precision is not None]
        return Score(
            macro_f1=float(np.mean([s.macro_f1 for s in found])),
            auroc=float(np.mean([s.auroc for s in found])),
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

    All columns but the label are features: an indicator for each value that the schema lists, one
    more for missing cells; numbers standardized by the mean and deviation of the synthetic rows,
    missing ones at that mean with an indicator beside it.

    Scores are defined for poor synthetic tables, too. A class with fewer than two synthetic rows is
    not learned: its probability is 0, its F1 score as well. If a single class is left, or no feature
    varies, the answer is the share of each class, whatever the row.

    Args:
        real: Real rows the model was not fitted to.
        synthetic: Rows a model made. Real training rows in their place give the reference.
        schema: Of both, with a label.
        classifiers: Which of `CLASSIFIERS`; all nine where not given.
        max_rows: Larger tables are measured on this many rows, drawn at random.
        seed: Of that draw and of the classifiers.

    Raises:
        ValueError: The schema has no label of classes, real rows are all of one class, or there are
            fewer than ten synthetic rows per class.
    """
    names = tuple(classifiers) or tuple(CLASSIFIERS)
    for name in names:
        check.one_of(tuple(CLASSIFIERS), classifiers=name)
    check.count(max_rows=max_rows)
    check_frames(schema, real=real, synthetic=synthetic)
    real, synthetic = (subsample(f, max_rows, seed=seed) for f in (real, synthetic))
    truth, labels, num_classes = label_codes(real, synthetic, schema)
    if (truth == truth[0]).all():
        raise ValueError("real must hold rows of at least two classes: nothing can be told apart.")
    usable = (np.bincount(labels[labels >= 0], minlength=num_classes) >= 2)[labels] & (labels >= 0)
    taught: Any = synthetic[usable]
    labels = labels[usable]
    if len(labels) < _ROWS_PER_CLASS * max(1, len(np.unique(labels))):
        raise ValueError(
            f"synthetic must have at least {_ROWS_PER_CLASS} rows for each class it has. Sample "
            "more rows: as many as there were training rows is usual."
        )
    features = FeatureMap.of(taught, schema)
    train, test = features(taught), features(real, strict=True)
    nothing_to_learn = (labels == labels[0]).all() or (train == train[0]).all()
    scores = {}
    for name in names:
        if nothing_to_learn:
            shares = np.bincount(labels, minlength=num_classes) / len(labels)
            probabilities = np.broadcast_to(shares, (len(truth), num_classes))
        else:
            probabilities = _answers(CLASSIFIERS[name](seed), train, labels, test, num_classes)
        scores[name] = _score(truth, probabilities)
    return ClassifierScores(scores)


def _answers(
    classifier: Any, train: np.ndarray, labels: np.ndarray, test: np.ndarray, num_classes: int
) -> np.ndarray:
    """Probabilities of all classes for each test row; of those that were not learned, 0."""
    with warnings.catch_warnings():
        # not converged, collinear, a class that is rare: findings about the rows, not about the call
        warnings.simplefilter("ignore")
        classifier.fit(train, labels)
        found = classifier.predict_proba(test)
    answers = np.zeros((len(test), num_classes))
    answers[:, classifier.classes_] = found
    return answers


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


def _logistic_regression(seed: int) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=500, random_state=seed)


def _decision_tree(seed: int) -> Any:
    from sklearn.tree import DecisionTreeClassifier

    return DecisionTreeClassifier(random_state=seed)


def _gradient_boosting(seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(random_state=seed)


def _random_forest(seed: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(random_state=seed)


def _ada_boost(seed: int) -> Any:
    from sklearn.ensemble import AdaBoostClassifier

    return AdaBoostClassifier(random_state=seed)


def _bagging(seed: int) -> Any:
    from sklearn.ensemble import BaggingClassifier

    return BaggingClassifier(random_state=seed)


def _neural_network(seed: int) -> Any:
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier(early_stopping=True, max_iter=50, random_state=seed)


def _linear_discriminant(seed: int) -> Any:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    return LinearDiscriminantAnalysis()


def _naive_bayes(seed: int) -> Any:
    from sklearn.naive_bayes import GaussianNB

    # with the default smoothing, one-hot columns make it rank synthetic tables above real ones
    return GaussianNB(var_smoothing=1e-2)


CLASSIFIERS: dict[str, Callable[[int], Any]] = {
    "logistic regression": _logistic_regression,
    "decision tree": _decision_tree,
    "gradient boosting": _gradient_boosting,
    "random forest": _random_forest,
    "AdaBoost": _ada_boost,
    "bagging": _bagging,
    "neural network": _neural_network,
    "linear discriminant": _linear_discriminant,
    "naive Bayes": _naive_bayes,
}
"""The nine classifiers by name, made from a seed; as scikit-learn sets them, but for what is given."""
