"""All that is measured of images but the FID: what classifiers learn from them, and how near they are.

What is measured here is about public benchmarks. On private images every number below would be as
private as they are.
"""

import statistics
from typing import Any

import numpy as np

from reproductions.dp_lflow.data import Data
from reproductions.metrics.images import (
    IMAGE_CLASSIFIERS,
    compare_image_classifiers,
    compare_images,
    ood_auroc,
)

CLASSIFIER_RUNS = 5
"""The paper takes the mean over so many."""
NEAR = 10_000
"""At most so many images are compared with test images."""


def measure(
    images: np.ndarray,
    labels: Any,
    found: Data,
    *,
    seed: int,
    classifiers: tuple[str, ...] = IMAGE_CLASSIFIERS,
) -> dict[str, Any]:
    """Accuracies in percent, and distances by the features of a small network, as plain JSON.

    Args:
        images: What a model made; or training images, for the reference.
        labels: Their labels.
        found: The images to test on, and to compare with.
        seed: Seed of the networks, and of the draw of images where there are too many.
        classifiers: Which of them; all where not given.
    """
    test = found.test
    scores = compare_image_classifiers(
        images,
        labels,
        test.pixels,
        test.labels,
        num_classes=len(test.spec.classes),
        seed=seed,
        classifiers=classifiers,
        runs=CLASSIFIER_RUNS,
    )
    percent = {name: [100 * one for one in found] for name, found in scores.by_run.items()}
    return {
        "accuracies": {
            name: {"mean": statistics.fmean(runs), "runs": runs} for name, runs in percent.items()
        },
        "fidelity": nearness(images, found, seed=seed),
    }


def nearness(images: np.ndarray, found: Data, *, seed: int) -> dict[str, Any]:
    """How near images are to test images by the features of a small network, as plain JSON."""
    near = compare_images(found.test.pixels, images[:NEAR], features="small", seed=seed)
    return near.to_json()


def outliers(model: Any, found: Data) -> dict[str, Any]:
    """How well the density of codes under the model of a class tells test images of the others."""
    scores = -model.log_prob_by_class(found.test)
    return ood_auroc(scores.T, found.test.labels).to_json()
