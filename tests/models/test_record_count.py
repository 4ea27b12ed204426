"""A number of records that is declared roughly: what it changes, and what it does not."""

import numpy as np
import pytest

import veilflow as vf
from tests.contracts.registry import ESTIMATORS
from veilflow.models.record_count import ROUGHLY, exactly, num_records, roughly
from veilflow.releases.count import Count
from veilflow.releases.training import PrivateTraining

ROUGH = ("DensityFlow", "TableFlow", "ImageFlow")
BUDGET = vf.Budget(epsilon=1.0, delta=1e-6)


@pytest.mark.parametrize(
    ("given", "kept", "exact", "rough"),
    [
        (None, None, None, None),
        (12, 12, 12, 12),
        (np.int64(12), 12, 12, 12),
        ("about 25000", "about 25000", None, 25_000),
        (" About  25,000", "about 25000", None, 25_000),
        ("about 25_000", "about 25000", None, 25_000),
        ("about 24061", "about 24000", None, 24_000),  # more digits would be a count
        ("about 996", "about 1000", None, 1_000),
        ("about 7", "about 7", None, 7),
    ],
)
def test_a_number_is_declared_exactly_roughly_or_not_at_all(given, kept, exact, rough):
    value = num_records("num_records", given)
    assert (value, exactly(value), roughly(value)) == (kept, exact, rough)
    assert num_records("num_records", value) == value


@pytest.mark.parametrize("bad", ["25000", "about", "about 0", "about -3", "about 2.5", "some", ""])
def test_other_texts_are_refused_with_one_that_is_allowed(bad):
    with pytest.raises(ValueError, match=r'num_records must be .* "about 25000"'):
        num_records("num_records", bad)


@pytest.mark.parametrize("name", ROUGH)
def test_a_rough_number_is_confessed_and_the_count_is_paid_for_all_the_same(name):
    one = ESTIMATORS[name]
    ledger = one.planned(one.make(num_records="about 12"))
    assert ROUGHLY in str(ledger.assumptions[0])
    assert "the number of records" not in ledger.assumptions[0].what
    assert Count.purpose in [entry.purpose for entry in ledger.entries]
    unsaid = one.planned(one.make(num_records=None))
    assert ROUGHLY not in str(unsaid.assumptions)


def test_rate_and_shares_are_those_of_the_exact_number():
    plans = [
        vf.DensityFlow(budget=BUDGET, bounds=(0, 1), num_records=n).plan(6)
        for n in (100_000, "about 100000", None)
    ]
    exact, rough, unsaid = (plan.release(PrivateTraining) for plan in plans)
    assert rough.settings == exact.settings
    assert unsaid.sampling_rate != exact.sampling_rate
    assert plans[1].num_records is None
    assert plans[1].guarantee.epsilon <= BUDGET.epsilon


def test_a_batch_size_may_follow_from_a_rough_number():
    training = vf.Training(batch_size=500)
    flow = vf.DensityFlow(budget=BUDGET, bounds=(0, 1), num_records="about 5000", training=training)
    assert flow.plan(6).release(PrivateTraining).sampling_rate == 0.1


def test_neighbors_are_planned_alike_and_the_divisor_is_the_paid_count():
    rows = np.random.default_rng(0).uniform(size=(300, 4))
    flow = vf.DensityFlow(
        budget=BUDGET,
        bounds=(0, 1),
        num_records="about 300",
        training=vf.Training(steps=2),
        rehearse=False,
    )
    one, other = (flow.fit(x, progress=False) for x in (rows, rows[1:]))
    assert one.plan == other.plan
    assert one.ledger == other.ledger
    assert abs(one.facts["num_records"] - 300) < 300
