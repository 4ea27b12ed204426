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
from veilflow.engine import Checkpoint
from veilflow.flows import GaussianMixture, Histogram
from veilflow.models import artifact as artifacts
from veilflow.models import density, registry
from veilflow.models.starting import start_coordinates, start_event
from veilflow.privacy.events import NonPrivate, PureDP, Together, TotalVariation
from veilflow.privacy.noise_source import closeness

BUDGET = vf.Budget(epsilon=2.0, delta=1e-5)
OPEN = vf.Budget(epsilon=math.inf, delta=1e-5)
NUM_ROWS = 60

# settings beside those of `make`, and columns; where steps are left out the start is all
FITS = {
    "grid": ({}, 2),
    "grid and flow": ({"start": "grid", "steps": 2}, 2),
    "columns": ({"steps": 2, "num_components": 2}, 4),
    "columns, hardened": ({"steps": 2, "hardened": True}, 4),
    "columns alone": ({"start": "columns", "steps": 0}, 4),
    "ball alone, hardened": ({"row_norm": 2.0, "steps": 0, "hardened": True}, 3),
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
    return vf.DensityFlow(**settings)


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


@private
def test_the_guarantee_is_within_the_budget_and_recomputes_from_the_ledger(name):
    model = fitted(name)
    again = vf.Ledger.from_json(json.loads(json.dumps(model.ledger.to_json())))
    assert again.epsilon(delta=BUDGET.delta) == pytest.approx(model.guarantee.epsilon, rel=1e-9)
    assert model.guarantee.epsilon <= BUDGET.epsilon
    assert (model.guarantee.epsilon == 0) == (name == "nothing")


@every
def test_the_ledger_has_an_entry_for_the_start_and_it_is_that_of_the_recipe(name):
    model, recipe = fitted(name), make(name).recipe(FITS[name][1])
    found = [e.event for e in model.ledger.entries if e.purpose == f"start ({recipe.start})"]
    if recipe.start != "grid":
        assert found == [event for event in [start_event(recipe, None)] if event is not None]
    elif name == "open grid":
        assert found == [NonPrivate()]
    else:
        assert [type(event) for event in found] == [PureDP]
    purposes = [entry.purpose for entry in model.ledger.entries]
    assert ("training" in purposes) == (recipe.steps > 0)


@every
def test_a_fit_spends_what_was_foretold_without_rows(name):
    assert make(name).ledger(FITS[name][1]) == fitted(name).ledger


@pytest.mark.parametrize("name", ["columns, hardened", "ball alone, hardened"])
def test_a_hardened_fit_pays_for_every_number_that_gets_noise(name):
    model, estimator, dim = fitted(name), make(name), FITS[name][1]
    recipe = estimator.recipe(dim)
    (slack,) = [e.event for e in model.ledger.entries if "grid noise" in e.purpose]
    assert isinstance(slack, TotalVariation)
    draws = start_coordinates(recipe, dim)
    draws += recipe.steps * (recipe.architecture.num_parameters(dim) + 1)
    assert slack.distance == closeness(draws)
    assert draws >= {"columns, hardened": 4 * 512 + 3 * 14 + 2 * 40}.get(name, 3 * 9)


@pytest.mark.slow
def test_a_hardened_fit_with_a_grid_pays_for_the_noise_of_its_training():
    estimator = make("grid and flow", hardened=True)
    recipe = estimator.recipe(2)
    counts = density.Counts(records=False, clamped=False)
    ledger = density.settle(recipe, 2, BUDGET, counts=counts, hardened=True).ledger
    (slack,) = [e.event for e in ledger.entries if "grid noise" in e.purpose]
    draws = 2 * (recipe.architecture.num_parameters(2) + 1)
    assert slack == TotalVariation(closeness(draws))


def test_hardened_noise_that_costs_more_than_delta_is_refused_with_its_reason():
    estimator = make("columns, hardened", budget=vf.Budget(40.0, 1e-5))
    with pytest.raises(vf.BudgetError, match=r"hardened fit alone needs a delta of .* has 1e-05"):
        estimator.fit(rows_of("columns, hardened"), progress=False)


def test_a_grid_alone_rests_on_no_assumption_of_float_noise():
    declared = "bounds and the number of records were declared, not read from the records"
    assert fitted("grid").guarantee.assumptions == (declared,)
    assert len(fitted("grid and flow").guarantee.assumptions) == 4
    assert len(fitted("columns alone").guarantee.assumptions) == 4


# -- without privacy -------------------------------------------------------------------------------


@without
def test_a_fit_without_privacy_says_so_wherever_it_can(name):
    model = fitted(name)
    assert model.guarantee.epsilon == math.inf
    assert str(model.guarantee).startswith("(inf, ")
    assert "(inf, " in repr(model)
    events = [
        event for e in model.ledger.entries for event in getattr(e.event, "events", (e.event,))
    ]
    assert set(events) == {NonPrivate()}
    assert vf.Ledger.from_json(model.ledger.to_json()).epsilon(delta=0.5) == math.inf
    plan = model.settings["plan"]
    assert plan is None or (plan["noise_multiplier"] == 0 and plan["private"] is False)


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
    for field in ("domain", "columns", "ledger", "guarantee", "settings"):
        assert getattr(again, field) == getattr(model, field), field
    assert jax.tree.structure(again.flow) == jax.tree.structure(model.flow)
    for one, two in zip(arrays(again), arrays(model), strict=True):
        np.testing.assert_array_equal(one, two, strict=True)
    assert json.loads(json.dumps(model.settings)) == again.settings


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
    assert isinstance(fitted("columns").flow.base, GaussianMixture)
    assert len(fitted("columns").flow.base.means) == 2
    mixture, histogram = fitted("grid").flow.base.bases  # type: ignore[attr-defined]
    assert isinstance(mixture, GaussianMixture)
    assert isinstance(histogram, Histogram)
    # training did not touch it
    assert fitted("grid and flow").settings["assembly"]["bits"] == histogram.bits


def test_an_actnorm_that_was_paid_for_is_kept_without_training():
    rows = rows_of("actnorm alone")
    model = make("actnorm alone", budget=vf.Budget(50.0, 1e-5)).fit(rows, progress=False)
    assert model.settings["assembly"]["architecture"]["actnorm"] is True
    spread = model.sample(4000, seed=0).std(axis=0)
    np.testing.assert_allclose(spread, np.clip(rows, -1, 1).std(axis=0), rtol=0.3)


@pytest.mark.parametrize("name", ["grid", "columns alone", "ball alone, hardened"])
def test_rows_reach_a_start_only_inside_the_domain(name, monkeypatch):
    seen = []
    begin = density.begin

    def spy(recipe, rows, **rest):
        seen.append((rows.open(), rest["border"], rest["radius"]))
        return begin(recipe, rows, **rest)

    monkeypatch.setattr(density, "begin", spy)
    make(name).fit(rows_of(name), progress=False)
    ((values, border, radius),) = seen
    assert values.dtype == np.float32
    assert np.abs(values).max() <= border * (1 + 1e-6)
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


def test_a_fit_goes_on_to_the_very_same_model(crashed):
    """Its marginals, its whitening and its base by EM are made again, of the same noise."""
    name = "columns"
    path = crashed(name)
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
    monkeypatch.setattr(density, "begin", lambda *_, **__: pytest.fail("noise was reused"))
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
        patch.setattr(density, "begin", crash)
        with pytest.raises(Crash):
            make("columns", seed=None).fit(rows_of("columns"), progress=False, checkpoint=path)
    saved = Checkpoint(path).read()
    assert saved is not None
    secrets = []
    begin = density.begin

    def spy(*args, secret, **rest):
        secrets.append(secret.reveal())
        return begin(*args, secret=secret, **rest)

    monkeypatch.setattr(density, "begin", spy)
    make("columns", seed=None).fit(rows_of("columns"), progress=False, checkpoint=path)
    assert secrets == [saved.secret.reveal()]


@pytest.mark.parametrize("name", ["grid", "grid and flow", "columns alone", "nothing"])
def test_where_nothing_could_be_replayed_a_checkpoint_is_refused_before_it_is_written(
    name, tmp_path
):
    path = tmp_path / "run.checkpoint"
    with pytest.raises(ValueError, match="keeps no checkpoint"):
        make(name).fit(rows_of(name), progress=False, checkpoint=path)
    assert not path.exists()


def test_a_model_made_of_nothing_is_a_file_without_arrays():
    whole = fitted("nothing").to_artifact()
    assert whole.arrays == {}
    again = registry.from_artifact(whole)
    # a standard normal over coordinates that go to sqrt(3), with the floor under it
    floor = whole.manifest["assembly"]["floor"]
    density = (1 - floor) * (2 * math.pi) ** -1.5 + floor * (2 * 3**0.5) ** -3
    found = again.log_prob(np.zeros((1, 3)))[0]
    assert found == pytest.approx(math.log(density) + 1.5 * math.log(3), rel=1e-5)
    assert Together not in {type(e.event) for e in whole.ledger.entries}
