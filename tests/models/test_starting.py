"""Fits with every kind of start: what they pay, what they save, how they go on after a crash."""

import dataclasses
import json
import math
from functools import lru_cache
from pathlib import Path

import jax
import numpy as np
import pytest

import veilflow as vf
from tests.flat import density_flow
from veilflow._core.codec import plain
from veilflow.engine import Checkpoint
from veilflow.flows import GaussianMixture, Histogram, ShapedMixture
from veilflow.models import artifact as artifacts
from veilflow.models import registry
from veilflow.privacy.events import ApproximateDP, Gaussian, NonPrivate, PureDP, Together
from veilflow.privacy.grid_noise import closeness
from veilflow.privacy.guarantees import Sensitive
from veilflow.releases.columns import Columns
from veilflow.releases.grid import Grid
from veilflow.releases.mixture import ExpectationMaximization
from veilflow.releases.plan import SLACK
from veilflow.releases.run import Run
from veilflow.releases.training import PrivateTraining
from veilflow.releases.whitening import Whitening

BUDGET = vf.Budget(epsilon=2.0, delta=1e-5)
OPEN = vf.Budget(epsilon=math.inf, delta=1e-5)
NUM_ROWS = 60

# settings beside those of `make`, and columns; where steps are left out the start is all
FITS = {
    "grid": ({}, 2),
    "grid and flow": ({"start": "grid", "steps": 2}, 2),
    "columns": ({"steps": 2, "num_components": 2}, 4),
    "columns, planned base": ({"steps": 2}, 4),
    "columns alone": ({"start": "columns", "steps": 0}, 4),
    "ball alone": ({"row_norm": 2.0, "steps": 0}, 3),
    "actnorm alone": ({"start": "actnorm", "steps": 0}, 2),
    "columns, normal": ({"start": "columns", "base": "normal", "steps": 0}, 2),
    "nothing": ({"start": "none", "steps": 0}, 3),
    "open grid": ({"budget": OPEN}, 2),
    "open columns": ({"budget": OPEN, "steps": 2}, 4),
    "open, counted": ({"budget": OPEN, "start": "none", "steps": 0, "num_records": None}, 2),
}
every = pytest.mark.parametrize("name", FITS)
private = pytest.mark.parametrize("name", [name for name in FITS if not name.startswith("open")])
without = pytest.mark.parametrize("name", [name for name in FITS if name.startswith("open")])
pytestmark = pytest.mark.filterwarnings("ignore::veilflow.NotPrivateWarning")


def make(name: str, **changes) -> vf.DensityFlow:
    settings = {
        "budget": BUDGET,
        "bounds": (-1, 1),
        "num_records": NUM_ROWS,
        "seed": 7,
        **FITS[name][0],
        **changes,
    }
    flow = {"flow": vf.maf(blocks=1, hidden=(3,))}
    if settings.get("steps"):
        settings = {**flow, "batch_size": 20, **settings}
    elif settings.get("start") == "actnorm":
        settings = {**flow, **settings}
    if "row_norm" in settings:
        settings["bounds"] = None
    return density_flow(**settings)


def rows_of(name: str) -> np.ndarray:
    rng = np.random.default_rng(3)
    rows = 0.4 * rng.normal(size=(NUM_ROWS, FITS[name][1])) + 0.3
    rows[-1] = 1e30  # beyond all bounds, as the first is on them
    rows[0] = 1.0
    return rows


@lru_cache
def fitted(name: str) -> vf.FittedDensityFlow:
    return make(name).fit(rows_of(name), progress=False)


def arrays(model: vf.FittedDensityFlow) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(model.flow)]


# -- what was paid ---------------------------------------------------------------------------------


@pytest.mark.few(2)
@private
def test_the_guarantee_is_within_the_budget_and_recomputes_from_the_ledger(name):
    model = fitted(name)
    again = vf.Ledger.from_json(json.loads(json.dumps(model.ledger.to_json())))
    assert again.epsilon(delta=BUDGET.delta) == pytest.approx(model.guarantee.epsilon, rel=1e-9)
    assert model.guarantee.epsilon <= BUDGET.epsilon
    assert (model.guarantee.epsilon == 0) == (name == "nothing")


STARTS = {
    "grid": ["grid"],
    "columns": ["histograms of columns", "moments"],
    "whitening": ["moments"],
    "actnorm": ["scales and shifts"],
    "none": [],
}


@pytest.mark.few(4)
@every
def test_the_ledger_has_an_entry_for_each_release_of_the_start_and_it_is_that_of_the_plan(name):
    model, plan = fitted(name), make(name).plan(FITS[name][1])
    mixed = ["mixture"] if isinstance(model.flow.base, GaussianMixture | ShapedMixture) else []
    counted = ["number of records"] if name == "open, counted" else []
    trained = ["training"] if make(name).training.steps else []
    start = STARTS[plan.start][: 1 if mixed else None]  # EM finds the moments by itself
    purposes = [*counted, *start, *mixed, *trained]
    found = [(e.purpose, e.event) for e in model.ledger.entries if e.purpose != SLACK]
    paid = [one for one in plan.releases if one.event is not None]
    assert found == [(one.purpose, one.event) for one in paid]
    assert [purpose for purpose, _ in found] == purposes
    private = {"grid": PureDP, "histograms of columns": Gaussian, "moments": Together}
    for purpose, event in found:
        if name.startswith("open"):
            assert event == NonPrivate() or set(event.events) == {NonPrivate()}
        elif purpose in private:
            assert isinstance(event, private[purpose])


@pytest.mark.few(5)
@every
def test_a_fit_spends_what_was_foretold_without_rows(name):
    plan = make(name).plan(FITS[name][1])
    assert plan == fitted(name).plan
    assert plan.ledger == fitted(name).ledger


def slack_of(plan) -> ApproximateDP:
    (slack,) = [entry.event for entry in plan.ledger.entries if entry.purpose == SLACK]
    return slack


@pytest.mark.parametrize("name", ["columns, planned base", "ball alone"])
def test_a_fit_pays_for_every_number_that_gets_noise(name):
    dim = FITS[name][1]
    plan = make(name).plan(dim)
    moments = dim + dim * (dim + 1) // 2
    draws = {Whitening: 3 * moments, Columns: dim * 512}
    for kind, number in draws.items():
        release = plan.release(kind)
        assert release is None or release.num_draws == number
    assert plan.release(ExpectationMaximization).num_draws >= 24 * (1 + moments)
    training = plan.release(PrivateTraining)
    if training is not None:
        assert training.num_draws == 2 * (plan.flow.num_parameters(dim) + 1)
    total = sum(release.num_draws for release in plan.releases)
    assert slack_of(fitted(name).plan) == ApproximateDP(0.0, closeness(total))


def test_a_fit_with_a_grid_pays_for_the_noise_of_its_training():
    plan = make("grid and flow").plan(2)
    draws = 2 * (plan.flow.num_parameters(2) + 1)
    assert slack_of(plan) == ApproximateDP(0.0, closeness(draws))
    assert plan.release(Grid).epsilon == pytest.approx(0.8 * BUDGET.epsilon)


def test_noise_that_costs_more_than_delta_is_refused_with_its_reason():
    estimator = make("columns", budget=vf.Budget(2.0, 1e-20))
    with pytest.raises(vf.BudgetError, match=r"the noise alone.* needs a delta of .* has 1e-20"):
        estimator.fit(rows_of("columns"), progress=False)


@pytest.mark.parametrize("name", ["actnorm alone"])
def test_noise_without_a_grid_is_refused_before_a_row_is_read(name, monkeypatch):
    with pytest.raises(vf.BudgetError, match="there is no grid of whole numbers"):
        make(name, budget=vf.Budget(1e-7, 1e-9)).plan(FITS[name][1]).checked()
    monkeypatch.setattr(Sensitive, "open", lambda self: pytest.fail("a row was read"))
    with pytest.raises(vf.BudgetError, match="there is no grid of whole numbers"):
        make(name, budget=vf.Budget(1e-7, 1e-9)).fit(rows_of(name), progress=False)


def test_a_grid_alone_rests_on_no_assumption_of_float_noise():
    declared = "bounds and the number of records were declared, not read from the records"
    assert list(map(str, fitted("grid").guarantee.assumptions)) == [declared]
    assert len(fitted("grid and flow").guarantee.assumptions) == 4
    assert len(fitted("columns alone").guarantee.assumptions) == 3


# -- without privacy -------------------------------------------------------------------------------


@without
def test_a_fit_without_privacy_says_so_wherever_it_can(name):
    model = fitted(name)
    assert model.guarantee.epsilon == math.inf
    assert str(model.guarantee).startswith("no privacy")
    assert "no privacy" in repr(model)
    events = [
        event for e in model.ledger.entries for event in getattr(e.event, "events", (e.event,))
    ]
    assert set(events) == {NonPrivate()}
    assert vf.Ledger.from_json(model.ledger.to_json()).epsilon(delta=0.5) == math.inf
    training = model.plan.release(PrivateTraining)
    assert training is None or training.noise_multiplier == 0
    assert training is None or training.plan(NUM_ROWS).private is False


@without
def test_a_finite_claim_about_it_is_neither_saved_nor_read(name, tmp_path, monkeypatch):
    whole = fitted(name).to_artifact()
    lie = dataclasses.replace(whole, guarantee=dataclasses.replace(whole.guarantee, epsilon=1.0))
    with pytest.raises(vf.ArtifactError, match=r"without privacy.*finite epsilon"):
        artifacts.save(lie, tmp_path / "lie.veil")
    with monkeypatch.context() as patch:
        patch.setattr(artifacts, "check", lambda artifact: None)
        artifacts.save(lie, tmp_path / "lie.veil")
    with pytest.raises(vf.ArtifactError, match=r"without privacy.*finite epsilon"):
        vf.load(tmp_path / "lie.veil")


def test_a_start_without_privacy_is_the_one_of_the_rows():
    """No noise at all: the next fit of another seed has the same marginals."""
    other = make("open columns", steps=0, start="columns", seed=8)
    one = other.fit(rows_of("open columns"), progress=False).flow.bijection.bijections
    two = fitted("open columns").flow.bijection.bijections
    for a, b in zip(one[-2:], two[-2:], strict=True):
        jax.tree.map(np.testing.assert_array_equal, a, b)


# -- the model -------------------------------------------------------------------------------------


@every
def test_a_file_gives_the_same_model_back(name, tmp_path: Path):
    model = fitted(name)
    model.save(tmp_path / "m.veil")
    again = vf.load(tmp_path / "m.veil")
    for field in ("domain", "columns", "plan", "ledger", "guarantee", "facts", "assembly"):
        assert getattr(again, field) == getattr(model, field), field
    assert jax.tree.structure(again.flow) == jax.tree.structure(model.flow)
    for one, two in zip(arrays(again), arrays(model), strict=True):
        np.testing.assert_array_equal(one, two, strict=True)
    assert json.loads(json.dumps(plain(model.plan))) == plain(again.plan)


@pytest.mark.few(4)
@every
def test_samples_are_inside_the_domain_and_have_a_density(name):
    model = fitted(name)
    rows = model.sample(300, seed=0)
    assert rows.shape == (300, FITS[name][1])
    assert np.isfinite(model.log_prob(rows)).all()
    size = np.linalg.norm(rows, axis=1) if "ball" in name else np.abs(rows)
    assert (size <= (2 if "ball" in name else 1) * (1 + 1e-9)).all()
    assert len(np.unique(rows, axis=0)) > 150


def test_released_bases_are_in_the_model():
    shaped = fitted("columns").flow.base
    assert isinstance(shaped, ShapedMixture)
    assert len(shaped.mixture.means) == 2
    mixture, histogram = fitted("grid").flow.base.bases  # type: ignore[attr-defined]
    assert isinstance(mixture, GaussianMixture)
    assert isinstance(histogram, Histogram)
    # training did not touch it
    assert fitted("grid and flow").assembly.bits == histogram.bits


def test_an_actnorm_that_was_paid_for_is_kept_without_training():
    rows = rows_of("actnorm alone")
    model = make("actnorm alone", budget=vf.Budget(50.0, 1e-5)).fit(rows, progress=False)
    assert model.assembly.architecture.actnorm is True
    spread = model.sample(4000, seed=0).std(axis=0)
    np.testing.assert_allclose(spread, np.clip(rows, -1, 1).std(axis=0), rtol=0.3)


@pytest.mark.parametrize("name", ["grid", "columns alone", "ball alone"])
def test_rows_reach_a_start_only_inside_the_domain(name, monkeypatch):
    seen, pay = [], Run.pay

    def spy(self, release, query):
        if query.records is not None:
            seen.append((release, query.records.open()))
        return pay(self, release, query)

    monkeypatch.setattr(Run, "pay", spy)
    model = make(name).fit(rows_of(name), progress=False)
    (release, values), *_ = seen
    border = model.domain.border
    assert isinstance(
        release, {"ball alone": ExpectationMaximization, "grid": Grid}.get(name, Columns)
    )
    assert getattr(release, "border", border) == border
    assert values.dtype == np.float32
    assert np.abs(values).max() <= border * (1 + 1e-6)
    radius = getattr(release, "radius", border * values.shape[1] ** 0.5)
    assert np.linalg.norm(values, axis=1).max() <= radius * (1 + 1e-6)
    assert len(values) == NUM_ROWS


def test_seeds_repeat_a_fit_and_other_seeds_do_not():
    for name in ("columns alone", "actnorm alone"):
        same = make(name).fit(rows_of(name), progress=False)
        other = make(name, seed=8).fit(rows_of(name), progress=False)
        for one, two in zip(arrays(same), arrays(fitted(name)), strict=True):
            np.testing.assert_array_equal(one, two)
        assert any(
            not np.array_equal(a, b) for a, b in zip(arrays(same), arrays(other), strict=True)
        )


# -- going on after a crash ------------------------------------------------------------------------


class Crash(Exception):
    """In place of a kill."""


@pytest.fixture
def crashed(tmp_path, monkeypatch):
    """From a name to the checkpoint of that fit, left after one step."""

    def run(name: str) -> Path:
        path = tmp_path / "run.checkpoint"
        save = Checkpoint.save

        def save_and_stop(self, *args, **kwargs):
            save(self, *args, **kwargs)
            raise Crash

        with monkeypatch.context() as patch:
            patch.setitem(Checkpoint.__init__.__kwdefaults__, "seconds", 0.0)
            patch.setattr(Checkpoint, "save", save_and_stop)
            with pytest.raises(Crash):
                make(name).fit(rows_of(name), progress=False, checkpoint=path)
        saved = Checkpoint(path).read()
        assert saved is not None
        assert saved.step == 1
        return path

    return run


def test_a_fit_goes_on_to_the_very_same_model(crashed, monkeypatch):
    """Its histograms, its moments and its mixture are those that were written down."""
    name = "columns"
    path = crashed(name)
    for kind in (Columns, Whitening, ExpectationMaximization):
        monkeypatch.setattr(kind, "run", lambda *_, **__: pytest.fail("a release was made again"))
    again = make(name).fit(rows_of(name), progress=False, checkpoint=path)
    for one, two in zip(arrays(again), arrays(fitted(name)), strict=True):
        np.testing.assert_array_equal(one, two, strict=True)
    assert again.ledger == fitted(name).ledger
    assert not path.exists()


def test_other_rows_are_refused_before_the_noise_of_the_start_is_drawn_for_them(
    crashed, monkeypatch
):
    path = crashed("columns")
    before = path.read_bytes()
    monkeypatch.setattr(Run, "pay", lambda *_, **__: pytest.fail("noise was reused"))
    for change in (lambda x: x[:-1], lambda x: np.concatenate([x, x[:1]]), lambda x: x + 1e-3):
        with pytest.raises(vf.PrivacyError, match="another set of records"):
            make("columns").fit(change(rows_of("columns")), progress=False, checkpoint=path)
    for change in ({"start": "whitening"}, {"seed": 7, "clip_norm": 0.5}, {"steps": 3}):
        with pytest.raises(vf.PrivacyError, match="belongs to other settings"):
            make("columns", **change).fit(rows_of("columns"), progress=False, checkpoint=path)
    assert path.read_bytes() == before


def test_a_run_begun_and_killed_before_its_start_goes_on_with_its_own_noise(tmp_path, monkeypatch):
    path = tmp_path / "run.checkpoint"

    def crash(*_, **__):
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(Run, "pay", crash)
        with pytest.raises(Crash):
            make("columns", seed=None).fit(rows_of("columns"), progress=False, checkpoint=path)
    saved = Checkpoint(path).read()
    assert saved is not None
    secrets, pay = set(), Run.pay

    def spy(self, *args):
        secrets.add(self.secret.reveal())
        return pay(self, *args)

    monkeypatch.setattr(Run, "pay", spy)
    make("columns", seed=None).fit(rows_of("columns"), progress=False, checkpoint=path)
    assert secrets == {saved.secret.reveal()}


@pytest.mark.few(3)
@every
def test_a_fit_killed_after_its_last_release_asks_and_draws_nothing_again(
    name, tmp_path, monkeypatch
):
    """Grids and counts are drawn by the operating system: what was written down is all there is."""
    path, whole, assemble = tmp_path / "run.checkpoint", [], vf.DensityFlow.assemble

    def crash(self, fit):
        whole.append(assemble(self, fit))
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(vf.DensityFlow, "assemble", crash)
        with pytest.raises(Crash):
            make(name, seed=None).fit(rows_of(name), progress=False, checkpoint=path)
    for release in make(name).plan(FITS[name][1]).releases:
        monkeypatch.setattr(type(release), "run", lambda *_, **__: pytest.fail("asked again"))
    again = make(name, seed=None).fit(rows_of(name), progress=False, checkpoint=path)
    assert not path.exists()
    assert again.facts == whole[0].facts
    assert again.plan == whole[0].plan
    for one, two in zip(arrays(again), arrays(whole[0]), strict=True):
        np.testing.assert_array_equal(one, two, strict=True)


def test_a_model_made_of_nothing_is_a_file_without_arrays():
    whole = fitted("nothing").to_artifact()
    assert whole.arrays == {}
    again = registry.from_artifact(whole)
    # a standard normal over coordinates that go to sqrt(3), with the floor under it
    floor = whole.schema["assembly"]["floor"]
    density = (1 - floor) * (2 * math.pi) ** -1.5 + floor * (2 * 3**0.5) ** -3
    found = again.log_prob(np.zeros((1, 3)))[0]
    assert found == pytest.approx(math.log(density) + 1.5 * math.log(3), rel=1e-5)
    assert Together not in {type(e.event) for e in whole.ledger.entries}
