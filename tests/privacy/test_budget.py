import math

import pytest

from veilflow._core.errors import BudgetError
from veilflow.privacy import events as ev
from veilflow.privacy.budget import Budget
from veilflow.privacy.ledger import Ledger

SMALL = ev.Repeated(300, ev.PoissonSampled(0.1, ev.Gaussian(8.5)))  # epsilon 0.75
LARGE = ev.Repeated(300, ev.PoissonSampled(0.1, ev.Gaussian(4.5)))  # epsilon 1.54


@pytest.mark.parametrize("epsilon", [0, 0.0, -1.0, math.nan, -math.inf])
def test_a_budget_without_a_positive_epsilon_is_refused(epsilon):
    with pytest.raises(ValueError, match="epsilon"):
        Budget(epsilon, 1e-5)


@pytest.mark.parametrize("delta", [-1e-9, 1.0, 2.0, math.nan, math.inf])
def test_a_budget_with_an_impossible_delta_is_refused(delta):
    with pytest.raises(ValueError, match="delta"):
        Budget(epsilon=1.0, delta=delta)


@pytest.mark.parametrize("bad", ["1", None, True])
def test_a_budget_of_something_else_than_numbers_is_refused(bad):
    with pytest.raises(TypeError):
        Budget(bad, 1e-5)
    with pytest.raises(TypeError):
        Budget(1.0, bad)


def test_what_fits_passes_and_what_does_not_is_refused_with_a_way_out():
    budget = Budget(1.0, 1e-5)
    budget.check(Ledger(), SMALL, purpose="training")
    with pytest.raises(BudgetError) as caught:
        budget.check(Ledger(), LARGE, purpose="training")
    message = str(caught.value)
    assert message.startswith("training would bring the total to epsilon=1.54")
    assert "1 of 1 is left" in message
    for way_out in ("noise_multiplier", "steps", "sampling_rate"):
        assert way_out in message


def test_the_noise_named_in_the_refusal_does_fit():
    budget, spent = Budget(1.0, 1e-5), Ledger().spend(ev.ZeroConcentrated(0.003), purpose="count")
    with pytest.raises(BudgetError) as caught:
        budget.check(spent, LARGE, purpose="training")
    noise = float(str(caught.value).split("noise_multiplier from 4.5 to ")[1].split(",")[0])
    budget.check(
        spent, ev.Repeated(300, ev.PoissonSampled(0.1, ev.Gaussian(noise))), purpose="training"
    )


def test_a_refusal_of_something_else_than_training_has_no_false_advice():
    with pytest.raises(BudgetError, match=r"0\.5 is left") as caught:
        Budget(0.5, 1e-5).check(Ledger(), ev.PureDP(2.0), purpose="bounds")
    assert "noise_multiplier" not in str(caught.value)


def test_unprotected_use_never_fits():
    with pytest.raises(BudgetError, match="inf"):
        Budget(100.0, 0.1).check(Ledger(), ev.NonPrivate(), purpose="peek")


def test_an_infinite_epsilon_asks_for_no_privacy_and_admits_everything():
    budget = Budget(math.inf, 1e-5)
    assert not budget.private
    assert Budget(1e300, 1e-5).private
    ledger = Ledger().spend(ev.NonPrivate(), purpose="training")
    assert budget.admits(ledger)
    budget.check(ledger, ev.NonPrivate(), purpose="more")
    budget.check(Ledger(), LARGE, purpose="training")
    assert budget.remaining(Ledger()) == math.inf
    assert ledger.guarantee(delta=budget.delta).epsilon == math.inf
    assert Budget(math.inf, 0.0) == Budget(float("inf"), 0)
    # the other number is checked all the same
    for delta in (1.0, -0.1, math.nan):
        with pytest.raises(ValueError, match="delta"):
            Budget(math.inf, delta)


def test_what_is_left_of_an_infinite_budget_is_a_number():
    ledger = Ledger().spend(ev.NonPrivate(), purpose="training")
    assert not math.isnan(Budget(math.inf, 1e-5).remaining(ledger))


def test_a_budget_without_delta_admits_pure_releases_only():
    budget = Budget(1.0, 0.0)
    ledger = Ledger()
    for _ in range(10):
        budget.check(ledger, ev.PureDP(0.1), purpose="query")
        ledger = ledger.spend(ev.PureDP(0.1), purpose="query")
    with pytest.raises(BudgetError):
        budget.check(ledger, ev.PureDP(0.01), purpose="query")
    with pytest.raises(BudgetError):
        budget.check(Ledger(), ev.Gaussian(1000.0), purpose="sum")


def test_remaining_falls_with_spending_and_ends_at_zero():
    budget, ledger = Budget(1.0, 1e-5), Ledger()
    assert budget.remaining(ledger) == 1.0
    ledger = ledger.spend(SMALL, purpose="training")
    assert 0.2 < budget.remaining(ledger) < 0.3
    assert budget.remaining(ledger.spend(LARGE, purpose="more")) == 0


def test_the_parts_of_a_split_sum_to_the_whole():
    parts = Budget(2.0, 1e-6).split({"count": 0.02, "train": 0.98})
    assert parts["count"] == Budget(0.04, 2e-8)
    assert sum(part.epsilon for part in parts.values()) == pytest.approx(2.0)
    for bad in ({"a": 0.6, "b": 0.6}, {"a": 0.0}, {"a": -0.5}):
        with pytest.raises(ValueError, match=r"the share of a must be|shares must sum"):
            Budget(2.0, 1e-6).split(bad)


def test_a_delta_that_would_admit_publishing_a_record_is_warned_about():
    with pytest.warns(UserWarning, match="not below 1/1000"):
        Budget(1.0, 1e-3).warn_if_weak(1000)
    Budget(1.0, 1e-5).warn_if_weak(1000)
