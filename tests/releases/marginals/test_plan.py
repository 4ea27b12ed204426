"""The plan: public facts in, all noise out, and a price that is what was asked for."""

import dataclasses
import math

import pytest

from veilflow.privacy.budget import Budget
from veilflow.privacy.calibration import gaussian_mu
from veilflow.privacy.events import Gaussian, NonPrivate
from veilflow.privacy.ledger import Ledger
from veilflow.releases.marginals.plan import MarginalPlan, cliques

SIZES = (5, 2, 40, 7, 3, 12)


def epsilon(event, delta=1e-5):
    return Ledger().spend(event, purpose="test").epsilon(delta=delta)


@pytest.mark.parametrize("target", [0.5, 1.0, 10.0])
@pytest.mark.parametrize("label", [None, 1])
def test_a_plan_costs_about_as_much_as_the_gaussian_it_is_made_for(target, label):
    plan = MarginalPlan.of(SIZES, mu=gaussian_mu(Budget(target, 1e-5)), label=label)
    assert epsilon(plan.event) == pytest.approx(target, rel=0.01)


def test_one_column_takes_it_all():
    plan = MarginalPlan.of((9,), mu=0.5)
    assert plan.rounds == ()
    assert epsilon(plan.event) == pytest.approx(epsilon(Gaussian(2.0)))


def test_no_more_is_chosen_than_there_is():
    assert sum(step.num_choices for step in MarginalPlan.of((3, 3), mu=1.0).rounds) == 1
    with_label = MarginalPlan.of((3, 3, 2), mu=1.0, label=2)
    assert sum(step.num_choices for step in with_label.rounds) == 4


def test_a_plan_without_privacy_says_so():
    plan = MarginalPlan.of(SIZES, mu=math.inf)
    assert plan.event == NonPrivate()
    assert all(step.noise_multiplier == 0 for step in plan.rounds)


def test_the_label_brings_tables_of_three_columns():
    assert cliques(3, None) == ((0, 1), (0, 2), (1, 2))
    assert cliques(4, 1) == (*cliques(4, None), (0, 1, 2), (0, 1, 3), (1, 2, 3))


@pytest.mark.parametrize("label", [None, 0, 499, 1999])
def test_candidates_of_wide_tables_grow_with_the_columns_only(label):
    for num_columns in (500, 2000):
        if label is not None and label >= num_columns:
            continue
        found = cliques(num_columns, label)
        assert len(found) == len(set(found)) <= max(4096, 3 * num_columns)
        assert all(list(clique) == sorted(set(clique)) for clique in found)
        pairs = {clique for clique in found if len(clique) == 2}
        # neighbors, and whatever predicts the label
        assert {(c, c + 1) for c in range(num_columns - 1)} <= pairs
        if label is not None:
            others = set(range(num_columns)) - {label}
            assert {tuple(sorted((c, label))) for c in others} <= pairs
            assert all(label in clique for clique in found if len(clique) == 3)


def test_all_pairs_are_candidates_up_to_sixty_four_columns():
    assert len(cliques(64, 63)) == math.comb(64, 2) + math.comb(63, 2)


def test_wide_tables_share_the_budget_among_few_tables():
    plan = MarginalPlan.of((2,) * 500, mu=0.3, label=0)
    assert sum(step.num_choices for step in plan.rounds) == 256


def test_a_plan_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        MarginalPlan.of(SIZES, mu=1.0).noise_multiplier = 0.1  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"sizes": ()}, "num_columns"),
        ({"sizes": (3, 0)}, "size must be at least 1"),
        ({"mu": 0.0}, "mu must be positive"),
        ({"ordered": (True,)}, "ordered must have one entry"),
        ({"label": 6}, "label must be a column from 0 to 5"),
        ({"label": -1}, "label"),
        ({"label_weight": 0.0}, "label_weight"),
        ({"num_records": 0}, "num_records"),
    ],
)
def test_facts_that_cannot_be_are_refused(facts, words):
    with pytest.raises(ValueError, match=words):
        MarginalPlan.of(**{"sizes": SIZES, "mu": 1.0, **facts})
