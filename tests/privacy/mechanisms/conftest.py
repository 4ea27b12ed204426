"""A recorder in place of OpenDP's noise: the exact query and the sensitivity declared for it."""

import pytest

from veilflow.privacy.mechanisms import _opendp


class Recorder:
    """Queries as they reach the noise, with the sensitivity the noise was scaled for."""

    def __init__(self):
        self.calls = []

    def take(self):
        calls, self.calls = self.calls, []
        return calls


@pytest.fixture
def recorder(monkeypatch):
    record = Recorder()

    def laplace(values, *, sensitivity, epsilon):
        record.calls.append((list(values), sensitivity))
        return list(values), sensitivity / epsilon

    def argmax(scores, *, scale):
        record.calls.append((list(scores), scale))
        return max(range(len(scores)), key=scores.__getitem__)

    monkeypatch.setattr(_opendp, "add_discrete_laplace", laplace)
    monkeypatch.setattr(_opendp, "noisy_argmax", argmax)
    return record
