"""A model that draws noise in the place of the tiny images of the probes, and quick measures."""

import math
from dataclasses import dataclass, replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from reproductions.dp_lflow import data, estimators, fid, measuring, pixels, probes, runs
from reproductions.dp_lflow.probes import SAMPLED, TRAINED, load

from veilflow.images import Images, ImageSpec
from veilflow.models.image.architecture import ImageArchitecture
from veilflow.privacy.events import Gaussian, NonPrivate, PoissonSampled, Repeated
from veilflow.privacy.ledger import Ledger

KEPT = 100
STEP = PoissonSampled(0.01, Gaussian(4.0))
PLAN = {"model": "StandIn", "steps": 20}


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

    @property
    def plan(self) -> Any:
        return SimpleNamespace(flow=ImageArchitecture(size=(28, 28)), num_numbers=10_000)

    def to_artifact(self) -> Any:
        return SimpleNamespace(manifest={"plan": PLAN})

    @property
    def guarantee(self):
        return _guarantee(self.ledger, self.delta)

    def sample(self, num_images: int, *, seed: int) -> Images:
        rng = np.random.default_rng(seed + self.noise)
        pixels = rng.integers(0, 256, (num_images, *self.spec.shape), dtype=np.uint8)
        places = np.arange(len(self.spec.classes), dtype=np.int32)
        return Images(pixels, np.resize(places, num_images), self.spec)

    def log_prob_by_class(self, images: Images) -> np.ndarray:
        brightness = images.pixels.mean(axis=(1, 2, 3))
        return -np.abs(brightness[:, None] - 20 * np.arange(len(self.spec.classes))[None] - 10)


def take_over(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float, int]]:
    """Tiny sets and a stand-in for every model; returns the calls of `build`."""
    calls = []

    def build(method, spec, *, epsilon, delta, num_records, seed):
        assert num_records == TRAINED
        calls.append((method, epsilon, seed))
        return StandIn(method, epsilon, delta, noise=0)

    def fit_pixels(method, images, *, budget, seed):
        calls.append((method, budget.epsilon, seed))
        model = StandIn(method, budget.epsilon, budget.delta, noise=0).fit(images, progress=False)

        def sample(number, *, seed):
            return model.sample(number, seed=seed).pixels

        told = {"ledger": model.ledger, "guarantee": model.guarantee, "settings": PLAN}
        return SimpleNamespace(sample=sample, flow=None, **told)

    monkeypatch.setattr(data, "load", load)
    monkeypatch.setattr(pixels, "fit", fit_pixels)
    monkeypatch.setattr(pixels, "megabytes", lambda flow: 100.0)
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
    near = {"distance": 20.5, "precision": 0.1, "recall": 0.1}
    monkeypatch.setattr(measuring, "nearness", lambda images, found, *, seed: near)


def install_inception(monkeypatch: pytest.MonkeyPatch, *, possible: bool = True) -> list[int]:
    """Brightness and contrast in the place of Inception; returns how many images it was given."""
    seen = []

    def features(images):
        seen.append(len(images))
        return probes.features(images)

    monkeypatch.setattr(fid, "is_possible", lambda: possible)
    monkeypatch.setattr(fid, "inception_features", features)
    return seen
