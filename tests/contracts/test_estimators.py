"""One contract, for every estimator there is."""

import dataclasses
import inspect
import os
import re
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest

import veilflow as vf
from tests.contracts.estimator import BUDGET, CANARY, OPEN, WORD
from tests.contracts.registry import (
    ANSWERING_SETTINGS,
    CODE_SETTINGS,
    ESTIMATORS,
    GUIDE_SETTINGS,
    TRAINING_SETTINGS,
    fitted,
)
from tests.contracts.settings import is_plain
from veilflow._core.errors import VeilflowError
from veilflow.privacy.events import Gaussian, Repeated
from veilflow.privacy.guarantees import Sensitive
from veilflow.privacy.ledger import Ledger
from veilflow.releases.count import Count
from veilflow.releases.release import Release
from veilflow.releases.run import Run

NOT_OURS = {"invalid"}
"""Settings that have contracts of their own."""
SETTINGS = {
    **ESTIMATORS,
    "Answering": ANSWERING_SETTINGS,
    "Guide": GUIDE_SETTINGS,
    "Training": TRAINING_SETTINGS,
    "codes": CODE_SETTINGS,
}
every = pytest.mark.parametrize("name", ESTIMATORS)


@pytest.fixture(autouse=True)
def few_records_are_meant():
    """Twelve records are few, and epsilon is infinite in some tests: both are warned of elsewhere."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def test_the_contract_is_for_every_public_estimator():
    public = {name for name in vf.__all__ if hasattr(getattr(vf, name), "fit")}
    assert public | {"LikelihoodDetector"} == set(ESTIMATORS)


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_is_in_the_contract(name):
    taken = set(inspect.signature(getattr(vf, name)).parameters)
    assert set(SETTINGS[name].settings) == taken - NOT_OURS


# -- settings --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SETTINGS)
def test_a_bad_setting_is_refused_where_it_is_given_and_by_its_name(name):
    for setting, about in SETTINGS[name].settings.items():
        for bad in about.kind.bad:
            message = _refusal(SETTINGS[name].make, {**about.beside, setting: bad})
            names = rf"\b{setting}\b|\b{about.called or setting}\b"
            assert re.search(names, message), f"{setting}={bad!r}: {message}"


def _refusal(make: Any, settings: dict[str, Any]) -> str:
    try:
        make(**settings)
    except (ValueError, TypeError) as error:
        return str(error)
    return "(no error)"


@pytest.mark.parametrize("name", SETTINGS)
def test_a_scalar_of_numpy_is_the_same_as_a_number_of_python(name):
    one = SETTINGS[name]
    for setting, about in one.settings.items():
        good = getattr(one.make(), setting) if about.good is None else about.good
        for kind in about.kind.types if good is not None else ():
            plain, given = (one.make(**{**about.beside, setting: x}) for x in (good, kind(good)))
            assert type(getattr(given, setting)) is type(getattr(plain, setting)), (setting, kind)
            assert repr(given) == repr(plain), (setting, kind)
            assert all(is_plain(getattr(given, field.name)) for field in dataclasses.fields(given))


@every
def test_bounds_of_numpy_are_the_same_as_those_of_python(name):
    if "bounds" not in ESTIMATORS[name].settings:
        pytest.skip("has no bounds")
    given = ESTIMATORS[name].make(bounds=np.array([[0, 0], [1, 2]], np.float32))
    assert repr(given) == repr(ESTIMATORS[name].make(bounds=([0, 0], [1, 2])))
    assert is_plain(given.bounds)


# -- prices ----------------------------------------------------------------------------------------


@every
def test_what_is_said_beforehand_is_what_is_spent_to_the_last_digit(name):
    one = ESTIMATORS[name]
    planned, model = one.planned(one.make()), fitted(name)
    assert one.spent(model) == planned
    assert model.guarantee == planned.guarantee(delta=model.guarantee.delta)
    assert planned.unit.value == one.unit


def dearer(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let fits of an estimator plan a release that no budget has room for."""
    one, dear = ESTIMATORS[name], "what nobody planned"
    kind = type(one.make())
    honest = getattr(kind, one.planner)

    def plan(*args: Any, **kwargs: Any) -> Any:
        made = honest(*args, **kwargs)
        more = Count(purpose=dear, epsilon=50.0)
        return dataclasses.replace(made, releases=(*made.releases, more))

    monkeypatch.setattr(kind, one.planner, plan)


@every
def test_a_fit_that_costs_more_than_its_budget_is_refused_before_a_record_is_opened(
    name, monkeypatch
):
    one = ESTIMATORS[name]
    estimator = one.make()
    dearer(name, monkeypatch)

    def opened(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a record was opened")

    monkeypatch.setattr(Sensitive, "open", opened)
    monkeypatch.setattr(Sensitive, "map", opened)
    with pytest.raises(vf.BudgetError, match="all releases together would cost epsilon=5"):
        one.fitted(estimator, *one.data)


@pytest.mark.parametrize("name", [name for name, one in ESTIMATORS.items() if one.counts])
def test_a_declared_number_of_records_is_among_what_the_guarantee_assumes(name):
    one = ESTIMATORS[name]
    for number in (None, 12):
        planned = one.planned(one.make(num_records=number))
        said = [
            s for s in map(str, planned.assumptions) if re.search("number of (records|images)", s)
        ]
        assert bool(said) == (number is not None)
        assert all("declared" in sentence for sentence in said)


def test_a_number_of_records_that_is_declared_to_a_sampler_is_a_declared_one():
    sampler = vf.expm.ZoomSampler(num_records=12)
    planned = ESTIMATORS["ExpMechClassifier"].make(sampler=sampler).plan(2)
    assert planned.num_records == 12
    assert any("number of records were declared" in str(s) for s in planned.ledger.assumptions)


@every
def test_nothing_calls_an_infinite_epsilon_privacy(name):
    one = ESTIMATORS[name]
    if not one.opens:
        if "budget" in one.settings:
            with pytest.raises(ValueError, match="finite"):
                one.make(budget=OPEN)
        return
    guarantee = one.planned(one.make(budget=OPEN)).guarantee(delta=OPEN.delta)
    assert "no privacy" in str(guarantee)
    assert "differential" not in str(guarantee)


# -- fits ------------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("number", [0, 1])
def test_a_fit_on_no_or_one_record_does_what_every_fit_does(name, number):
    one = ESTIMATORS[name]
    model = one.fitted(one.make(), *one.records(number))
    assert model.guarantee == fitted(name).guarantee
    assert type(model) is type(fitted(name))
    for few, many in zip(one.answers(model), one.answers(fitted(name)), strict=True):
        assert np.shape(few) == np.shape(many)


@pytest.mark.parametrize("name", [name for name, one in ESTIMATORS.items() if one.saved])
def test_a_model_that_is_saved_and_loaded_is_the_same(name, tmp_path):
    one, model = ESTIMATORS[name], fitted(name)
    if name == "EnsembleDetector":  # what it spent is in its journal
        answers = vf.Answering(max_queries=4, journal=tmp_path / "journal")
        model = one.fitted(one.make(answers=answers), *one.data)
    model.save(tmp_path / one.saved)
    again = vf.load(tmp_path / one.saved)
    assert (again.ledger, again.guarantee) == (model.ledger, model.guarantee)
    assert repr(again) == repr(model)
    for before, after in zip(one.answers(model), one.answers(again), strict=True):
        np.testing.assert_array_equal(before, after)


LOADING = """
import os, sys
import jax, pandas  # once for all; of veilflow, every child imports what the file needs
import veilflow as vf
for path in sys.argv[1:]:
    if not os.fork():
        print(repr(vf.load(path)), flush=True)
        os._exit(0)
    assert os.wait()[1] == 0, path
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_that_has_imported_no_estimator_reads_every_file(tmp_path):
    files, shown = [], []
    for name, one in ESTIMATORS.items():
        folder = tmp_path / name
        folder.mkdir()
        model = fitted(name)
        if name == "EnsembleDetector":
            answers = vf.Answering(max_queries=4, journal=folder / "journal")
            model = one.fitted(one.make(answers=answers), *one.data)
        model.save(folder / one.saved)
        files.append(str(folder / one.saved))
        shown.append(repr(model))
    command = [sys.executable, "-W", "ignore", "-c", LOADING, *files]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == shown


class Interrupted(Exception):
    """What a test stops a fit by."""


@every
def test_a_fit_executes_the_plan_that_is_given(name):
    one, model = ESTIMATORS[name], fitted(name)
    plan = one.executed(model)
    assert one.fitted(one.make(), *one.data, plan=plan).plan == model.plan
    other = dataclasses.replace(plan, declared=("nothing",))
    with pytest.raises(vf.PrivacyError, match="not the one of this estimator"):
        one.fitted(one.make(), *one.data, plan=other)
    assert "releases" not in str(model.plan)
    assert all(release.purpose in str(model.plan) for release in model.plan.releases)


@every
def test_an_interrupted_fit_goes_on_from_every_release(name, tmp_path, monkeypatch):
    one = ESTIMATORS[name]
    # a paid count would be drawn anew
    given = {**one.seeded, **({"num_records": 12} if one.counts else {})}
    whole = one.fitted(one.make(**given), *one.data)
    releases = one.executed(whole).releases
    # before a release, in it, and when its value is written down
    for place in range(3 * len(releases)):
        path, seen = tmp_path / f"run{place}", []
        with monkeypatch.context() as patched:
            _stopping(patched, place, seen)
            with pytest.raises(Interrupted):
                one.fitted(one.make(**given), *one.data, checkpoint=path)
        assert path.exists()
        with monkeypatch.context() as patched:
            _noting(patched, seen)
            again = one.fitted(one.make(**given), *one.data, checkpoint=path)
        assert not path.exists()
        assert again.plan == whole.plan
        # what was written down before is not asked again
        assert seen == [release.purpose for release in releases[(place + 1) // 3 :]]
        if not one.repeats:
            continue
        for before, after in zip(one.answers(whole), one.answers(again), strict=True):
            np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize(
    "name", [name for name, one in ESTIMATORS.items() if "bounds" in one.settings]
)
def test_a_checkpoint_belongs_to_the_declared_bounds(name, tmp_path, monkeypatch):
    """In other bounds rows have other coordinates: the same noise on them would tell the difference."""
    one, path = ESTIMATORS[name], tmp_path / "run"
    with monkeypatch.context() as patched:
        _stopping(patched, 1, [])
        with pytest.raises(Interrupted):
            one.fitted(one.make(), *one.data, checkpoint=path)
    before = path.read_bytes()
    with pytest.raises(vf.PrivacyError, match="belongs to"):
        one.fitted(one.make(bounds=(0, 1.5)), *one.data, checkpoint=path)
    assert path.read_bytes() == before


def _noting(patched: pytest.MonkeyPatch, seen: list[str]) -> None:
    """Note every release that is run, from now on."""
    seen.clear()
    for kind in _kinds(Release):
        if "run" in vars(kind):
            run = kind.run

            def noted(self: Any, *args: Any, run: Any = run, **known: Any) -> Any:
                seen.append(self.purpose)
                return run(self, *args, **known)

            patched.setattr(kind, "run", noted)


def _stopping(patched: pytest.MonkeyPatch, place: int, seen: list[str]) -> None:
    """Stop a fit before, in or after the release at `place` // 3."""
    pay, note = Run.pay, Run._note

    def paying(self: Any, release: Any, query: Any) -> Any:
        here = self.plan.releases.index(release)
        if here == place // 3 and place % 3 == 0:
            raise Interrupted
        return pay(self, release, query)

    def noting(self: Any, *, paid: str | None = None) -> None:
        note(self, paid=paid)
        if paid is not None:
            here = [release.purpose for release in self.plan.releases].index(paid)
            if here == place // 3 and place % 3 == 1:
                raise Interrupted
        elif len(self._kept) == place // 3 + 1 and place % 3 == 2:
            raise Interrupted

    patched.setattr(Run, "pay", paying)
    patched.setattr(Run, "_note", noting)


def _kinds(kind: Any) -> list[Any]:
    return [kind, *(one for sub in kind.__subclasses__() for one in _kinds(sub))]


@every
def test_no_message_holds_a_cell(name):
    one = ESTIMATORS[name]
    for data in one.hostile:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                one.fitted(one.make(), *data)
                said = ""
            except (ValueError, TypeError, VeilflowError) as error:
                said = str(error)
        for text in (said, *(str(one.message) for one in warned)):
            assert WORD not in text
            assert str(int(CANARY)) not in text.replace(",", "")


# -- what the issue named --------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [0, 2])
@pytest.mark.parametrize("bad", [-1.0, 0.0, "x", float("nan")])
def test_a_posterior_does_not_spend_its_rounds_before_it_refuses_a_clip_norm(bad, steps):
    with pytest.raises((ValueError, TypeError), match="clip_norm must be"):
        ESTIMATORS["FlowPosterior"].make(training=vf.Training(clip_norm=bad, steps=steps))


def test_a_clip_norm_of_a_posterior_without_steps_is_refused_and_not_ignored():
    with pytest.raises(ValueError, match="clip_norm is for steps"):
        ESTIMATORS["FlowPosterior"].make(training=vf.Training(clip_norm=1.0, steps=0))


def test_all_records_in_every_step_cost_what_plain_noise_costs():
    for name in ("TableFlow", "DensityFlow", "ImageFlow"):
        one = ESTIMATORS[name]
        training = vf.Training(steps=2, sampling_rate=1.0)
        planned = one.planned(one.make(training=training, num_records=12))
        (training,) = (e.event for e in planned.entries if e.purpose == "training")
        noise = training.event.event.noise_multiplier
        others = tuple(e for e in planned.entries if e.purpose != "training")
        plain = Ledger(entries=others, unit=planned.unit)
        plain = plain.spend(Repeated(training.times, Gaussian(noise)), purpose="plain")
        found = planned.epsilon(delta=BUDGET.delta)
        assert found == pytest.approx(plain.epsilon(delta=BUDGET.delta), rel=1e-6)
        assert found <= BUDGET.epsilon * (1 + 1e-9)


def test_a_cap_on_trials_needs_a_delta():
    capped = vf.expm.RejectionSampler(num_records=3, max_trials=100)
    make = ESTIMATORS["ExpMechClassifier"].make
    rows, labels = ESTIMATORS["ExpMechClassifier"].data
    with pytest.raises(vf.BudgetError, match="Give a delta above 0"):
        make(budget=vf.Budget(0.5, 0), sampler=capped).fit(rows[:3], labels[:3], progress=False)
    enough = make(
        budget=vf.Budget(0.5, 1e-3), sampler=dataclasses.replace(capped, max_trials=10**4)
    )
    assert enough.plan(2).guarantee.epsilon <= 0.5 * (1 + 1e-9)
