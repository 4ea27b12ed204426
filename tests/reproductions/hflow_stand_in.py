"""Tiny tables in the place of the four, a model that draws training rows, and quick measures."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from reproductions.dp_hflow import data, estimators, measuring, runs

import veilflow as vf
from veilflow.privacy.events import Gaussian, NonPrivate, PoissonSampled, Repeated
from veilflow.privacy.ledger import Ledger

ROWS = 240
STEP = PoissonSampled(0.01, Gaussian(4.0))
_LISTED = {
    "adult": ("education", "marital_status", "occupation"),
    "covertype": (),
    "census": ("race",),
    "intrusion": ("service",),
}
_NUMBERS = {
    "adult": ("capital_gain", "capital_loss"),
    "covertype": ("Elevation", "Aspect", "Horizontal_Distance_To_Roadways"),
    "census": ("age", "weeks"),
    "intrusion": ("duration", "count"),
}
LABELS = {
    "adult": "income",
    "covertype": "Cover_Type",
    "census": "income_50k",
    "intrusion": "label",
}


def load(name: str) -> data.Data:
    """A small table with the columns that figures and tables name."""
    rng = np.random.default_rng(sum(map(ord, name)))
    frame: dict[str, Any] = {x: rng.integers(0, 9, 2 * ROWS) for x in _NUMBERS[name]}
    frame |= {x: rng.choice(["a", "b", "c"], 2 * ROWS) for x in _LISTED[name]}
    label = LABELS[name]
    frame[label] = np.where(frame[_NUMBERS[name][0]] > 4, "x", "y")
    columns: dict[str, Any] = {x: vf.Numeric(0, 8, integer=True) for x in _NUMBERS[name]}
    columns |= {x: vf.Categorical("a", "b", "c", nullable=True) for x in _LISTED[name]}
    columns[label] = vf.Categorical("y", "x")
    whole = pd.DataFrame(frame)[list(columns)]
    halves = whole.iloc[:ROWS], whole.iloc[ROWS:].reset_index(drop=True)
    return data.Data(*halves, vf.Schema(columns, label=label))


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
    settings: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", {"recipe": {"steps": 20}})

    @property
    def guarantee(self):
        return self.ledger.guarantee(delta=self.delta)

    def sample(self, num_rows: int, *, seed: int) -> Any:
        return self.rows.sample(num_rows, replace=True, random_state=seed, ignore_index=True)

    def log_prob(self, rows: Any) -> np.ndarray:
        return np.linspace(-9.0, -7.0, len(rows))


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
