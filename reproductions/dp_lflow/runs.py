"""One run: a model fitted to the training images of a set, and images of it measured."""

import hashlib
import math
import time

from reproductions import memory
from reproductions.dp_lflow import data, estimators, measuring
from reproductions.dp_lflow.sharpening import RAW, versions
from reproductions.metrics.images import IMAGE_CLASSIFIERS
from reproductions.tasks import Finished, OfSeed

DELTA = 1e-5
"""The paper's."""
REAL = "real"
"""In the place of a method: the training images themselves."""
KEPT = ("flows", "models", "conditional")
"""Methods whose samples are kept for the FID, which another machine may measure later."""
KEPT_IMAGES = 10_000
SHOWN = 100
"""How many samples the figures show, in rows of the ten classes."""
_FULL = (*KEPT, "published")
_FULL_EPSILONS = (1.0, 10.0, math.inf)
_SAMPLING_SEED = 10_000
"""Added to the split: never the seed of a fit."""


class Task(OfSeed):
    """What to run."""

    delta = DELTA

    @property
    def in_full(self) -> bool:
        """Whether all classifiers are trained; where only a figure needs the run, the CNN is."""
        return self.method in _FULL and self.epsilon in _FULL_EPSILONS

    @property
    def keeps_samples(self) -> bool:
        """Whether samples are kept for an FID."""
        return self.in_full and self.method in KEPT and data.FACTS[self.data].is_published


def perform(task: Task) -> Finished:
    """Fit and measure, or measure real images. Seconds are those of the fit."""
    found = data.load(task.data)
    if task.method == REAL:
        return _reference(task, found)
    memory.forget_peak()
    start = time.perf_counter()
    estimator = estimators.build(
        task.method,
        found.train.spec,
        epsilon=task.epsilon,
        delta=DELTA,
        num_records=len(found.train),
        seed=task.split,
    )
    model = estimators.fit(estimator, found.train)
    fitted = time.perf_counter()
    made = model.sample(data.FACTS[task.data].sampled, seed=_SAMPLING_SEED + task.split)
    sampled = time.perf_counter()
    peak = memory.peak_gigabytes()
    classifiers = IMAGE_CLASSIFIERS if task.in_full else ("CNN",)
    parts = versions(task.data, made.pixels)
    result = {
        **{
            part: measuring.measure(
                images, made.labels, found, seed=task.split, classifiers=classifiers
            )
            for part, images in parts.items()
        },
        "ood": measuring.outliers(model, found),
        "fit_seconds": fitted - start,
        "sampling_seconds": sampled - fitted,
        "peak_gigabytes": peak,
        "megabytes": estimators.megabytes(model.plan.flow),
        "plan": model.to_artifact().manifest["plan"],
        "guarantee": model.guarantee.to_json(),
        "ledger": model.ledger.to_json(),
    }
    arrays = {f"shown_{part}": images[:SHOWN] for part, images in parts.items()}
    if task.keeps_samples:
        arrays["samples"] = made.pixels[:KEPT_IMAGES]
        result["samples"] = hashlib.sha256(arrays["samples"].tobytes()).hexdigest()
    return Finished(result, arrays, fitted - start)


def _reference(task: Task, found: data.Data) -> Finished:
    """What real images reach: training images in the place of samples. None of them is kept."""
    start = time.perf_counter()
    train = found.train
    result = {
        RAW: measuring.measure(
            train.pixels, train.labels, found, seed=task.split, classifiers=IMAGE_CLASSIFIERS
        ),
        "samples": "the first training images",
        "guarantee": {"epsilon": "inf", "accountant": "none"},
    }
    return Finished(result, {}, time.perf_counter() - start)
