"""Do synthetic images teach what real ones teach? The DP-LFlow paper's three classifiers.

The accuracies are as private as the real test images: no ledger pays for them.
"""

import statistics
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from reproductions.metrics.images.pixels import Labels, Pixels, class_labels, pixels

IMAGE_CLASSIFIERS = ("LR", "MLP", "CNN")
"""Logistic regression on pixels, a network of one hidden layer, a network of two convolutions."""

IMAGE_EPOCHS = {"MLP": 20, "CNN": 5}
"""Passes over the training images; the paper trains the CNN for 100 on faces."""

_LEARNING_RATES = {"MLP": 0.01, "CNN": 0.001}
_MAX_ITER = 100


@dataclass(frozen=True)
class ImageClassifierScores:
    """Accuracies on real images of classifiers trained on synthetic ones. As private as the former.

    Attributes:
        accuracies: By classifier, the mean over its runs, in [0, 1].
        by_run: By classifier, the accuracy of each run.
        num_train: How many images they were trained on.
        num_test: How many images they were tested on.
    """

    accuracies: dict[str, float]
    by_run: dict[str, tuple[float, ...]]
    num_train: int
    num_test: int

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "accuracies": dict(self.accuracies),
            "by_run": {name: list(found) for name, found in self.by_run.items()},
            "num_train": self.num_train,
            "num_test": self.num_test,
        }


def compare_image_classifiers(
    train_images: Any,
    train_labels: Any,
    test_images: Any,
    test_labels: Any,
    num_classes: int,
    seed: int,
    *,
    classifiers: Sequence[str] = (),
    epochs: Mapping[str, int] | None = None,
    runs: int = 1,
) -> ImageClassifierScores:
    """Train classifiers on (synthetic) images and test them on real ones. As private as the latter.

    - LR: scikit-learn's logistic regression as it comes. Its 100 iterations do not converge on 60,000
      images; the paper stopped there, too, and the limit keeps it within a minute.
    - MLP: Linear(pixels, 100), ReLU, Linear(100, classes); Adam at 0.01 for 20 epochs.
    - CNN: Conv(32), dropout 0.5, ReLU, Conv(64), dropout 0.5, ReLU, Linear; both convolutions 3x3 of
      stride 2; Adam at 0.001 for 5 epochs.

    Both networks see batches of 200 with a weight decay of 1e-6. A class without training images is
    allowed: it is never answered, and its test images count as wrong.

    Args:
        train_images: (images, channels, height, width), 8-bit or in [0, 1]. Real training images in
            place of synthetic ones give the reference.
        train_labels: A class in 0 ... num_classes - 1 for each.
        test_images: Real images the model was not fitted to.
        test_labels: A class for each.
        num_classes: How many classes there are; public.
        seed: Seed of the networks' initial weights, the order of images and dropout.
        classifiers: Which of `IMAGE_CLASSIFIERS`; all where not given.
        epochs: Other numbers of epochs than `IMAGE_EPOCHS`, by network.
        runs: How often each network is trained, with seeds of its own. There is no chance in logistic
            regression: it runs once.

    Raises:
        ValueError: Images of two sizes or outside the range, labels outside the classes, or training
            images of a single class.
    """
    names = tuple(classifiers) or IMAGE_CLASSIFIERS
    passes = {**IMAGE_EPOCHS, **(epochs or {})}
    train, test = pixels(train_images=train_images, test_images=test_images)
    labels = class_labels(num_classes, len(train), train_labels=train_labels)
    truth = class_labels(num_classes, len(test), test_labels=test_labels)
    if (labels == labels[0]).all():
        raise ValueError("train_labels must hold at least two classes: nothing can be learned.")
    seeds = [runs * seed + run for run in range(runs)]
    by_run: dict[str, tuple[float, ...]] = {}
    for name in names:
        if name == "LR":
            by_run[name] = (_logistic_regression((train, labels), (test, truth), seed),)
        else:
            data = (train, labels), (test, truth)
            by_run[name] = tuple(_network(name, passes[name], *data, num_classes, seeds))
    means = {name: statistics.fmean(found) for name, found in by_run.items()}
    return ImageClassifierScores(means, by_run, len(train), len(test))


def _network(
    name: str,
    epochs: int,
    train: tuple[Pixels, Labels],
    test: tuple[Pixels, Labels],
    num_classes: int,
    seeds: Sequence[int],
) -> list[float]:
    from reproductions.metrics.images import networks
    from reproductions.metrics.images.training import Recipe, accuracies

    network = {"MLP": networks.MLP, "CNN": networks.CNN}[name]
    recipe = Recipe(network, _LEARNING_RATES[name], epochs)
    return accuracies(recipe, train, test, num_classes, seeds=seeds)


def _logistic_regression(
    train: tuple[Pixels, Labels], test: tuple[Pixels, Labels], seed: int
) -> float:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    classifier = LogisticRegression(max_iter=_MAX_ITER, random_state=seed)
    (images, labels), (test_images, truth) = train, test
    with warnings.catch_warnings():
        # the limit is part of the measure: see above
        warnings.simplefilter("ignore", ConvergenceWarning)
        classifier.fit(images.reshape(len(images), -1), labels)
    answers = classifier.predict(test_images.reshape(len(test_images), -1))
    return float(np.mean(answers == truth))
