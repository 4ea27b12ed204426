"""What a fit pays is what its plan said: before the rows, whatever the rows."""

import json
import math

import numpy as np
import pandas as pd
import pytest

import veilflow as vf
from tests.models.table import small
from veilflow._core import codec
from veilflow._core.errors import BudgetError, NotPrivateWarning, PrivacyError
from veilflow.engine.observed import num_parameters
from veilflow.models.table import code_density, warm_start
from veilflow.models.table.sizes import largest_flow
from veilflow.privacy import events
from veilflow.privacy.assumptions import Seeded
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.releases import training
from veilflow.releases.marginals.release import Marginals
from veilflow.releases.plan import FitPlan
from veilflow.releases.table.histograms import ColumnHistograms
from veilflow.releases.training import PrivateTraining
from veilflow.tabular.draft import draft_schema


@pytest.fixture
def untrained(monkeypatch):
    """Fits without the work of training, which is paid for all the same."""
    monkeypatch.setattr(warm_start, "pretrain", lambda flow, *_, **__: flow)
    monkeypatch.setattr(code_density, "balanced", lambda flow, *_, **__: flow)
    monkeypatch.setattr(
        training, "train", lambda plan, loss, flow, *_, **__: Released(flow, plan.event)
    )


CLOSED = vf.Schema(
    age=vf.Numeric(17, 90, integer=True, nullable=True),
    sex=vf.Categorical("F", "M"),
    smoker=vf.Boolean(),
)
OPEN = CLOSED.with_columns({"age": vf.Numeric(integer=True, nullable=True)})
CASES = {
    "all declared": {"schema": CLOSED},
    "open list": {},
    "open bounds": {"schema": OPEN},
    "open lists and bounds": {
        "schema": vf.Schema(
            gain=vf.Numeric(), city=vf.OpenCategorical(nullable=True), smoker=vf.Boolean()
        )
    },
    "a count that is paid": {"num_records": None, "schema": CLOSED},
    "no warm start": {"schema": CLOSED, "warm_start": False},
    "another share": {"schema": CLOSED, "warm_start": 0.6},
    "nothing but the start": {"steps": 0},
    "a batch size": {"schema": CLOSED, "batch_size": 30, "steps": 50},
    "a sampling rate": {"num_records": None, "schema": CLOSED, "sampling_rate": 0.5},
    "one column": {"schema": vf.Schema(sex=vf.Categorical("F", "M"))},
    "a label": {"schema": vf.Schema(CLOSED.columns, label="smoker")},
    "a chosen seed": {"schema": CLOSED, "seed": 7},
    "nothing but the start, discovered": {"schema": OPEN, "steps": 0},
    "nothing but columns": {"steps": 0, "warm_start": False, "num_records": None},
}


@pytest.mark.few(4)
@pytest.mark.parametrize("settings", CASES.values(), ids=CASES.keys())
def test_a_fit_pays_what_the_plan_said(settings, untrained):
    estimator = small.estimator(**{"seed": None, **settings})
    expected = estimator.plan()
    model = estimator.fit(small.frame(), progress=False, extra="ignore")
    assert model.plan == expected
    assert model.ledger == expected.ledger
    assert model.guarantee == expected.guarantee
    assert model.guarantee.epsilon <= small.BUDGET.epsilon
    assert model.guarantee.epsilon >= 0.98 * small.BUDGET.epsilon
    assert (model.plan.num_records is not None) == bool(estimator.num_records)


SLACK = "distance of grid noise from Gaussian"


def purposes(**settings):
    return [entry.purpose for entry in small.estimator(**settings).plan().ledger.entries]


def test_every_touch_of_the_rows_has_a_line_of_its_own():
    schema = vf.Schema(gain=vf.Numeric(), city=vf.OpenCategorical(), smoker=vf.Boolean())
    assert purposes(schema=schema, num_records=None) == [
        "number of records",
        "values of city",
        "bounds of gain",
        "histograms of columns",
        "details of columns",
        "marginals",
        "training",
        SLACK,
    ]
    assert purposes(schema=CLOSED, warm_start=False) == [
        "histograms of columns",
        "details of columns",
        "training",
        SLACK,
    ]
    assert purposes(schema=CLOSED, steps=0) == [
        "histograms of columns",
        "details of columns",
        "marginals",
        SLACK,
    ]
    # no numbers, no details
    assert "details of columns" not in purposes(schema=vf.Schema(smoker=vf.Boolean()))


def test_columns_whose_names_begin_alike_have_a_line_each():
    names = [f"{'a' * 200}{i}" for i in range(3)]
    schema = vf.Schema({name: vf.OpenCategorical() for name in names})
    found = [one for one in purposes(schema=schema) if one.startswith("values of")]
    assert len(set(found)) == 3
    assert max(map(len, found)) < 100


def test_a_warm_start_is_a_step_of_the_plan_that_costs_nothing():
    plan = small.estimator(schema=CLOSED).plan()
    steps = [release.purpose for release in plan.releases]
    details = ["histograms of columns", "details of columns"]
    assert steps == [*details, "marginals", "warm start", "training"]
    assert "warm start" not in [entry.purpose for entry in plan.ledger.entries]
    assert "warm start" in str(plan)


@pytest.mark.parametrize("warm_start", [True, False])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_without_steps_the_start_spends_the_budget(warm_start, epsilon):
    budget = vf.Budget(epsilon, 1e-5)
    for schema in (CLOSED, OPEN, vf.Schema(CLOSED.columns, label="smoker")):
        settings = {"schema": schema, "budget": budget, "warm_start": warm_start, "steps": 0}
        spent = small.estimator(**settings).plan().guarantee.epsilon
        assert 0.99 * epsilon <= spent <= epsilon


def test_a_share_that_was_given_is_kept_without_steps():
    usual, given = (small.estimator(schema=CLOSED, warm_start=0.3, steps=n).plan() for n in (5, 0))
    for kind in (ColumnHistograms, Marginals):
        assert given.release(kind) == usual.release(kind)
    all_of_it = small.estimator(schema=CLOSED, steps=0).plan()
    assert all_of_it.release(ColumnHistograms) == usual.release(ColumnHistograms)
    # about the root of 0.85 over 0.3
    assert all_of_it.release(Marginals).mu > 1.65 * usual.release(Marginals).mu


def test_prices_do_not_depend_on_the_rows(untrained):
    tables = {
        "usual": small.frame(),
        "constant": small.frame(1).assign(age=None, gain=0.0, city=None, sex="F"),
        "words": small.frame(700).assign(city=[f"w{i}" for i in range(700)]),
    }
    estimator = small.estimator(num_records=None, seed=None)
    found = {name: estimator.fit(table, progress=False) for name, table in tables.items()}
    assert all(model.plan == estimator.plan() for model in found.values())


def test_a_released_number_of_records_is_not_the_true_one(untrained):
    estimator = small.estimator(schema=CLOSED, num_records=None, warm_start=False)
    counts = {
        estimator.fit(small.frame(), progress=False, extra="ignore").facts["num_records"]
        for _ in range(8)
    }
    assert len(counts) > 1
    # epsilon is 0.08: a geometric tail beyond 300 has a probability of 1e-10
    assert all(abs(count - small.NUM_ROWS) < 300 for count in counts)


def test_noise_grows_as_epsilon_falls_and_all_of_it_stays_within_the_budget():
    noises = []
    for epsilon in (0.1, 1.0, 10.0):
        budget = vf.Budget(epsilon, 1e-5)
        estimator = small.estimator(budget=budget, schema=CLOSED, steps=100)
        plan = estimator.plan()
        noises.append(plan.release(ColumnHistograms).noise_multiplier)
        assert plan.guarantee.epsilon <= epsilon
    assert noises == sorted(noises, reverse=True)


@pytest.mark.parametrize("steps", [0, 5])
def test_settings_beyond_the_budget_are_refused_before_a_record_is_opened(steps, monkeypatch):
    estimator = small.estimator(schema=CLOSED, warm_start=0.999, steps=steps)
    with pytest.raises(BudgetError):
        estimator.plan()
    monkeypatch.setattr(Sensitive, "open", lambda *_: pytest.fail("a record was opened"))
    with pytest.raises(BudgetError):
        estimator.fit(small.frame(), progress=False, extra="ignore")


def test_without_privacy_nothing_is_hidden_and_everybody_is_told(untrained):
    estimator = small.estimator(
        budget=vf.Budget(np.inf, 1e-5), schema=OPEN, num_records=None, seed=None
    )
    with pytest.warns(NotPrivateWarning, match="not private"):
        model = estimator.fit(small.frame(), progress=False, extra="ignore")
    assert model.guarantee.epsilon == np.inf
    assert {entry.event for entry in model.ledger.entries} == {events.NonPrivate()}
    assert model.plan == estimator.plan()
    age = model.schema.columns["age"]
    assert (age.low, age.high) == (small.frame().age.min(), small.frame().age.max())


@pytest.mark.parametrize("flow", [None, vf.hflow(blocks=1, hidden=(4,))], ids=["codes", "hflow"])
def test_a_plan_goes_to_json_and_back(flow):
    plan = small.estimator(flow=flow).plan()
    again = codec.restored(FitPlan, json.loads(json.dumps(codec.plain(plan))))
    assert again == plan
    assert again.ledger == plan.ledger
    assert again.identity == plan.identity
    assert plan.flow.most_bins is not None


def test_what_the_user_left_open_is_in_the_plan():
    plan = vf.TableFlow(schema=CLOSED, budget=small.BUDGET, num_records=6_000).plan()
    settings = plan.release(PrivateTraining).settings
    assert (settings.steps, settings.optimizer, settings.ema_decay) == (1000, "adam", 0.99)
    assert (plan.flow.hidden, plan.flow.most_bins, plan.flow.label_weight) == ((256,), 32, 2.0)
    paper = vf.TableFlow(schema=CLOSED, budget=small.BUDGET, flow=vf.hflow(), num_records=600)
    settings = paper.plan().release(PrivateTraining).settings
    assert (settings.optimizer, settings.clip_norm) == ("adabelief", 1.0)


def test_work_grows_slower_than_the_square_of_columns():
    def plan(num_columns, num_records=20_000):
        columns = {f"n{i}": vf.Numeric(0, 1000, integer=True) for i in range(num_columns)}
        facts = {"schema": vf.Schema(columns), "budget": small.BUDGET, "num_records": num_records}
        return vf.TableFlow(**facts).plan()

    few, many = plan(20), plan(200)
    assert few.flow.direct
    assert not many.flow.direct
    assert num_parameters(largest_flow(many.schema, many.flow)) < 10 * num_parameters(
        largest_flow(few.schema, few.flow)
    )
    # a user who asks for more gets it
    asked = vf.TableFlow(
        schema=many.schema, budget=small.BUDGET, num_records=20_000, flow=vf.codes(hidden=(300,))
    )
    assert asked.plan().flow.hidden == (300,)
    # and many records with many columns take fewer steps, never more than the usual
    slow = plan(80, num_records=2_000_000).release(PrivateTraining).settings.steps
    assert 500 <= slow < 2000


def planned(**settings) -> list[str]:
    given = {"schema": CLOSED, "budget": small.BUDGET, "num_records": 300}
    return [one.purpose for one in vf.TableFlow(**(given | settings)).plan().releases]


def test_with_little_budget_for_few_records_marginals_get_what_training_would_cost():
    low = vf.TableFlow(schema=CLOSED, budget=small.BUDGET, num_records=300).plan()
    assert [one.purpose for one in low.releases][-2:] == ["marginals", "warm start"]
    strong = vf.TableFlow(schema=CLOSED, budget=small.BUDGET, num_records=60_000).plan()
    assert low.release(Marginals).mu > 1.5 * strong.release(Marginals).mu
    assert low.flow.most_bins < strong.flow.most_bins
    for plan in (low, strong):
        spent = plan.guarantee.epsilon
        assert 0.97 * small.BUDGET.epsilon < spent <= small.BUDGET.epsilon


def test_the_rule_for_low_budgets_depends_on_budget_times_records_only():
    weak = vf.Budget(epsilon=0.1, delta=1e-5)
    assert "training" not in planned(budget=weak, num_records=10_000)
    assert "training" in planned(budget=weak, num_records=200_000)
    assert "training" not in planned(budget=weak, num_records="about 10000")
    assert "training" in planned(budget=weak, num_records=None)  # there may be many


@pytest.mark.parametrize(
    "settings",
    [
        {"training": vf.Training(steps=7)},
        {"training": vf.Training(clip_norm=2.0)},
        {"warm_start": False},
        {"warm_start": 0.2},
        {"flow": vf.hflow(blocks=1, hidden=(4,))},
        {"budget": vf.Budget(epsilon=math.inf, delta=1e-5)},
    ],
    ids=["steps", "clip", "cold", "share", "hflow", "open"],
)
def test_who_sets_how_to_train_gets_a_training(settings):
    assert "training" in planned(**settings)


def test_bins_that_were_set_stay():
    plan = vf.TableFlow(
        schema=CLOSED, budget=small.BUDGET, num_records=300, flow=vf.codes(most_bins=21)
    ).plan()
    assert plan.flow.most_bins == 21


def test_a_schema_that_nobody_confirmed_is_refused(tmp_path):
    table = small.frame(200)[["age", "gain", "city", "sex"]]
    table.to_csv(tmp_path / "t.csv", index=False)
    draft = draft_schema(tmp_path / "t.csv")
    with pytest.raises(PrivacyError, match="nobody has confirmed, in the columns age, gain"):
        vf.TableFlow(schema=draft, budget=small.BUDGET).plan()
    with pytest.raises(PrivacyError, match="pay_for_discovery=True"):
        vf.TableFlow(schema=draft, budget=small.BUDGET).fit(tmp_path / "t.csv", progress=False)


@pytest.mark.filterwarnings("ignore:column 'age'")
def test_one_odd_cell_changes_no_kind_that_a_fit_goes_by():
    ages = list(range(20, 60))
    drafts = [draft_schema(pd.DataFrame({"age": cells})) for cells in (ages, [*ages, "about 40"])]
    refusals = []
    for draft in drafts:
        with pytest.raises(PrivacyError, match="kinds of the columns age") as info:
            small.estimator(schema=draft, pay_for_discovery=True).plan()
        refusals.append((repr(draft), str(info.value)))
    assert refusals[0] == refusals[1]
    assert 'confirmed = ["kind"]' in refusals[0][1]
    confirmed = drafts[0].confirm(facts=["kind"])
    plan = small.estimator(schema=confirmed, pay_for_discovery=True).plan()
    assert plan.releases[0].purpose == "bounds of age"


def test_or_is_forgotten_and_discovered_for_a_price(tmp_path, untrained):
    table = small.frame(400)[["age", "gain", "city", "sex"]]
    table.loc[0, "gain"] = 123_456.789
    table.to_csv(tmp_path / "t.csv", index=False)
    draft = draft_schema(tmp_path / "t.csv").confirm(facts=["kind"])
    estimator = small.estimator(schema=draft, pay_for_discovery=True, num_records=400)
    model = estimator.fit(tmp_path / "t.csv", progress=False)
    assert model.plan == estimator.plan()
    paid = [entry.purpose for entry in model.ledger.entries]
    assert paid[:4] == ["values of city", "values of sex", "bounds of age", "bounds of gain"]
    assert set(model.vocabularies) == {"city", "sex"}
    # bounds are powers of two, and one record does not set them
    low, high = model.schema.columns["gain"].low, model.schema.columns["gain"].high
    assert np.log2(high) == round(np.log2(high))
    assert high < 123_456
    assert -1024 <= low < 0


@pytest.mark.parametrize("kind", [{"integer": True}, {"resolution": 0.01}, {}], ids=str)
def test_bounds_that_cannot_be_found_are_as_wide_as_the_grid_bears(kind, untrained):
    schema = vf.Schema(a=vf.Numeric(**kind, nullable=True))
    estimator = small.estimator(schema=schema, budget=vf.Budget(0.05, 1e-5), num_records=3)
    model = estimator.fit(pd.DataFrame({"a": [1.5, -2.25, None]}), progress=False)
    column = model.schema.columns["a"]
    assert column.low <= -(2.0**30)
    assert column.high >= 2.0**30
    sampled = model.sample(50)["a"].dropna()
    assert ((sampled >= column.low) & (sampled <= column.high)).all()


WRONG = {
    "schema": ({"schema": {"a": 1}}, TypeError, "schema must be a vf.Schema"),
    "warm start": ({"warm_start": "cold"}, TypeError, "warm_start must be a number"),
    "share": ({"warm_start": 1.5}, ValueError, "warm_start must be strictly between 0 and 1"),
    "both": ({"batch_size": 3, "sampling_rate": 0.1}, ValueError, "not both"),
    "batch of unknown": (
        {"batch_size": 3, "num_records": None},
        ValueError,
        "batch_size=3 needs num_records",
    ),
    "delta": ({"budget": vf.Budget(1.0, 0.0)}, ValueError, "delta must be positive"),
    "steps": ({"steps": -1}, ValueError, "steps"),
    "hidden": ({"hidden": (0,)}, ValueError, "hidden must be at least 1"),
    "clip": ({"clip_norm": 0.0}, ValueError, "clip_norm"),
    "seed": ({"seed": "x"}, TypeError, "seed must be a whole number"),
}


@pytest.mark.parametrize(("change", "error", "message"), WRONG.values(), ids=WRONG.keys())
def test_settings_that_cannot_be_are_refused(change, error, message):
    with pytest.raises(error, match=message):
        small.estimator(**change)


def test_the_seed_is_not_shown_and_is_an_assumption():
    estimator = small.estimator(seed=987_654)
    assert "987" not in repr(estimator)
    assert Seeded() in estimator.plan().ledger.assumptions
    assert "987" not in json.dumps(codec.plain(estimator.plan()))
