"""Plans: what they cost follows from their releases, and is known before a record is."""

import dataclasses
import json
import math

import pytest

from veilflow._core.codec import plain, restored
from veilflow._core.errors import BudgetError
from veilflow.engine.training import Training
from veilflow.privacy.assumptions import Conditional, Declared, FloatSums, Generator, Seeded
from veilflow.privacy.budget import Budget
from veilflow.privacy.events import ApproximateDP, Gaussian, PureDP
from veilflow.privacy.grid_noise import closeness
from veilflow.privacy.unit import Unit
from veilflow.releases.columns import Columns
from veilflow.releases.count import Count
from veilflow.releases.grid import Grid
from veilflow.releases.mixture import ExpectationMaximization
from veilflow.releases.plan import SLACK, FitPlan, spending, spent_on
from veilflow.releases.training import PrivateTraining
from veilflow.releases.whitening import Whitening

BUDGET, OPEN = Budget(1.0, 1e-6), Budget(math.inf, 1e-6)
COUNT = Count(epsilon=0.02)
COLUMNS = Columns(dim=2, bits=3, border=1.0, noise_multiplier=40.0)
MOMENTS = Whitening(dim=2, radius=1.0, noise_multipliers=(30.0, 20.0))
MIXTURE = ExpectationMaximization(
    dim=2, num_components=2, steps=3, spread=1.0, noise_multiplier=50.0
)
GRID = Grid(dim=2, bits=2, border=1.0, epsilon=0.5)
TRAINING = PrivateTraining(
    settings=Training(steps=10, sampling_rate=0.1, clip_norm=1.0, learning_rate=0.1),
    noise_multiplier=5.0,
    num_parameters=7,
)


def made(*releases, **changes) -> FitPlan:
    settings = {"model": "Toy", "budget": BUDGET, "releases": releases, "declared": ("bounds",)}
    return FitPlan(**{**settings, **changes})


# -- the ledger ------------------------------------------------------------------------------------


def test_every_release_is_an_entry_and_what_noise_owes_is_the_last():
    plan = made(COUNT, COLUMNS, MOMENTS, TRAINING)
    *entries, slack = plan.ledger.entries
    assert [(e.purpose, e.event) for e in entries] == [(r.purpose, r.event) for r in plan.releases]
    # histograms, triangles of moments, and one number more than parameters a step
    draws = 2 * 8 + 2 * (2 + 3) + 10 * (7 + 1)
    assert (slack.purpose, slack.event) == (SLACK, ApproximateDP(0.0, closeness(draws)))


def test_noise_of_the_operating_system_and_no_noise_owe_nothing():
    assert [e.purpose for e in made(COUNT, GRID).ledger.entries] == [COUNT.purpose, GRID.purpose]
    loud = dataclasses.replace(COLUMNS, noise_multiplier=0.0)
    assert len(made(loud, budget=OPEN).ledger.entries) == 1
    assert made().ledger.entries == ()
    assert made().guarantee.epsilon == 0


def test_a_guarantee_is_what_the_ledger_adds_up_to():
    plan = made(COUNT, COLUMNS, MOMENTS, unit=Unit.IMAGE)
    assert plan.guarantee == plan.ledger.guarantee(delta=BUDGET.delta)
    assert plan.ledger.unit is Unit.IMAGE


def test_assumptions_are_declared_facts_then_those_of_the_releases_each_once():
    assert made(COUNT).assumptions == (Declared(("bounds",)),)
    assert made(COUNT, num_records=5).assumptions == (
        Declared(("bounds", "the number of records")),
    )
    assert made(COUNT, declared=()).assumptions == ()
    assert made(MOMENTS, MIXTURE, TRAINING, seeded=True).assumptions == (
        Declared(("bounds",)),
        FloatSums(),
        Generator(),
        Seeded(),
    )
    with_rows = made(MOMENTS, conditions=("rows are public",))
    assert with_rows.assumptions[-1] == Conditional("rows are public")
    assert with_rows.guarantee.assumptions == with_rows.ledger.assumptions


def test_a_seed_is_no_condition_where_it_decides_nothing():
    assert Seeded() not in made(COUNT, GRID, seeded=True).assumptions
    assert Seeded() in made(COLUMNS, seeded=True).assumptions


def test_no_privacy_rests_on_nothing_but_declarations():
    free = dataclasses.replace(TRAINING, noise_multiplier=0.0)
    plan = made(free, budget=OPEN, seeded=True)
    assert plan.assumptions == (Declared(("bounds",)),)
    assert "no privacy" in str(plan.guarantee)


def test_two_releases_of_one_name_would_be_taken_for_each_other():
    with pytest.raises(ValueError, match="the same purpose"):
        made(COUNT, COUNT).checked()
    made(COUNT, dataclasses.replace(COUNT, purpose="another count")).checked()


# -- what is refused -------------------------------------------------------------------------------


def test_a_plan_within_its_budget_is_checked_and_one_beyond_it_refused():
    plan = made(COUNT, MOMENTS)
    assert plan.checked() is plan
    with pytest.raises(BudgetError, match="all releases together would cost"):
        made(Count(epsilon=1.01)).checked()
    with pytest.raises(BudgetError, match="all releases together would cost"):
        made(dataclasses.replace(COLUMNS, noise_multiplier=0.0)).checked()


@pytest.mark.parametrize(
    "release",
    [
        dataclasses.replace(COLUMNS, noise_multiplier=1e9),
        dataclasses.replace(MOMENTS, noise_multipliers=(30.0, 1e9)),
        dataclasses.replace(MIXTURE, noise_multiplier=1e9),
        dataclasses.replace(TRAINING, noise_multiplier=1e9),
    ],
    ids=lambda release: release.purpose,
)
def test_noise_without_a_grid_is_refused(release):
    with pytest.raises(BudgetError, match=f"the release of {release.purpose} would need"):
        made(release).checked()


def test_noise_that_owes_more_than_delta_is_refused():
    tight = Budget(1.0, 1e-21)
    with pytest.raises(BudgetError, match="the noise alone"):
        _ = made(COLUMNS, budget=tight).ledger
    with pytest.raises(BudgetError, match="the noise alone"):
        spending(tight, (COLUMNS, TRAINING))


# -- spending the rest -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("releases", "rest"),
    [
        ((COUNT, MIXTURE), -1),
        ((COUNT, MIXTURE, COLUMNS), 1),
        ((COUNT, COLUMNS, TRAINING), -1),
        ((COUNT, GRID), 1),
        ((MIXTURE,), 0),
    ],
    ids=["mixture", "in the middle", "training", "grid", "alone"],
)
def test_one_release_takes_what_the_others_leave(releases, rest):
    priced = spending(BUDGET, releases, rest)
    place = rest % len(releases)
    assert priced[:place] == releases[:place]
    assert priced[place + 1 :] == releases[place + 1 :]
    assert type(priced[place]) is type(releases[place])
    plan = made(*priced).checked()
    assert 0.995 * BUDGET.epsilon < plan.guarantee.epsilon <= BUDGET.epsilon


def test_what_is_left_does_not_depend_on_the_price_that_is_looked_for():
    cheap, dear = (dataclasses.replace(MIXTURE, noise_multiplier=x) for x in (2.0, 500.0))
    assert spending(BUDGET, (COUNT, cheap)) == spending(BUDGET, (COUNT, dear))
    one, two = (spent_on((COUNT, x), BUDGET, leave_out=1) for x in (cheap, dear))
    assert one == two
    # what its noise will owe is among the others already
    assert [entry.purpose for entry in one.entries] == [COUNT.purpose, SLACK]


def test_where_nothing_is_left_nothing_is_planned():
    with pytest.raises(BudgetError, match="nothing is left"):
        spending(BUDGET, (Count(epsilon=2.0), MIXTURE))
    with pytest.raises(NotImplementedError, match="Count has a fixed price"):
        spending(BUDGET, (MIXTURE, COUNT))


def test_without_privacy_there_is_nothing_to_spend():
    releases = (COUNT, MIXTURE)
    assert spending(OPEN, releases) is releases
    assert spending(BUDGET, ()) == ()


# -- as a value ------------------------------------------------------------------------------------

PLAN = made(COUNT, COLUMNS, MOMENTS, MIXTURE, GRID, TRAINING, num_records=3, unit=Unit.IMAGE)


def test_a_plan_comes_back_from_json():
    assert restored(FitPlan, json.loads(json.dumps(plain(PLAN), allow_nan=False))) == PLAN
    open_count = made(Count(epsilon=math.inf), budget=OPEN)
    assert restored(FitPlan, json.loads(json.dumps(plain(open_count)))) == open_count


def test_the_identity_is_that_of_everything_but_who_chose_the_seed():
    assert PLAN.identity == dataclasses.replace(PLAN, seeded=True).identity
    again = restored(FitPlan, json.loads(json.dumps(plain(PLAN))))
    assert again.identity == PLAN.identity
    others = [
        dataclasses.replace(PLAN, **change)
        for change in (
            {"model": "Another"},
            {"budget": Budget(1.0, 2e-6)},
            {"releases": PLAN.releases[::-1]},
            {"releases": PLAN.releases[1:]},
            {"releases": (dataclasses.replace(COUNT, at_least=2), *PLAN.releases[1:])},
            {"declared": ("bounds", "columns")},
            {"num_records": 4},
            {"num_records": None},
            {"unit": Unit.ROW},
            {"conditions": ("rows are public",)},
        )
    ]
    assert len({plan.identity for plan in (PLAN, *others)}) == len(others) + 1


def test_releases_are_found_by_their_kind():
    assert PLAN.release(Whitening) == MOMENTS
    assert PLAN.release(Columns) == COLUMNS
    assert made(COUNT).release(Whitening) is None


def test_a_plan_prints_as_a_table_of_prices():
    plan = made(COUNT, COLUMNS, MOMENTS)
    first, *lines = str(plan).splitlines()
    assert first == f"plan of Toy: {plan.guarantee}"
    assert len(lines) == len(plan.ledger.entries)
    for (purpose, epsilon, share), line in zip(
        plan.ledger.shares(BUDGET.delta), lines, strict=True
    ):
        assert line.split("  ")[1].strip() == purpose
        assert f"epsilon {epsilon:<8.3g}" in line
        assert line.endswith(f"{share:4.0%}")
    assert str(made()).startswith("plan of Toy: ")


def test_events_are_those_that_the_fields_say():
    assert COLUMNS.event == Gaussian(40.0)
    assert COUNT.event == PureDP(0.02)
    assert TRAINING.event_after(0) == TRAINING.event_after(1)
    assert TRAINING.event_after(10) == TRAINING.event
