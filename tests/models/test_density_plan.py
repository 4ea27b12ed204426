"""The planner: public facts in, a plan out, and no price above the budget."""

import json
import math

import numpy as np
import pytest

import veilflow as vf
from tests.flat import density_flow
from veilflow._core.codec import plain, restored
from veilflow.models.density_plan import DensityPlan
from veilflow.privacy.events import Gaussian, NonPrivate, PureDP, Repeated, Together
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.releases.actnorm import ActNorms
from veilflow.releases.columns import Columns
from veilflow.releases.grid import Grid
from veilflow.releases.mixture import ExpectationMaximization
from veilflow.releases.plan import FitPlan
from veilflow.releases.training import PrivateTraining
from veilflow.releases.whitening import Whitening

BUDGET = vf.Budget(epsilon=1.0, delta=1e-6)
TINY = vf.maf(blocks=1, hidden=(3,))


def estimator(**changes) -> vf.DensityFlow:
    settings = {"budget": BUDGET, "bounds": (0, 1), "num_records": 1000}
    if "row_norm" in changes:
        settings["bounds"] = None
    return density_flow(**{**settings, **changes})


def noises(plan: DensityPlan) -> list[float]:
    """Of all releases before the training, in their order."""
    found = []
    for release in plan.releases:
        if isinstance(release, Columns):
            found.append(release.noise_multiplier)
        elif isinstance(release, Whitening | ActNorms):
            found.extend(release.noise_multipliers)
        elif isinstance(release, ExpectationMaximization):
            found.append(release.noise_multiplier)
    return found


def components(plan: DensityPlan) -> int:
    mixture = plan.release(ExpectationMaximization)
    return 0 if mixture is None else mixture.num_components


@pytest.fixture
def untrained(monkeypatch):
    """Fits do everything but train and look at their own samples, which takes a compiler."""
    monkeypatch.setattr(
        "veilflow.releases.training.train",
        lambda plan, loss_fn, model, records, **_: Released(model, plan.event),
    )
    monkeypatch.setattr("veilflow.models.density_parts._is_sound", lambda flow: True)


# -- what it decides -------------------------------------------------------------------------------


@pytest.mark.few(6)
@pytest.mark.parametrize(
    ("changes", "dim", "start", "trains"),
    [
        ({}, 1, "grid", False),
        ({}, 3, "grid", False),
        ({}, 4, "columns", True),
        ({"base": "normal"}, 2, "columns", True),
        ({"base": "mixture"}, 2, "grid", False),
        ({"base": "mixture"}, 6, "columns", True),
        ({"row_norm": 1.0}, 2, "none", True),
        ({"row_norm": 1.0, "base": "normal"}, 2, "whitening", True),
        ({"row_norm": 1.0, "start": "whitening"}, 2, "whitening", True),
        ({"row_norm": 1.0}, 9, "none", True),
        ({"start": "grid"}, 5, "grid", False),
        ({"start": "grid", "steps": 5}, 2, "grid", True),
        ({"start": "whitening", "steps": 0}, 5, "whitening", False),
        ({"start": "actnorm"}, 2, "actnorm", True),
        ({"start": "none"}, 2, "none", True),
    ],
)
def test_the_start_follows_from_the_columns_and_the_domain(changes, dim, start, trains):
    plan = estimator(**changes).plan(dim)
    assert plan.start == start
    assert (plan.release(PrivateTraining) is not None) == trains
    moments = plan.release(ActNorms if start == "actnorm" else Whitening)
    rounds = 0 if moments is None else len(moments.noise_multipliers)
    if start == "columns":  # EM finds the moments by itself
        assert rounds == (0 if components(plan) else 3)
    else:
        assert rounds == {"grid": 0, "none": 0, "actnorm": 5, "whitening": 3}[start]
    assert (plan.release(Columns) is not None) == (start == "columns")
    assert (plan.release(Grid) is not None) == (start == "grid")


def test_what_the_user_chose_is_kept_and_the_rest_is_not_touched_by_it():
    chosen = {
        "steps": 7,
        "clip_norm": 0.3,
        "learning_rate": 0.5,
        "weight_decay": 0.0,
        "sampling_rate": 0.123,
    }
    free = estimator().plan(5)
    plan = estimator(**chosen, flow=vf.nsf()).plan(5)
    training = plan.release(PrivateTraining).settings
    assert {name: getattr(training, name) for name in chosen} == chosen
    assert plan.flow == vf.nsf()
    assert noises(plan)[0] == noises(free)[0]  # of the marginals; EM takes what is left
    for batch, rate in ((10, 0.01), (10**6, 1.0)):
        assert estimator(batch_size=batch).plan(5).release(PrivateTraining).sampling_rate == rate


@pytest.mark.parametrize("num_records", [300, 20_000, 10**6])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_the_shape_takes_a_small_share_and_the_mixture_takes_the_rest(num_records, epsilon):
    budget = vf.Budget(epsilon=epsilon, delta=1e-7)
    plan = estimator(budget=budget, num_records=num_records).plan(5)
    shares = {purpose: share for purpose, _, share in plan.ledger.shares(budget.delta)}
    # epsilons of parts add up to more than that of the whole, and small parts look larger
    assert 0.05 < shares["training"] < 0.3
    assert shares["mixture"] > 1.5 * shares["training"]
    assert 0.995 * epsilon < plan.guarantee.epsilon <= epsilon


def test_the_steps_of_a_shape_are_longer_where_noise_is_less():
    rates = [
        estimator(num_records=num).plan(5).release(PrivateTraining).settings.learning_rate
        for num in (1000, 30_000, 100_000, 10**8)
    ]
    assert rates == sorted(rates)
    assert rates[0] < rates[1] < rates[2] <= rates[3] < 0.1


def test_nothing_of_a_training_is_left_open():
    plan = estimator().plan(5)
    training = plan.release(PrivateTraining).settings
    assert training.batch_size is None  # a rate says it
    for name in ("steps", "sampling_rate", "clip_norm", "optimizer", "learning_rate"):
        assert getattr(training, name) is not None, name
    assert training.ema_decay == 0.99


@pytest.mark.few(4)
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
    assert (components(estimator(**changes).plan(5)) > 0) == by_em
    if by_em:
        assert components(estimator(**changes, num_components=3).plan(5)) == 3


def test_actnorms_are_built_where_they_are_to_be_set():
    assert estimator(start="actnorm").plan(4).flow.actnorm
    assert not estimator(start="columns").plan(4).flow.actnorm


@pytest.mark.few(12)
@pytest.mark.parametrize("num_records", [None, 1, 30, 1000, 10**6, 10**9])
@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 100.0, math.inf])
@pytest.mark.parametrize("dim", [1, 3, 4, 20])
def test_every_number_of_a_plan_can_be_used(num_records, epsilon, dim, monkeypatch):
    # what is left for the training is another matter, and takes long to find
    monkeypatch.setattr(PrivateTraining, "priced", lambda self, budget, others: self)
    plan = estimator(budget=vf.Budget(epsilon, 1e-6), num_records=num_records).plan(dim)
    training, grid = plan.release(PrivateTraining), plan.release(Grid)
    assert training is None or 0 < training.sampling_rate <= 1
    assert grid is None or 1 <= grid.bits <= 21
    assert (training is None) == (grid is not None) == (dim <= 3)
    assert all(math.isfinite(noise) for noise in noises(plan))
    assert all((noise > 0) == (epsilon < math.inf) for noise in noises(plan))
    assert bool(noises(plan)) == (dim > 3)


@pytest.mark.parametrize("dim", range(1, 21))
def test_a_grid_stays_small_however_much_there_is_to_spend(dim):
    rich = estimator(start="grid", num_records=10**9, budget=vf.Budget(50.0, 1e-12))
    assert rich.plan(dim).release(Grid).bits * dim <= 21


def test_a_grid_over_too_many_columns_is_refused_before_a_row_is_seen():
    with pytest.raises(ValueError, match=r"a grid over 30 columns would have more than 2\^20"):
        estimator(start="grid").fit(np.zeros((5, 30)), progress=False)


@pytest.mark.parametrize("base", ["normal", "mixture"])
def test_more_to_spend_is_less_noise(base):
    rounds = [
        noises(estimator(budget=vf.Budget(epsilon, 1e-6), base=base).plan(5))
        for epsilon in (0.1, 1.0, 10.0)
    ]
    assert (np.diff(rounds, axis=0) < 0).all()


# -- public facts only -----------------------------------------------------------------------------


def test_a_plan_needs_no_rows_and_is_the_one_a_fit_follows(untrained):
    tiny = estimator(flow=TINY, steps=2, num_records=None, budget=vf.Budget(20.0, 1e-6))
    before = tiny.plan(4)
    rng = np.random.default_rng(0)
    for rows in (np.full((3, 4), 0.5), rng.uniform(size=(700, 4))):
        assert tiny.fit(rows, progress=False).plan == before
    assert tiny.plan(4) == before
    assert restored(FitPlan, json.loads(json.dumps(plain(before)))) == before


def test_bounds_for_every_column_say_how_many_there_are():
    many = estimator(bounds=([0, 0, 0, 0], [1, 1, 1, 1]))
    assert many.plan() == many.plan(4)
    with pytest.raises(ValueError, match="declared for 4 columns"):
        many.plan(3)
    with pytest.raises(ValueError, match="give dim, the number of columns"):
        estimator().plan()


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("changes", "dim"),
    [
        ({"count_clamped": True, "num_records": None}, 2),
        ({"count_clamped": True, "num_records": None, "steps": 1}, 4),
        ({"start": "actnorm", "steps": 1}, 2),
        ({"row_norm": 1.0, "steps": 1}, 2),
        ({"budget": vf.Budget(math.inf, 1e-6), "steps": 1}, 4),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::veilflow.NotPrivateWarning")
def test_every_price_is_settled_before_a_row_is_looked_at(changes, dim, untrained, monkeypatch):
    settled, check = [], FitPlan.checked
    look, see = Sensitive.open, Sensitive.map

    def note(self):
        settled.append(check(self))
        return settled[-1]

    def opened(self):
        assert settled, "rows were looked at too early"
        return look(self)

    def mapped(self, *args, **kwargs):
        assert settled, "rows were looked at too early"
        return see(self, *args, **kwargs)

    monkeypatch.setattr(FitPlan, "checked", note)
    monkeypatch.setattr(Sensitive, "open", opened)
    monkeypatch.setattr(Sensitive, "map", mapped)
    trained = {"flow": TINY} if "steps" in changes else {}
    model = estimator(**trained, **changes).fit(np.full((40, dim), 0.5), progress=False)
    (plan,) = settled
    # what was promised before is what the ledger says after
    assert model.plan == plan
    assert model.ledger == plan.ledger
    assert (plan.release(PrivateTraining) is not None) == ("steps" in changes)


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
    (1.0, 1000, 6, {"count_clamped": True}),
]


@pytest.mark.few(5)
@pytest.mark.parametrize(("epsilon", "num_records", "dim", "changes"), COMBINATIONS, ids=str)
def test_all_of_a_ledger_is_within_the_budget(epsilon, num_records, dim, changes):
    budget = vf.Budget(epsilon, 0.1 / num_records)
    made = estimator(**{"budget": budget, "num_records": num_records, **changes})
    plan = made.plan(dim).checked()
    again = vf.Ledger.from_json(json.loads(json.dumps(plan.ledger.to_json())))
    assert again.epsilon(delta=budget.delta) <= epsilon * (1 + 1e-9)
    if plan.release(PrivateTraining) or plan.start == "grid":
        assert again.epsilon(delta=budget.delta) > 0.97 * epsilon  # and nothing is left lying


def test_the_events_of_a_start_say_every_release_of_it():
    plan = estimator(start="columns", base="normal", steps=0).plan(5)
    columns, moments = plan.releases
    assert columns.event == Gaussian(columns.noise_multiplier)
    assert moments.event == Together(tuple(map(Gaussian, moments.noise_multipliers)))
    assert (columns.num_draws, moments.num_draws) == (5 * 512, 3 * (5 + 15))
    (moments,) = estimator(row_norm=1.0, base="normal", steps=0).plan(5).releases
    assert moments.event == Together(tuple(map(Gaussian, moments.noise_multipliers)))
    assert moments.num_draws == 3 * (5 + 15)
    mixture, rehearsal = estimator(row_norm=1.0, num_components=1, steps=0).plan(5).releases
    assert rehearsal.event is None
    assert mixture.event == Repeated(mixture.steps, Gaussian(mixture.noise_multiplier))
    assert mixture.num_draws == mixture.steps * (1 + 5 + 15)
    (scales,) = estimator(start="actnorm", flow=vf.maf(blocks=4), steps=0).plan(5).releases
    assert scales.event == Together(tuple(map(Gaussian, scales.noise_multipliers)))
    assert scales.num_draws == 4 * 2 * 5
    (grid,) = estimator(start="grid").plan(2).releases
    assert grid.event == PureDP(grid.epsilon)
    assert grid.num_draws == 0
    assert estimator(start="none", steps=0).plan(5).releases == ()
    free = estimator(budget=vf.Budget(math.inf, 1e-6), start="columns", steps=0).plan(5)
    assert [one.event for one in free.releases] == [NonPrivate(), Together((NonPrivate(),) * 3)]
    (grid,) = estimator(budget=vf.Budget(math.inf, 1e-6), start="grid").plan(2).releases
    assert grid.event == NonPrivate()


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_without_training_the_mixture_takes_what_is_left(epsilon):
    budget = vf.Budget(epsilon=epsilon, delta=1e-6)
    flow = vf.DensityFlow(
        budget=budget, row_norm=1.0, num_records=20_000, training=vf.Training(steps=0)
    )
    assert flow.plan(10).guarantee.epsilon == pytest.approx(epsilon, rel=2e-3)
