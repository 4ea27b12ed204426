"""The paper's accountants, as the authors' code computes them."""

import math

import pytest
from reproductions.batches import sampling
from reproductions.dp_nf import accounting
from reproductions.dp_nf.accounting import claims, steps_of_paper, true_epsilon

from veilflow.privacy.events import Gaussian, NonPrivate, PoissonSampled, PureDP, Repeated, Together
from veilflow.privacy.ledger import Ledger

DELTA = 1.52e-5


@pytest.mark.parametrize(
    ("accountant", "epsilon", "steps", "spent"),
    [
        # recomputed from the authors' code, with numerical composition at half the noise
        ("GDP", 0.5, 3_556, 1.17),
        ("GDP", 1.0, 12_566, 2.30),
        ("GDP", 4.0, 147_711, 9.50),
        ("MA", 0.5, 508, None),
        ("MA", 1.0, 2_195, None),
        ("MA", 4.0, 34_005, None),
    ],
)
def test_the_papers_runs_had_as_many_steps_as_its_accountants_allow(
    accountant, epsilon, steps, spent
):
    assert steps_of_paper(accountant, epsilon, delta=DELTA) == pytest.approx(steps, rel=2e-3)
    if spent is not None:
        assert true_epsilon(accountant, epsilon, delta=DELTA) == pytest.approx(spent, rel=3e-3)


def test_an_accountant_whose_settings_are_not_known_has_no_true_epsilon():
    assert true_epsilon("zCDP", 1.0, delta=DELTA) is None


def ledger(*events):
    spent = Ledger()
    for event in events:
        spent = spent.spend(event, purpose="some")
    return spent


RUN = Repeated(1000, PoissonSampled(0.01, Gaussian(2.0)))


def test_bounds_come_first_and_approximations_say_what_they_are():
    found = claims(ledger(RUN), delta=1e-5)
    assert list(found)[:2] == [accounting.PLD, accounting.RDP]
    assert found[accounting.PLD] < found[accounting.RDP] < found[accounting.MA_UNIFORM]
    assert found[accounting.GDP_POISSON] < found[accounting.PLD]
    assert all("not a bound" in label for label in found if label.startswith("GDP"))
    assert all("as the paper" in label for label in found if "fixed size" in label)


def test_unsampled_noise_costs_the_same_by_every_gdp_formula():
    found = claims(ledger(Gaussian(3.0), Gaussian(3.0)), delta=1e-5)
    exact = found[accounting.PLD]
    assert found[accounting.GDP_UNIFORM] == pytest.approx(exact, rel=1e-3)
    assert found[accounting.GDP_POISSON] == pytest.approx(exact, rel=1e-3)


def test_parts_of_a_ledger_add_up():
    apart = claims(ledger(RUN, Gaussian(3.0)), delta=1e-5)
    joined = claims(ledger(Together((RUN, Gaussian(3.0)))), delta=1e-5)
    assert apart == pytest.approx(joined)
    alone = claims(ledger(RUN), delta=1e-5)
    assert all(apart[label] > alone[label] for label in alone)


def test_what_the_papers_accountants_cannot_add_up_they_say_nothing_of():
    assert list(claims(ledger(RUN, PureDP(0.1)), delta=1e-5)) == [accounting.PLD]
    assert claims(ledger(NonPrivate()), delta=1e-5) == {accounting.PLD: math.inf}
    assert claims(Ledger(), delta=1e-5) == {}


def test_the_ledger_tells_how_batches_were_drawn():
    assert sampling(ledger(Gaussian(1.0), RUN)) == "Poisson"
    assert sampling(ledger(Repeated(5, Gaussian(1.0)))) == "no batches"
    assert sampling(Ledger()) == ""
