"""Replay on neighbors: what was read from the rows past the ledger shows."""

import numpy as np
import pytest

import veilflow as vf
from veilflow import audit
from veilflow.audit.replay import NOBODY
from veilflow.models.domain import Box

ROWS = np.random.default_rng(0).uniform(size=(30, 2))
NEIGHBOR = np.concatenate([ROWS, [[0.999, 0.001]]])


def fit(rows):
    return vf.DensityFlow(
        budget=vf.Budget(epsilon=1.0, delta=1e-6),
        bounds=(0, 1),
        num_records=30,
        flow=vf.maf(blocks=1, hidden=(4,)),
        base="normal",
        start="none",
        training=vf.Training(steps=1, sampling_rate=NOBODY),
        seed=0,
    ).fit(rows, progress=False)


def test_d04_a_fit_keeps_nothing_of_the_rows_that_was_not_paid_for():
    assert audit.unpaid_differences(fit, ROWS, NEIGHBOR) == ()


def test_d04_a_scaler_fitted_on_the_rows_is_caught(monkeypatch):
    def peeking(rows):
        bounds = Box(tuple(rows.min(axis=0)), tuple(rows.max(axis=0)))
        monkeypatch.setattr(vf.DensityFlow, "domain", bounds)
        return fit(rows)

    assert "manifest" in audit.unpaid_differences(peeking, ROWS, NEIGHBOR)


@pytest.mark.parametrize("part", ["schema", "flow0", "extra"])
def test_every_part_is_compared(part):
    class Model:
        def __init__(self, rows):
            self.changed = len(rows) > 30

        def to_artifact(self):
            class Artifact:
                manifest, ledger, guarantee, schema = {}, {}, {}, {}
                arrays = {"flow0": np.zeros(2)}  # noqa: RUF012

            if self.changed and part == "schema":
                Artifact.schema = {"low": 1}
            if self.changed and part != "schema":
                Artifact.arrays = {"flow0": np.zeros(2), part: np.ones(2)}
            return Artifact

    assert audit.unpaid_differences(Model, ROWS, NEIGHBOR) == (part,)
