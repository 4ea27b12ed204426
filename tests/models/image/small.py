"""A few generated images of three classes, and fits of them that take seconds."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

import jax
import numpy as np
import pytest

import veilflow as vf
from veilflow.images import Images, read_images
from veilflow.privacy.guarantees import Released
from veilflow.releases import training

NUM_IMAGES = 40
CLASSES = ("bar", "dot", "frame")
SPEC = vf.ImageSpec(height=6, width=6, classes=CLASSES)
BARE = vf.ImageSpec(height=6, width=6)
BUDGET = vf.Budget(epsilon=4.0, delta=1e-3)
SIZES = vf.ImageArchitecture(size=(6, 6), channels=(3,), latent=3, blocks=2, hidden=())


def pixels(num_images: int = NUM_IMAGES, seed: int = 0) -> np.ndarray:
    """A bar, a dot or a frame in turns, with some noise, as bytes (images, height, width)."""
    rng = np.random.default_rng(seed)
    bar, dot, frame = np.zeros((3, 6, 6))
    bar[:, 2] = dot[2:4, 2:4] = 220
    frame[:] = 220
    frame[1:-1, 1:-1] = 0
    shapes = np.stack([bar, dot, frame])[places(num_images)]
    return np.clip(shapes + rng.uniform(0, 30, shapes.shape), 0, 255).astype(np.uint8)


def places(num_images: int = NUM_IMAGES) -> np.ndarray:
    return np.arange(num_images, dtype=np.int32) % 3


def images(spec: vf.ImageSpec = SPEC, seed: int = 0) -> Images:
    """The images, read by a specification."""
    labels = places() if spec.classes else None
    return read_images(pixels(seed=seed), spec, labels=labels)


def estimator(**settings: Any) -> vf.ImageFlow:
    """An estimator of the few images; settings of its training are given among the others."""
    names = settings.keys() & vf.Training.__dataclass_fields__.keys()
    steps = {"steps": 3, "sampling_rate": 0.5, **{name: settings.pop(name) for name in names}}
    usual = {"spec": SPEC, "budget": BUDGET, "num_records": NUM_IMAGES, "flow": SIZES, "seed": 1}
    return vf.ImageFlow(**{**usual, "training": vf.Training(**steps), **settings})


TOLD = replace(SIZES, decoder_sees_class=True)
KINDS: dict[str, dict[str, Any]] = {
    "by class": {},
    "told": {"flow": TOLD},
    "whole models": {"partition": "models"},
    "conditional": {"partition": "none"},
    "unlabeled": {"spec": BARE},
}


def fitted(kind: str = "by class") -> vf.FittedImageFlow:
    """The few images, fitted once in each way, and once more by programs that are not optimized."""
    return _fitted(kind, jax.config.read("jax_disable_most_optimizations"))


@lru_cache
def _fitted(kind: str, hasty: bool) -> vf.FittedImageFlow:
    made = estimator(**KINDS[kind])
    return made.fit(images(made.spec), progress=False)


def shaken(models: Any) -> Any:
    """The models with some noise on every number, different in each class."""
    rng = np.random.default_rng(7)
    return jax.tree.map(lambda x: x + rng.normal(0, 0.3, x.shape).astype(np.float32), models)


@contextlib.contextmanager
def untrained(become: Callable[[Any], Any] = shaken) -> Iterator[list[Any]]:
    """Fits in which models only `become` others, for no compiler's time; what training would see."""
    seen: list[Any] = []

    def stand_in(plan, loss, models, records, **_):
        seen.append(records.open())
        return Released(become(models), plan.event)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "train", stand_in)
        patch.setattr(training, "train_parts", stand_in)
        yield seen


@lru_cache
def drawn(kind: str = "by class") -> vf.FittedImageFlow:
    """A model of each kind with random numbers in place of trained ones."""
    made = estimator(**KINDS[kind])
    with untrained():
        return made.fit(images(made.spec), progress=False)


def same(one: vf.FittedImageFlow, two: vf.FittedImageFlow) -> bool:
    """Whether two models are equal to the last bit."""
    first, second = one.to_artifact(), two.to_artifact()
    arrays = first.arrays.keys() == second.arrays.keys() and all(
        np.array_equal(array, second.arrays[name]) for name, array in first.arrays.items()
    )
    names = "model", "manifest", "ledger", "guarantee", "schema"
    return arrays and all(getattr(first, name) == getattr(second, name) for name in names)
