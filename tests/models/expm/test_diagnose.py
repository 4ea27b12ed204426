"""A flow is diagnosed on public records, before anything is spent."""

import numpy as np
import pytest

import veilflow as vf

ROWS = np.random.default_rng(0).uniform(0, 10, (40, 1))
LABELS = (ROWS[:, 0] > 5).astype(int)
HASTY = vf.expm.FlowSampler(flow="planar", blocks=1, steps=2, samples=4)


def diagnose(sampler, labels=LABELS, **how) -> vf.expm.Diagnosis:
    return vf.ExpMechClassifier(
        budget=vf.Budget(epsilon=5.0, delta=0),
        prior=vf.GaussianPrior(3.0),
        bounds=(0, 10),
        sampler=sampler,
        seed=1,
    ).diagnose(ROWS, labels, **how)


def test_a_hasty_flow_is_objected_to_and_a_seed_repeats_it():
    found = diagnose(HASTY, draws=200)
    assert found == diagnose(HASTY, draws=200)
    assert 0.1 < found.importance.total_variation <= 1
    assert found.objections


def test_labels_are_those_that_are_declared_and_the_sampler_is_a_flow():
    with pytest.raises(ValueError, match="declared classes"):
        diagnose(HASTY, LABELS + 1)
    with pytest.raises(ValueError, match="'zoom' trains no flow"):
        diagnose("zoom")
