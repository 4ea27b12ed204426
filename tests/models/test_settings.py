"""What estimators share: a budget that promises nothing is said aloud, once a fit."""

import warnings

import numpy as np
import pytest

import veilflow as vf

OPEN = vf.Budget(epsilon=float("inf"), delta=1e-6)
ROWS = np.random.default_rng(0).uniform(size=(60, 2))
ESTIMATORS = {
    "density": vf.DensityFlow(budget=OPEN, bounds=(0, 1), num_records=60),
    "mixture": vf.MixtureDensity(
        budget=OPEN, bounds=(0, 1), num_records=60, num_components=1, steps=2
    ),
}
every = pytest.mark.parametrize("name", ESTIMATORS)


@every
def test_a_fit_without_privacy_warns_once_and_where_it_was_called(name):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ESTIMATORS[name].fit(ROWS, progress=False)
    (warning,) = caught
    assert warning.category is vf.NotPrivateWarning
    assert issubclass(vf.NotPrivateWarning, UserWarning)
    assert "the result is not private" in str(warning.message)
    assert warning.filename == __file__


@every
def test_a_plan_without_a_fit_does_not_warn(name):
    """Warnings are errors here."""
    str(ESTIMATORS[name].plan(2))
    repr(ESTIMATORS[name])


@every
def test_a_private_fit_does_not_warn(name):
    settings = {"num_components": 1, "steps": 2} if name == "mixture" else {}
    kind = type(ESTIMATORS[name])
    kind(budget=vf.Budget(1.0, 1e-6), bounds=(0, 1), num_records=60, **settings).fit(
        ROWS, progress=False
    )
