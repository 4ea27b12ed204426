"""Shadow models of models that the library fits: an overfitted one tells, a private one does not."""

import math

import numpy as np
import pytest

import veilflow as vf
from veilflow import audit

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

NUM_ROWS = 120
BOUNDS = (0, 1)


def mixture(epsilon):
    def fit(rows, seed):
        return vf.MixtureDensity(
            budget=vf.Budget(epsilon=epsilon, delta=1e-4),
            bounds=BOUNDS,
            num_components=8,
            steps=12,
            num_records=NUM_ROWS // 2,
            seed=seed,
        ).fit(rows, progress=False)

    return fit


def flow(epsilon):
    def fit(rows, seed):
        return vf.DensityFlow(
            budget=vf.Budget(epsilon=epsilon, delta=1e-4),
            bounds=BOUNDS,
            base="normal",
            start="whitening",
            flow=vf.maf(blocks=2, hidden=(32,)),
            training=vf.Training(steps=100, batch_size=NUM_ROWS // 2, learning_rate=1e-2),
            num_records=NUM_ROWS // 2,
            seed=seed,
        ).fit(rows, progress=False)

    return fit


def attacked(fit):
    rng = np.random.default_rng(0)
    rows = np.clip(rng.normal(0.5, 0.15, (NUM_ROWS, 6)), *BOUNDS)
    member = audit.fair_coins(NUM_ROWS, seed=1)
    shadows = audit.fit_shadows(fit, rows, num_shadows=8)
    return audit.audit_with_shadows(fit(rows[member], 5), rows, member, shadows)


MODELS = [mixture, pytest.param(flow, marks=pytest.mark.slow)]


@pytest.mark.parametrize("model", MODELS)
def test_an_overfitted_model_without_privacy_is_found_out(model):
    found = attacked(model(math.inf))
    assert found.claimed == math.inf
    assert found.scores["auc"] > 0.8
    # a claim of epsilon 1 would be refuted
    assert found.lower_bound > 1


@pytest.mark.parametrize("model", MODELS)
def test_the_same_model_with_privacy_keeps_its_claim(model):
    found = attacked(model(1.0))
    assert 0.99 < found.claimed <= 1
    assert not found.exceeds_claim
    assert found.scores["auc"] < 0.65


def test_halves_are_of_one_length_so_that_a_program_is_compiled_once():
    lengths = []

    class Blind:
        def log_prob(self, rows):
            return np.zeros(len(rows))

    def fit(rows, seed):
        lengths.append(len(rows))
        return Blind()

    shadows = audit.fit_shadows(fit, np.zeros((10, 2)), num_shadows=6)
    assert set(lengths) == {5}
    assert (shadows.inside.sum(axis=0) == 3).all()
    # different halves, or all shadows would say the same
    assert len(np.unique(shadows.inside, axis=0)) == 6
    lengths.clear()
    audit.fit_shadows(fit, np.zeros((11, 2)), num_shadows=6)
    assert set(lengths) == {5, 6}
