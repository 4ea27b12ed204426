"""Watching what a release asks: its queries, on neighboring sets, with all noise held equal."""

import importlib
import pkgutil
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pytest

import veilflow.releases
from veilflow.privacy import mechanisms
from veilflow.privacy.events import (
    ApproximateDP,
    Event,
    ExponentialMechanism,
    Gaussian,
    NonPrivate,
    PureDP,
)
from veilflow.privacy.guarantees import ClippedSum, Released


@dataclass(frozen=True)
class Mechanism:
    """One way to add noise, as a release calls it.

    Attributes:
        name: The name of the function in `veilflow.privacy.mechanisms`.
        vector: From its arguments to the numbers that get noise.
        bound: From its arguments to how far one record may move them.
        distance: From the difference of two vectors, and settings, to how far they are apart.
        event: From its arguments to what one call costs.
    """

    name: str
    vector: Callable[..., Any]
    bound: Callable[..., float]
    distance: Callable[..., float]
    event: Callable[..., Event]


def _l1(difference: np.ndarray, **_: Any) -> float:
    return float(np.abs(difference).sum())


def _l2(difference: np.ndarray, **_: Any) -> float:
    return float(np.linalg.norm(difference))


def _largest(difference: np.ndarray, *, monotonic: bool = False, **_: Any) -> float:
    """The largest number; if all of them are to move in one direction, how far any two part."""
    return float(np.ptp(np.append(difference, 0.0)) if monotonic else np.abs(difference).max())


def _ranks(values: Any, *, lower: float, upper: float, num_candidates: int, **_: Any) -> Any:
    grid = np.linspace(lower, upper, num_candidates)
    inside = np.nan_to_num(values.open(), nan=upper, posinf=upper, neginf=lower)
    return (np.clip(inside, lower, upper)[:, None] <= grid).sum(axis=0)


def _magnitudes(values: Any, *, smallest: float, largest: float, **_: Any) -> Any:
    """How many records there are of each sign and power of two."""
    numbers = np.nan_to_num(values.open(), nan=0.0, posinf=largest, neginf=-largest)
    size = np.clip(np.abs(numbers), smallest, largest)
    places = np.sign(numbers) * (1 + np.floor(np.log2(size / smallest)))
    return np.bincount(places.astype(int) + 2000, minlength=4000)


def _votes(values: Any, **_: Any) -> Any:
    """How many records hold each value, in a place that the value alone decides."""
    places = [zlib.crc32(repr(value).encode()) % 2**16 for value in values.open()]
    return np.bincount(np.array(places, int), minlength=2**16)


def _utilities(utilities: Any, *, utility_fn: Any = None, lowest: float = -1e300, **_: Any) -> Any:
    scores = utilities.open() if utility_fn is None else utility_fn(utilities.open())
    return np.clip(np.nan_to_num(scores, nan=lowest), lowest, 1e300)


def _sensitivity(*_: Any, sensitivity: float, **__: Any) -> float:
    return sensitivity


def _noise_event(query: ClippedSum, *, noise_multiplier: float, **_: Any) -> Event:
    return Gaussian(noise_multiplier) if noise_multiplier else NonPrivate()


def _one(*_: Any, **__: Any) -> float:
    return 1.0


def _pure(*_: Any, epsilon: float, **__: Any) -> Event:
    return PureDP(epsilon)


def _exponential(*_: Any, epsilon: float, **__: Any) -> Event:
    return ExponentialMechanism(epsilon)


def _approximate(*_: Any, epsilon: float, delta: float, **__: Any) -> Event:
    return ApproximateDP(epsilon, delta)


GAUSSIAN = Mechanism(
    "gaussian_once",
    lambda query, **_: query.total,
    lambda query, **_: query.clip_norm,
    _l2,
    _noise_event,
)
MECHANISMS = (
    GAUSSIAN,
    Mechanism("count_records", lambda records, **_: [len(records.open())], _one, _l1, _pure),
    Mechanism(
        "histogram",
        lambda index, *, categories, **_: np.bincount(index.open(), minlength=len(categories)),
        _one,
        _l1,
        _pure,
    ),
    Mechanism("private_bounds", _magnitudes, _one, _l1, _pure),
    Mechanism("discover_categories", _votes, _one, _l1, _approximate),
    Mechanism("quantile", _ranks, _one, _largest, _exponential),
    Mechanism("choose", _utilities, _sensitivity, _largest, _exponential),
)


@dataclass(frozen=True)
class Call:
    """One question to the records."""

    mechanism: Mechanism
    query: Any
    settings: dict[str, Any]
    answer: Released[Any]

    @cached_property
    def vector(self) -> np.ndarray:
        return np.float64(self.mechanism.vector(self.query, **self.settings))

    @property
    def bound(self) -> float:
        return self.mechanism.bound(self.query, **self.settings)

    @property
    def event(self) -> Event:
        return self.mechanism.event(self.query, **self.settings)


class Tape:
    """Stands in for all mechanisms: notes every query, and answers as it did on the first run.

    Composition is adaptive: what a round asks may depend on earlier answers, and its sensitivity must
    hold for each of them. So a neighbor is asked what the first set was asked.
    """

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.replayed: list[Call] | None = None

    def mechanism(self, kind: Mechanism) -> Callable[..., Released[Any]]:
        """What a release calls instead of a mechanism."""

        def ask(query: Any, **settings: Any) -> Released[Any]:
            if self.replayed is None:
                answer = getattr(mechanisms, kind.name)(query, **settings)
                self.calls.append(Call(kind, query, settings, answer))
            else:
                answer = self.calls[len(self.replayed)].answer
                self.replayed.append(Call(kind, query, settings, answer))
            return answer

        return ask

    @property
    def gaussians(self) -> list[Call]:
        """The calls that add Gaussian noise."""
        return [call for call in self.calls if call.mechanism is GAUSSIAN]

    @property
    def queries(self) -> list[ClippedSum]:
        """What Gaussian noise was added to."""
        return [call.query for call in self.gaussians]

    @property
    def noise_multipliers(self) -> list[float]:
        """Of the Gaussian noise."""
        return [call.settings["noise_multiplier"] for call in self.gaussians]

    def pairs(self) -> Iterator[tuple[Call, Call]]:
        """Every question of the first run with the same question of the replay."""
        assert self.replayed
        for one, two in zip(self.calls, self.replayed, strict=True):
            assert one.mechanism is two.mechanism
            # whatever the records are: the noise is fixed before
            assert (one.bound, one.event) == (two.bound, two.event)
            yield one, two

    def moves(self) -> list[float]:
        """How far each query of the replay is from that of the first run."""
        return [
            one.mechanism.distance((one.vector - two.vector).ravel(), **one.settings)
            for one, two in self.pairs()
        ]

    def noise(self) -> np.ndarray:
        """All Gaussian noise of the first run, in units of the deviation that was promised."""
        parts = [
            (np.float64(call.answer.value) - call.vector).ravel()
            / (call.bound * call.settings["noise_multiplier"])
            for call in self.gaussians
        ]
        return np.concatenate(parts)


def tape(monkeypatch: pytest.MonkeyPatch) -> Tape:
    """A tape in the place of every mechanism, wherever a release calls it."""
    watched = Tape()
    for info in pkgutil.walk_packages(veilflow.releases.__path__, "veilflow.releases."):
        module = importlib.import_module(info.name)
        for kind in MECHANISMS:
            if vars(module).get(kind.name) is getattr(mechanisms, kind.name):
                monkeypatch.setattr(module, kind.name, watched.mechanism(kind))
    return watched


def assert_standard(noise: np.ndarray) -> None:
    """Raise unless `noise` looks like independent standard normals; one false alarm in 10^6 runs."""
    size = noise.size
    assert abs(noise.mean()) < 5 / size**0.5
    assert abs(noise.std() - 1) < 5 / (2 * size) ** 0.5
    assert len(np.unique(np.abs(noise))) > 0.5 * size  # and not all of one size
