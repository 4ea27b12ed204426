"""What estimators share: budgets that are refused, and a warning where a budget promises nothing."""

import math
import warnings

import numpy as np
import pytest

import veilflow as vf
from veilflow.privacy.events import ApproximateDP, Gaussian, NonPrivate, PureDP
from veilflow.privacy.ledger import Ledger

OPEN = vf.Budget(epsilon=math.inf, delta=1e-6)
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


# -- what a budget admits --------------------------------------------------------------------------

PLANNED = Ledger().spend(PureDP(0.5), purpose="a count")


def test_a_budget_admits_what_fits_and_refuses_the_rest_with_a_way_out():
    vf.Budget(0.5, 0).admit(PLANNED)
    with pytest.raises(
        vf.BudgetError, match=r"cost epsilon=0.5 .* budget is 0.4. Nothing was spent"
    ):
        vf.Budget(0.4, 0).admit(PLANNED)
    vf.Budget(math.inf, 1e-6).admit(Ledger().spend(NonPrivate(), purpose="training"))


@pytest.mark.parametrize("event", [ApproximateDP(0.1, 1e-9), Gaussian(100.0), NonPrivate()])
def test_at_delta_zero_only_pure_releases_are_admitted(event):
    with pytest.raises(vf.BudgetError, match="Give a delta above 0"):
        vf.Budget(10.0, 0).admit(PLANNED.spend(event, purpose="more"))
