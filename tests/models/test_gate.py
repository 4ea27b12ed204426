"""The gate of every fit: nothing above the budget is planned, and nothing but the plan is spent."""

import math

import pytest

import veilflow as vf
from veilflow._core.errors import BudgetError, PrivacyError
from veilflow.models.gate import admitted, promised
from veilflow.privacy.assumptions import Conditional
from veilflow.privacy.events import ApproximateDP, Gaussian, NonPrivate, PureDP
from veilflow.privacy.ledger import Ledger
from veilflow.privacy.unit import Unit

PLANNED = Ledger().spend(PureDP(0.5), purpose="a count").assuming(Conditional("a sentence"))


def test_what_fits_passes_as_it_is_and_what_does_not_is_refused_with_a_way_out():
    assert admitted(PLANNED, vf.Budget(0.5, 0)) is PLANNED
    with pytest.raises(BudgetError, match=r"cost epsilon=0.5 .* has 0.4. Nothing was spent"):
        admitted(PLANNED, vf.Budget(0.4, 0))


@pytest.mark.parametrize("event", [ApproximateDP(0.1, 1e-9), Gaussian(100.0), NonPrivate()])
def test_at_delta_zero_only_pure_releases_pass(event):
    with pytest.raises(BudgetError, match="Give a delta above 0"):
        admitted(PLANNED.spend(event, purpose="more"), vf.Budget(10.0, 0))


def test_without_a_limit_everything_passes():
    open_ = Ledger().spend(NonPrivate(), purpose="training")
    assert admitted(open_, vf.Budget(math.inf, 1e-6)) is open_


def test_a_guarantee_is_stated_for_what_was_planned_and_for_nothing_else():
    budget = vf.Budget(1.0, 1e-6)
    assert promised(PLANNED, planned=PLANNED, budget=budget) == PLANNED.guarantee(delta=1e-6)
    others = (
        PLANNED.spend(PureDP(0.1), purpose="one more"),
        Ledger(),
        Ledger().spend(PureDP(0.5 + 1e-15), purpose="a count"),
        Ledger(unit=Unit.IMAGE, entries=PLANNED.entries),
    )
    for spent in others:
        with pytest.raises(PrivacyError, match="did not spend what it planned"):
            promised(spent, planned=PLANNED, budget=budget)
