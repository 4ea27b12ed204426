"""A model that draws rows of the tiny tables of the probes, and quick measures."""

import math
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from reproductions.dp_hflow import data, estimators, gradients, measuring, peers, runs
from reproductions.dp_hflow.probes import ROWS, load

from veilflow.privacy.events import Gaussian, NonPrivate, PoissonSampled, Repeated
from veilflow.privacy.ledger import Ledger

STEP = PoissonSampled(0.01, Gaussian(4.0))


@dataclass(frozen=True)
class StandIn:
    method: str
    epsilon: float
    delta: float

    def fit(self, rows: Any, *, progress: bool) -> "Fitted":
        event = NonPrivate() if self.epsilon == math.inf else Repeated(20, STEP)
        return Fitted(rows, Ledger().spend(event, purpose="training"), self.delta)


@dataclass(frozen=True)
class Fitted:
    rows: Any
    ledger: Ledger
    delta: float

    def to_artifact(self) -> SimpleNamespace:
        return SimpleNamespace(manifest={"plan": {"steps": 20}})

    @property
    def guarantee(self):
        return self.ledger.guarantee(delta=self.delta)

    def sample(self, num_rows: int, *, seed: int) -> Any:
        return self.rows.sample(num_rows, replace=True, random_state=seed, ignore_index=True)

    def log_prob(self, rows: Any) -> np.ndarray:
        return np.linspace(-9.0, -7.0, len(rows))


class Peer:
    """In the place of a method of dpmm: it gives back what it is given."""

    def __init__(self, method, schema, epsilon, delta, seed):
        assert method in peers.METHODS

    def fit_and_sample(self, rows, num_rows):
        drawn = rows.sample(num_rows, replace=True, random_state=1, ignore_index=True)
        return peers.Sampled(drawn, {"fit_seconds": 3.0, "peak_gigabytes": 0.5})


def norms(model: Any, rows: Any, *, seed: int) -> dict[str, np.ndarray]:
    return {f"{gradients.PREFIX}{name} 1": np.ones(9) for name in ("splines", "linear maps")}


def take_over(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float, int]]:
    """Tiny tables and a stand-in for every model; returns the calls of `build`."""
    calls = []

    def build(method, schema, *, epsilon, delta, num_records, seed):
        assert num_records == ROWS
        calls.append((method, epsilon, seed))
        return StandIn(method, epsilon, delta)

    monkeypatch.setattr(data, "load", load)
    monkeypatch.setattr(runs.memory, "forget_peak", lambda: None)  # it collects all garbage first
    monkeypatch.setattr(estimators, "build", build)
    monkeypatch.setattr(peers, "Peer", Peer)
    monkeypatch.setattr(gradients, "by_layer", norms)
    monkeypatch.setattr(runs, "SAMPLED", ROWS)
    return calls


def measure_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers in the place of nine classifiers and a discriminator: real rows reach more."""

    def measure(name, found, synthetic, *, seed):
        lost = 0.0 if synthetic is found.train else 0.1
        mean = {"auroc": 0.9 - lost, "macro_f1": 0.8 - lost + 0.01 * seed, "average_precision": 0.7}
        apart = measuring.distances(found.train, synthetic, found, seed=seed)
        return {"classifiers": {"mean": mean}, "detection": 0.6, **apart}

    monkeypatch.setattr(measuring, "measure", measure)
