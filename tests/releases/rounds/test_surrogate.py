"""The quadratic approximation: when noise has left nothing of it."""

from dataclasses import replace

import numpy as np
import pytest

from veilflow.releases.rounds.surrogate import Surrogate

SOUND = Surrogate.vague(np.zeros(2), np.ones(2))


def test_a_vague_surrogate_is_sound():
    assert SOUND.is_sound(np.ones(2))


@pytest.mark.parametrize(
    "broken",
    [
        {"mean": np.array([0.0, np.nan])},
        {"precision": np.array([[1.0, np.inf], [np.inf, 1.0]])},
        {"noise": np.full((2, 2), np.nan)},
        {"precision": np.diag([1.0, 0.0])},
        {"precision": np.diag([1.0, -1.0])},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_what_is_not_finite_or_cannot_be_inverted_is_not_sound(broken):
    assert not replace(SOUND, **broken).is_sound(np.ones(2))
