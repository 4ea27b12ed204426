"""One run: a model fitted to the training images of a set, and images of it measured."""

import hashlib
import math
import time

import veilflow as vf
from reproductions import memory
from reproductions.dp_lflow import data, estimators, measuring, pixels
from reproductions.dp_lflow.sharpening import RAW, versions
from reproductions.metrics.images import IMAGE_CLASSIFIERS
from reproductions.tasks import Finished, OfSeed

DELTA = 1e-5
"""The paper's."""
REAL = "real"
"""In the place of a method: the training images themselves."""
_IN_FULL = ("flows", "models", "conditional", *estimators.ENCODINGS)
KEPT = (*_IN_FULL, *(f"flows-{size}" for size in estimators.SIZES))
"""Methods whose samples are kept for the FID, which another machine may measure later."""
KEPT_IMAGES = 60_000
"""As many as the paper takes."""
SHOWN = 100
"""How many samples the figures show, in rows of ten; of images above 64 x 64 fewer."""
_LARGE, _SHOWN_LARGE = 64, 40
_FULL = (*_IN_FULL, "published")
_BOTH = ("flows", "models", "published")
"""Methods whose samples are measured with post-processing, too: others have no such row."""
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
    def num_shown(self) -> int:
        """How many samples are kept for figures."""
        return SHOWN if data.FACTS[self.data].side <= _LARGE else _SHOWN_LARGE

    @property
    def keeps_samples(self) -> bool:
        """Whether samples are kept for an FID."""
        shown = self.method in KEPT and self.epsilon in _FULL_EPSILONS
        return shown and data.FACTS[self.data].is_published


def perform(task: Task) -> Finished:
    """Fit and measure, or measure real images. Seconds are those of the fit."""
    found = data.load(task.data)
    if task.method == REAL:
        return _reference(task, found)
    if task.method in pixels.FLOWS:
        return _of_pixels(task, found)
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
    parts = versions(task.data, made.pixels) if task.method in _BOTH else {RAW: made.pixels}
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
        "megabytes_in_all": 4 * model.plan.num_numbers / 1e6,
        "plan": model.to_artifact().manifest["plan"],
        "guarantee": model.guarantee.to_json(),
        "ledger": model.ledger.to_json(),
    }
    shown = versions(task.data, made.pixels[: task.num_shown])
    arrays = {f"shown_{part}": images for part, images in shown.items()}
    if task.keeps_samples:
        arrays["samples"] = made.pixels[:KEPT_IMAGES]
        result["samples"] = hashlib.sha256(arrays["samples"].tobytes()).hexdigest()
    return Finished(result, arrays, fitted - start)


def _of_pixels(task: Task, found: data.Data) -> Finished:
    """A flow over pixels: how near its samples are. They have no labels to learn from."""
    start = time.perf_counter()
    budget = vf.Budget(epsilon=task.epsilon, delta=DELTA)
    model = pixels.fit(task.method, found.train, budget=budget, seed=task.split)
    seconds = time.perf_counter() - start
    number = data.FACTS[task.data].sampled
    images = model.sample(number, seed=_SAMPLING_SEED + task.split)
    result = {
        RAW: {"fidelity": measuring.nearness(images, found, seed=task.split)},
        "fit_seconds": seconds,
        "megabytes_in_all": pixels.megabytes(model.flow),
        "plan": model.settings,
        "guarantee": model.guarantee.to_json(),
        "ledger": model.ledger.to_json(),
    }
    return Finished(result, {f"shown_{RAW}": images[:SHOWN]}, seconds)


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
