"""Watching what a start releases: its queries, on neighboring sets, with all noise held equal."""

from typing import Any

import numpy as np
import pytest

from veilflow.models.start.release import release
from veilflow.privacy.guarantees import ClippedSum, Released


class Tape:
    """Stands in for `release` in a module: notes every query, and answers as it did on the first run.

    Composition is adaptive: what a round asks may depend on earlier answers, and its sensitivity must
    hold for each of them. So a neighbor is asked what the first set was asked.
    """

    def __init__(self) -> None:
        self.queries: list[ClippedSum] = []
        self.noise_multipliers: list[float] = []
        self.answers: list[Released[Any]] = []
        self.replayed: list[ClippedSum] | None = None

    def __call__(self, query: ClippedSum, *, noise_multiplier: float, **rest: Any) -> Released[Any]:
        if self.replayed is not None:
            self.replayed.append(query)
            return self.answers[len(self.replayed) - 1]
        self.queries.append(query)
        self.noise_multipliers.append(noise_multiplier)
        self.answers.append(release(query, noise_multiplier=noise_multiplier, **rest))
        return self.answers[-1]

    def moves(self) -> list[float]:
        """How far each query of the replay is from that of the first run, in L2."""
        assert self.replayed is not None
        assert len(self.replayed) == len(self.queries) > 0
        pairs = zip(self.queries, self.replayed, strict=True)
        return [
            float(np.linalg.norm(np.float64(one.total) - np.float64(two.total)))
            for one, two in pairs
        ]

    def noise(self) -> np.ndarray:
        """All noise of the first run, in units of the deviation that was promised."""
        parts = [
            (np.float64(answer.value) - np.float64(query.total)).ravel() / (query.clip_norm * noise)
            for query, answer, noise in zip(
                self.queries, self.answers, self.noise_multipliers, strict=True
            )
        ]
        return np.concatenate(parts)


def tape(monkeypatch: pytest.MonkeyPatch, module: Any) -> Tape:
    """A tape in the place of `module.release`."""
    made = Tape()
    monkeypatch.setattr(module, "release", made)
    return made


def assert_standard(noise: np.ndarray) -> None:
    """Raise unless `noise` looks like independent standard normals; one false alarm in 10^6 runs."""
    size = noise.size
    assert abs(noise.mean()) < 5 / size**0.5
    assert abs(noise.std() - 1) < 5 / (2 * size) ** 0.5
    assert np.abs(noise).max() > 2  # and not all of one size
