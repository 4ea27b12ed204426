"""Watching what a release asks: its queries, on neighboring sets, with all noise held equal."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from veilflow.privacy import mechanisms
from veilflow.privacy.events import Event, ExponentialMechanism, Gaussian, NonPrivate, PureDP
from veilflow.privacy.guarantees import ClippedSum, Released


@dataclass(frozen=True)
class Mechanism:
    """One way to add noise, as a release calls it.

    Attributes:
        name: Of the function, in the module of the release.
        vector: From its arguments to the numbers that noise is for.
        bound: From its arguments to how far one record may move them.
        order: Of the norm that says how far.
        event: From its arguments to what one call costs.
    """

    name: str
    vector: Callable[..., Any]
    bound: Callable[..., float]
    order: float
    event: Callable[..., Event]


def _noise_event(query: ClippedSum, *, noise_multiplier: float, **_: Any) -> Event:
    return Gaussian(noise_multiplier) if noise_multiplier else NonPrivate()


def _ranks(values: Any, *, lower: float, upper: float, num_candidates: int, **_: Any) -> Any:
    grid = np.linspace(lower, upper, num_candidates)
    inside = np.nan_to_num(values.open(), nan=upper, posinf=upper, neginf=lower)
    return (np.clip(inside, lower, upper)[:, None] <= grid).sum(axis=0)


GAUSSIAN = Mechanism(
    "gaussian_once",
    vector=lambda query, **_: query.total,
    bound=lambda query, **_: query.clip_norm,
    order=2,
    event=_noise_event,
)
COUNT = Mechanism(
    "count_records",
    vector=lambda records, **_: [len(records.open())],
    bound=lambda *_, **__: 1.0,
    order=1,
    event=lambda *_, epsilon, **__: PureDP(epsilon),
)
HISTOGRAM = Mechanism(
    "histogram",
    vector=lambda index, *, categories, **_: np.bincount(index.open(), minlength=len(categories)),
    bound=lambda *_, **__: 1.0,
    order=1,
    event=lambda *_, epsilon, **__: PureDP(epsilon),
)
QUANTILE = Mechanism(
    "quantile",
    vector=_ranks,
    bound=lambda *_, **__: 1.0,
    order=np.inf,
    event=lambda *_, epsilon, **__: ExponentialMechanism(epsilon),
)


class Tape:
    """Stands in for a mechanism: notes every query, and answers as it did on the first run.

    Composition is adaptive: what a round asks may depend on earlier answers, and its sensitivity must
    hold for each of them. So a neighbor is asked what the first set was asked.
    """

    def __init__(self, mechanism: Mechanism = GAUSSIAN) -> None:
        self.mechanism = mechanism
        self.queries: list[Any] = []
        self.vectors: list[np.ndarray] = []
        self.bounds: list[float] = []
        self.events: list[Event] = []
        self.noise_multipliers: list[float] = []
        self.answers: list[Released[Any]] = []
        self.replayed: list[Any] | None = None
        self.replayed_vectors: list[np.ndarray] = []

    def __call__(self, query: Any, **rest: Any) -> Released[Any]:
        vector = np.float64(self.mechanism.vector(query, **rest))
        if self.replayed is not None:
            if not self.replayed:
                self.replayed_vectors = []
            self.replayed.append(query)
            self.replayed_vectors.append(vector)
            return self.answers[len(self.replayed) - 1]
        self.queries.append(query)
        self.vectors.append(vector)
        self.bounds.append(self.mechanism.bound(query, **rest))
        self.events.append(self.mechanism.event(query, **rest))
        self.noise_multipliers.append(rest.get("noise_multiplier", 0.0))
        self.answers.append(getattr(mechanisms, self.mechanism.name)(query, **rest))
        return self.answers[-1]

    def moves(self) -> list[float]:
        """How far each query of the replay is from that of the first run."""
        assert self.replayed is not None
        assert len(self.replayed_vectors) == len(self.vectors) > 0
        pairs = zip(self.vectors, self.replayed_vectors, strict=True)
        return [
            float(np.linalg.norm((one - two).ravel(), ord=self.mechanism.order))
            for one, two in pairs
        ]

    def noise(self) -> np.ndarray:
        """All Gaussian noise of the first run, in units of the deviation that was promised."""
        parts = [
            (np.float64(answer.value) - vector).ravel() / (bound * noise)
            for vector, bound, answer, noise in zip(
                self.vectors, self.bounds, self.answers, self.noise_multipliers, strict=True
            )
        ]
        return np.concatenate(parts)


def tape(monkeypatch: pytest.MonkeyPatch, module: Any, mechanism: Mechanism = GAUSSIAN) -> Tape:
    """A tape in the place of a mechanism in `module`."""
    made = Tape(mechanism)
    assert getattr(module, mechanism.name) is getattr(mechanisms, mechanism.name)
    monkeypatch.setattr(module, mechanism.name, made)
    return made


def assert_standard(noise: np.ndarray) -> None:
    """Raise unless `noise` looks like independent standard normals; one false alarm in 10^6 runs."""
    size = noise.size
    assert abs(noise.mean()) < 5 / size**0.5
    assert abs(noise.std() - 1) < 5 / (2 * size) ** 0.5
    assert np.abs(noise).max() > 2  # and not all of one size
