"""Image sets in the small, features in the place of Inception's, and the probes of DP-LFlow."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

import veilflow as vf
from reproductions import memory
from reproductions.cache import Run
from reproductions.dp_lflow import data, estimators, fid, measuring, runs
from reproductions.dp_lflow.sharpening import RAW
from reproductions.probing import Probe, smaller
from veilflow.images import Images

TRAINED, TESTED, SAMPLED = 60, 40, 120
_SIZES = (
    (data, "load", lambda name: load(name)),
    (data, "FACTS", {name: replace(facts, sampled=SAMPLED) for name, facts in data.FACTS.items()}),
    (memory, "forget_peak", lambda: None),  # it collects all garbage first
    (measuring, "CLASSIFIER_RUNS", 1),
    (runs, "IMAGE_CLASSIFIERS", ("LR",)),  # networks would take most of the time
)
_SMALLER = {
    "flow": vf.ImageArchitecture(size=(8, 8), channels=(4,), latent=4, blocks=1, hidden=(8,)),
    "training": vf.Training(steps=60),
}


def load(name: str) -> data.Data:
    """A few images of noise, brighter by class."""
    rng = np.random.default_rng(sum(map(ord, name)))
    spec = data.FACTS[name].spec

    def images(number: int) -> Images:
        labels = np.resize(np.arange(len(spec.classes), dtype=np.int32), number)
        pixels = rng.integers(0, 20, (number, *spec.shape)) + 20 * labels[:, None, None, None]
        return Images(pixels.astype(np.uint8), labels, spec)

    return data.Data(images(TRAINED), images(TESTED))


def features(images: np.ndarray) -> np.ndarray:
    """Brightness and contrast, in the place of what Inception sees."""
    flat = np.asarray(images, np.float64).reshape(len(images), -1)
    return np.stack([flat.mean(axis=1), flat.std(axis=1)], axis=1)


def _run(method: str, epsilon: float, draw: int) -> dict[str, Any]:
    return runs.perform(runs.Task(data="digits", method=method, epsilon=epsilon, split=draw)).result


def _distance(draw: int) -> dict[str, Any]:
    """The FID of samples that are images of noise."""
    rng = np.random.default_rng(draw)
    samples = rng.integers(0, 256, (TESTED, *data.FACTS["mnist"].spec.shape), dtype=np.uint8)
    of = runs.Task(data="mnist", method="flows", epsilon=10.0, split=draw)
    done = runs.Finished(
        {"samples": "drawn", "guarantee": {"epsilon": 10.0}}, {"samples": samples}, 0.0
    )

    def find(task: fid.AnyTask) -> Run | None:
        made = done if task == of else fid.perform(fid.ReferenceFeatures(data="mnist"), find)
        return Run.now(task.settings, made)

    task = fid.task_of(of, RAW, find)
    assert task is not None
    return fid.perform(task, find).result


PROBES = (
    Probe(
        name="real images",
        kind="reference",
        perform=lambda draw: _run(runs.REAL, math.inf, draw),
        numbers=("raw/accuracies/LR/mean", "raw/fidelity/distance", "raw/fidelity/recall"),
        sizes=_SIZES,
    ),
    Probe(
        name="flows",
        kind="model",
        perform=lambda draw: _run("flows", 10.0, draw),
        numbers=("raw/fidelity/distance", "ood/mean", "megabytes", "guarantee/epsilon"),
        sizes=(
            *_SIZES,
            (estimators, "fit", smaller(estimators.fit, **_SMALLER)),
        ),
    ),
    Probe(
        name="distance",
        kind="distance",
        perform=_distance,
        numbers=("fid", "images"),
        sizes=(*_SIZES, (fid, "inception_features", features)),
    ),
)
