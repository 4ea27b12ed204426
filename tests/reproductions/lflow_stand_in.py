"""Tiny image sets in the place of the three, a model that draws noise, and quick measures."""

import math
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from reproductions.dp_lflow import data, estimators, fid, measuring, runs

from veilflow.images import Images, ImageSpec
from veilflow.privacy.events import Gaussian, NonPrivate, PoissonSampled, Repeated
from veilflow.privacy.ledger import Ledger

TRAINED, TESTED, SAMPLED, KEPT = 60, 40, 120, 100
STEP = PoissonSampled(0.01, Gaussian(4.0))
RECIPE = {"architecture": {"size": [28, 28]}, "steps": 20}


def load(name: str) -> data.Data:
    """A few images of noise, brighter by class."""
    rng = np.random.default_rng(sum(map(ord, name)))
    spec = data.FACTS[name].spec

    def images(number: int) -> Images:
        labels = np.resize(np.arange(10, dtype=np.int32), number)
        pixels = rng.integers(0, 20, (number, *spec.shape)) + 20 * labels[:, None, None, None]
        return Images(pixels.astype(np.uint8), labels, spec)

    return data.Data(images(TRAINED), images(TESTED))


@dataclass(frozen=True)
class StandIn:
    method: str
    epsilon: float
    delta: float
    noise: int

    def fit(self, images: Images, *, progress: bool) -> "Fitted":
        event = NonPrivate() if self.epsilon == math.inf else Repeated(20, STEP)
        ledger = Ledger().spend(event, purpose="training")
        return Fitted(images.spec, ledger, self.delta, self.noise)


@cache
def _guarantee(ledger: Ledger, delta: float) -> Any:
    return ledger.guarantee(delta=delta)


@dataclass(frozen=True)
class Fitted:
    spec: ImageSpec
    ledger: Ledger
    delta: float
    noise: int
    settings: dict[str, Any] = field(default_factory=lambda: {"recipe": RECIPE})

    @property
    def guarantee(self):
        return _guarantee(self.ledger, self.delta)

    def sample(self, num_images: int, *, seed: int) -> Images:
        rng = np.random.default_rng(seed + self.noise)
        pixels = rng.integers(0, 256, (num_images, *self.spec.shape), dtype=np.uint8)
        return Images(pixels, np.resize(np.arange(10, dtype=np.int32), num_images), self.spec)

    def log_prob_by_class(self, images: Images) -> np.ndarray:
        brightness = images.pixels.mean(axis=(1, 2, 3))
        return -np.abs(brightness[:, None] - 20 * np.arange(10)[None] - 10)


def take_over(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float, int]]:
    """Tiny sets and a stand-in for every model; returns the calls of `build`."""
    calls = []

    def build(method, spec, *, epsilon, delta, num_records, seed):
        assert num_records == TRAINED
        calls.append((method, epsilon, seed))
        return StandIn(method, epsilon, delta, noise=0)

    monkeypatch.setattr(data, "load", load)
    monkeypatch.setattr(runs.memory, "forget_peak", lambda: None)  # it collects all garbage first
    monkeypatch.setattr(estimators, "build", build)
    for name, facts in data.FACTS.items():
        monkeypatch.setitem(data.FACTS, name, replace(facts, sampled=SAMPLED))
    for module in (runs, fid):
        monkeypatch.setattr(module, "KEPT_IMAGES", KEPT)
    return calls


def measure_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers in the place of three classifiers: real images reach more."""

    def measure(images, labels, found, *, seed, classifiers=("LR", "MLP", "CNN")):
        lost = 0.0 if images is found.train.pixels else 10.0
        near = {"distance": 0.5 + lost, "precision": 0.9, "recall": 0.8}
        reached = {name: {"mean": 95.0 - lost + seed} for name in classifiers}
        return {"accuracies": reached, "fidelity": near}

    monkeypatch.setattr(measuring, "measure", measure)


def install_inception(monkeypatch: pytest.MonkeyPatch, *, possible: bool = True) -> list[int]:
    """Brightness and contrast in the place of Inception; returns how many images it was given."""
    seen = []

    def features(images):
        seen.append(len(images))
        flat = np.asarray(images, np.float64).reshape(len(images), -1)
        return np.stack([flat.mean(axis=1), flat.std(axis=1)], axis=1)

    monkeypatch.setattr(fid, "is_possible", lambda: possible)
    monkeypatch.setattr(fid, "inception_features", features)
    return seen
