"""The planner: public facts in, a recipe out, and no price above the budget."""

import dataclasses
import json
import math

import numpy as np
import pytest

import veilflow as vf
from veilflow.models import density, planner, pricing
from veilflow.models.starting import start_coordinates, start_event
from veilflow.privacy.events import Gaussian, NonPrivate, PureDP, Repeated, Together
from veilflow.privacy.guarantees import Released, Sensitive

BUDGET = vf.Budget(epsilon=1.0, delta=1e-6)
TINY = vf.maf(blocks=1, hidden=(3,))


def estimator(**changes) -> vf.DensityFlow:
    settings = {"budget": BUDGET, "bounds": (0, 1), "num_records": 1000}
    if "row_norm" in changes:
        settings["bounds"] = None
    return vf.DensityFlow(**{**settings, **changes})


@pytest.fixture
def untrained(monkeypatch):
    """Fits do everything but train and look at their own samples, which takes a compiler."""
    monkeypatch.setattr(
        "veilflow.models.density.train",
        lambda plan, loss_fn, model, records, **_: Released(model, plan.event),
    )
    monkeypatch.setattr(vf.FittedDensityFlow, "sample", lambda self, n: np.zeros((n, self.dim)))
    monkeypatch.setattr(vf.FittedDensityFlow, "log_prob", lambda self, rows: np.zeros(len(rows)))


# -- what it decides -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "dim", "start", "trains"),
    [
        ({}, 1, "grid", False),
        ({}, 3, "grid", False),
        ({}, 4, "columns", True),
        ({"base": "normal"}, 2, "columns", True),
        ({"base": "mixture"}, 2, "grid", False),
        ({"base": "mixture"}, 6, "columns", True),
        ({"row_norm": 1.0}, 2, "whitening", True),
        ({"row_norm": 1.0}, 9, "whitening", True),
        ({"start": "grid"}, 5, "grid", False),
        ({"start": "grid", "steps": 5}, 2, "grid", True),
        ({"start": "whitening", "steps": 0}, 5, "whitening", False),
        ({"start": "actnorm"}, 2, "actnorm", True),
        ({"start": "none"}, 2, "none", True),
    ],
)
def test_the_start_follows_from_the_columns_and_the_domain(changes, dim, start, trains):
    recipe = estimator(**changes).recipe(dim)
    assert recipe.start == start
    assert (recipe.steps > 0) == trains
    assert len(recipe.whitening_noise) == {"grid": 0, "none": 0, "actnorm": 5}.get(start, 3)


def test_what_the_user_chose_is_kept_and_the_rest_is_not_touched_by_it():
    chosen = {
        "steps": 7,
        "clip_norm": 0.3,
        "learning_rate": 0.5,
        "weight_decay": 0.0,
    }
    free = estimator().recipe(5)
    recipe = estimator(**chosen, flow=vf.nsf(), sampling_rate=0.123).recipe(5)
    assert {name: getattr(recipe, name) for name in chosen} == chosen
    assert recipe.architecture == vf.nsf()
    assert recipe.sampling_rate == 0.123
    assert recipe.whitening_noise == free.whitening_noise
    assert recipe.marginal_noise == free.marginal_noise
    assert estimator(batch_size=10).recipe(5).sampling_rate == 0.01
    assert estimator(batch_size=10**6).recipe(5).sampling_rate == 1.0


@pytest.mark.parametrize(
    ("changes", "by_em"),
    [
        ({}, True),
        ({"row_norm": 1.0}, True),
        ({"start": "whitening"}, True),
        ({"base": "normal"}, False),
        ({"start": "actnorm"}, False),
        ({"start": "none"}, False),
        ({"start": "none", "base": "mixture"}, True),
        ({"start": "grid"}, False),
        ({"start": "grid", "base": "mixture"}, False),
        ({"budget": vf.Budget(math.inf, 1e-6)}, False),
        ({"budget": vf.Budget(math.inf, 1e-6), "base": "mixture"}, True),
    ],
    ids=str,
)
def test_a_mixture_by_em_is_the_base_where_it_fits(changes, by_em):
    recipe = estimator(**changes).recipe(5)
    assert (recipe.components > 0) == by_em == (len(recipe.mixture_noise) > 0)
    if by_em:
        assert estimator(**changes, num_components=3).recipe(5).components == 3


def test_actnorms_are_built_where_they_are_to_be_set():
    assert estimator(start="actnorm").recipe(4).architecture.actnorm
    assert not estimator(start="columns").recipe(4).architecture.actnorm


@pytest.mark.parametrize("num_records", [None, 1, 30, 1000, 10**6, 10**9])
@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 100.0, math.inf])
@pytest.mark.parametrize("dim", [1, 3, 4, 20])
def test_every_number_of_a_recipe_can_be_used(num_records, epsilon, dim):
    recipe = estimator(budget=vf.Budget(epsilon, 1e-6), num_records=num_records).recipe(dim)
    assert 0 < recipe.sampling_rate <= 1
    assert 1 <= recipe.grid_bits <= 21
    noises = (recipe.marginal_noise, *recipe.whitening_noise)
    assert all(math.isfinite(noise) for noise in noises)
    assert all((noise > 0) == (epsilon < math.inf) for noise in noises)


@pytest.mark.parametrize("dim", range(1, 21))
def test_a_grid_stays_small_however_much_there_is_to_spend(dim):
    rich = estimator(start="grid", num_records=10**9, budget=vf.Budget(50.0, 1e-12))
    assert rich.recipe(dim).grid_bits * dim <= 21


def test_a_grid_over_too_many_columns_is_refused_before_a_row_is_seen():
    with pytest.raises(ValueError, match=r"a grid over 30 columns would have more than 2\^20"):
        estimator(start="grid").fit(np.zeros((5, 30)), progress=False)


def test_more_to_spend_is_less_noise():
    noises = [
        estimator(budget=vf.Budget(epsilon, 1e-6)).recipe(5).whitening_noise
        for epsilon in (0.1, 1.0, 10.0)
    ]
    assert (np.diff(noises, axis=0) < 0).all()


# -- public facts only -----------------------------------------------------------------------------


def test_a_recipe_needs_no_rows_and_is_the_one_a_fit_follows(untrained):
    tiny = estimator(flow=TINY, steps=2, num_records=None, budget=vf.Budget(20.0, 1e-6))
    before = tiny.recipe(4)
    rng = np.random.default_rng(0)
    for rows in (np.full((3, 4), 0.5), rng.uniform(size=(700, 4))):
        model = tiny.fit(rows, progress=False)
        settings = json.loads(json.dumps(model.settings))
        assert settings["recipe"] == json.loads(json.dumps(before.to_json()))
        assert settings["plan"]["steps"] == before.steps
        assert settings["plan"]["sampling_rate"] == before.sampling_rate
        assert settings["plan"]["clipping"]["clip_norm"] == before.clip_norm
    assert tiny.recipe(4) == before
    assert set(before.to_json()) == {field.name for field in dataclasses.fields(planner.Recipe)}


@pytest.mark.parametrize(
    ("changes", "dim"),
    [
        ({"count_clamped": True, "num_records": None}, 2),
        ({"count_clamped": True, "num_records": None, "steps": 1, "hardened": True}, 4),
        ({"start": "actnorm", "steps": 1}, 2),
        ({"row_norm": 1.0, "steps": 1}, 2),
        ({"budget": vf.Budget(math.inf, 1e-6), "steps": 1}, 4),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::veilflow.NotPrivateWarning")
def test_every_price_is_settled_before_a_row_is_looked_at(changes, dim, untrained, monkeypatch):
    settled = []
    look, see = Sensitive.open, Sensitive.map

    def note(*args, **kwargs):
        settled.append(pricing.settle(*args, **kwargs))
        return settled[-1]

    def opened(self):
        assert settled, "rows were looked at too early"
        return look(self)

    def mapped(self, *args, **kwargs):
        assert settled, "rows were looked at too early"
        return see(self, *args, **kwargs)

    monkeypatch.setattr(density, "settle", note)
    monkeypatch.setattr(Sensitive, "open", opened)
    monkeypatch.setattr(Sensitive, "map", mapped)
    trained = {"flow": TINY} if "steps" in changes else {}
    model = estimator(**trained, **changes).fit(np.full((40, dim), 0.5), progress=False)
    (price,) = settled
    # what was promised before is what the ledger says after, up to the training itself
    paid = [e for e in model.ledger.entries if e.purpose != "training"]
    assert tuple(paid) == price.ledger.entries
    plan = model.settings["plan"]
    assert (plan is None) == (price.noise_multiplier == 0 and "steps" not in changes)
    if plan is not None:
        assert plan["noise_multiplier"] == price.noise_multiplier


# -- the budget ------------------------------------------------------------------------------------

COMBINATIONS = [
    (0.05, 200, 2, {}),
    (3.0, 10**6, 3, {"num_records": None, "count_clamped": True}),
    (0.1, 500, 5, {}),
    (1.0, 10_000, 12, {"num_records": None, "count_clamped": True}),
    (10.0, 10**6, 4, {}),
    (0.5, 3000, 8, {"row_norm": 1.0, "steps": 0, "num_records": None}),
    (2.0, 1000, 2, {"start": "grid", "steps": 100}),
    (1.0, 100, 3, {"start": "actnorm", "flow": vf.maf(blocks=12)}),
    (1.0, 1000, 4, {"start": "columns", "steps": 10, "batch_size": 1000}),
    (4.0, 5000, 6, {"base": "mixture", "num_records": None}),
    (1.0, 1000, 6, {"base": "mixture", "start": "none", "steps": 0}),
    (1.0, 1000, 6, {"hardened": True, "count_clamped": True}),
]


@pytest.mark.parametrize(("epsilon", "num_records", "dim", "changes"), COMBINATIONS, ids=str)
def test_all_of_a_ledger_is_within_the_budget(epsilon, num_records, dim, changes):
    budget = vf.Budget(epsilon, 0.1 / num_records)
    made = estimator(**{"budget": budget, "num_records": num_records, **changes})
    recipe = made.recipe(dim)
    counts = pricing.Counts(records=made.num_records is None, clamped=made.count_clamped)
    prices = pricing.settle(recipe, dim, budget, counts=counts, hardened=made.hardened)
    ledger = prices.ledger
    if recipe.steps:
        plan = pricing.training_plan(
            recipe,
            prices,
            budget,
            num_records=num_records,
            ema_decay=None,
            hardened=made.hardened,
        )
        ledger = ledger.spend(plan.event, purpose="training")
    again = vf.Ledger.from_json(json.loads(json.dumps(ledger.to_json())))
    assert again.epsilon(delta=budget.delta) <= epsilon * (1 + 1e-9)
    if recipe.steps or recipe.start == "grid":
        assert again.epsilon(delta=budget.delta) > 0.97 * epsilon  # and nothing is left lying


def test_the_event_of_a_start_says_every_release_of_it():
    recipe = estimator(start="columns", base="normal").recipe(5)
    assert start_event(recipe, None) == Together(
        (Gaussian(recipe.marginal_noise), *map(Gaussian, recipe.whitening_noise))
    )
    assert start_coordinates(recipe, 5) == 5 * 512 + 3 * (5 + 15)
    recipe = estimator(row_norm=1.0, base="normal").recipe(5)
    assert start_event(recipe, None) == Together(tuple(map(Gaussian, recipe.whitening_noise)))
    assert start_coordinates(recipe, 5) == 3 * (5 + 15)
    mixed = estimator(row_norm=1.0, num_components=1).recipe(5)
    rounds, em = start_event(mixed, None).events[:3], start_event(mixed, None).events[3:]
    assert rounds == tuple(map(Gaussian, mixed.whitening_noise))
    assert [event.to_json() for event in em] == [
        Together((Repeated(len(mixed.mixture_noise), Gaussian(mixed.mixture_noise[0])),)).to_json()
    ]
    assert start_coordinates(mixed, 5) == 3 * (5 + 15) + len(mixed.mixture_noise) * (1 + 5 + 15)
    recipe = estimator(start="actnorm", flow=vf.maf(blocks=4)).recipe(5)
    assert start_event(recipe, None) == Together(tuple(map(Gaussian, recipe.whitening_noise)))
    assert start_coordinates(recipe, 5) == 4 * 2 * 5
    recipe = estimator(start="grid").recipe(2)
    assert start_event(recipe, 0.25) == PureDP(0.25)
    assert start_event(recipe, math.inf) == NonPrivate()
    assert start_coordinates(recipe, 2) == 0
    assert start_event(estimator(start="none").recipe(5), None) is None
    recipe = estimator(budget=vf.Budget(math.inf, 1e-6), start="columns").recipe(5)
    assert start_event(recipe, None) == Together((NonPrivate(),) * 4)
