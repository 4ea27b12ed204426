"""An estimator that learns a mean and a spread, costs no time and has a ledger."""

import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reproductions.dp_nf import data, ensembles, estimators
from reproductions.dp_nf.probes import load

from veilflow.privacy.events import Gaussian, NonPrivate, PoissonSampled, Repeated
from veilflow.privacy.ledger import Ledger

STEP = PoissonSampled(0.01, Gaussian(4.0))


@dataclass(frozen=True)
class StandIn:
    method: str
    delta: float
    epsilon: float

    def fit(self, rows: Any, *, progress: bool) -> "Fitted":
        event = NonPrivate() if self.epsilon == math.inf else Repeated(20, STEP)
        ledger = Ledger().spend(event, purpose="training")
        return Fitted(rows.mean(axis=0), rows.std(axis=0), ledger, self.delta)


@dataclass(frozen=True)
class Fitted:
    mean: np.ndarray
    std: np.ndarray
    ledger: Ledger
    delta: float

    @property
    def guarantee(self):
        return self.ledger.guarantee(delta=self.delta)

    def sample(self, n: int) -> np.ndarray:
        rng = np.random.default_rng(0)
        return self.mean + self.std * rng.standard_normal((n, len(self.mean)))

    def log_prob(self, rows: Any) -> np.ndarray:
        z = (np.asarray(rows) - self.mean) / self.std
        return -0.5 * (z**2 + math.log(2 * math.pi)).sum(axis=1) - np.log(self.std).sum()


def take_over(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, float, int]]:
    """Tiny generated rows and a stand-in for every model; returns the calls of `build`."""
    calls = []

    def build(method, facts, *, epsilon, num_records):
        calls.append((facts.title, method, epsilon, num_records))
        return StandIn(method, facts.delta, epsilon)

    quickest = partial(ensembles.build, "ensemble-mixture-1")
    monkeypatch.setattr(
        ensembles, "build", lambda method, *given, **named: quickest(*given, **named)
    )
    monkeypatch.setattr(data, "load", load)
    monkeypatch.setattr(estimators, "build", build)
    return calls


def move_home(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let the folders and the pages of all systems lie in `folder`."""
    for name in ("FOLDER", "PAGES"):
        monkeypatch.setattr(f"reproductions.system.{name}", folder)
