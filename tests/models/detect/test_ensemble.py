"""DP-AD: votes of parts, paid answers, refusals, and a file that says that it is private."""

import dataclasses
import os
import shutil
import threading
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilflow as vf
from veilflow._core import codec
from veilflow.models import artifact as artifacts
from veilflow.models import registry
from veilflow.models.detect import fitted_ensemble
from veilflow.models.detect.counter import InFile, InMemory
from veilflow.models.detect.ensemble_plan import uniform_log_density
from veilflow.models.domain import Ball, Box
from veilflow.privacy.guarantees import Sensitive
from veilflow.releases import answers as answering
from veilflow.releases.answers import Answers
from veilflow.releases.run import Run

RNG = np.random.default_rng(0)
ROWS = RNG.normal(0, 0.1, size=(400, 2))
NORMAL, ODD, OUTSIDE = [0.0, 0.0], [0.9, -0.9], [2.0, 0.0]
BUDGET = vf.Budget(epsilon=40.0, delta=1e-6)
FLOW = {"flow": None, "num_components": None}
"""Settings of parts that learn the default flow."""


def estimator(**settings: Any) -> vf.EnsembleDetector:
    usual: dict[str, Any] = {"budget": BUDGET, "bounds": (-1, 1), "parts": 5, "seed": 1}
    usual |= {"flow": "mixture", "num_components": 1}
    names = vf.Answering.__dataclass_fields__.keys() & settings.keys()
    answers = {name: settings.pop(name) for name in names}
    if answers.get("method") != "sparse_vector":
        answers.setdefault("max_queries", 6)
    return vf.EnsembleDetector(**{**usual, **settings}, answers=vf.Answering(**answers))


@cache
def trained(settings: frozenset[tuple[str, Any]]) -> vf.FittedEnsemble:
    """One fit for all tests with these settings."""
    return estimator(**dict(settings)).fit(ROWS, progress=False)


def fitted(journal: Path | None = None, **settings: Any) -> vf.FittedEnsemble:
    """An ensemble that has answered nothing yet."""
    counter = InMemory() if journal is None else InFile.create(journal)
    return dataclasses.replace(trained(frozenset(settings.items())), counter=counter)


@pytest.fixture
def kept(tmp_path) -> vf.FittedEnsemble:
    return fitted(journal=tmp_path / "queries.journal")


# -- answers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["exponential", "noisy_max"])
def test_answers_are_paid_for_one_by_one_and_refused_at_the_end(method):
    ensemble = fitted(method=method)
    assert ensemble.ledger.entries == ()
    answers = ensemble.query([NORMAL, ODD])
    assert answers.tolist() == [False, True]  # epsilon of 40 over 6: wrong once in 10^6 times
    assert ensemble.spent == 2
    assert ensemble.queries_left == 4
    with pytest.raises(vf.BudgetError, match="5 more would be spent, but 4 of 6 are left"):
        ensemble.query([NORMAL] * 5)
    assert ensemble.spent == 2
    ensemble.query([NORMAL] * 4)
    with pytest.raises(vf.BudgetError, match="0 of 6 are left"):
        ensemble.query([NORMAL])
    assert ensemble.ledger.epsilon(delta=1e-6) == pytest.approx(ensemble.guarantee.epsilon)
    assert ensemble.guarantee.epsilon <= 40.0
    assert ensemble.guarantee == estimator(method=method).plan(2).guarantee
    assert ensemble.ledger == ensemble.plan.ledger


def test_votes_are_counted_behind_the_door():
    ensemble = fitted()
    votes = ensemble.votes([NORMAL, ODD])
    assert isinstance(votes, Sensitive)
    assert votes.open().tolist() == [5, 0]
    assert ensemble.spent == 0
    p = ensemble.response_probability(5)
    assert p == pytest.approx(1 / (1 + np.exp(-2.5 * ensemble.answers.epsilon)))


def test_a_record_changes_the_votes_on_any_row_by_at_most_one():
    grid = np.stack(np.meshgrid(*[np.linspace(-1, 1, 21)] * 2), axis=-1).reshape(-1, 2)
    whole = fitted().votes(grid).open()
    moved = []
    for extra in ([0.99, 0.99], [0.5, -0.5], ROWS[0]):
        more = estimator().fit(np.vstack([ROWS, extra]), progress=False).votes(grid).open()
        moved.append(np.abs(more - whole).max())
    assert max(moved) == 1


def test_a_query_is_written_down_before_it_is_answered(kept, monkeypatch):
    def killed(answers, votes):
        raise KeyboardInterrupt

    monkeypatch.setattr(answering, "odd", killed)
    with pytest.raises(KeyboardInterrupt):
        kept.query([NORMAL, ODD])
    assert kept.spent == 2


def test_no_answer_without_a_journal(kept):
    kept.counter.path.unlink()
    with pytest.raises(vf.PrivacyError, match="is not where it was"):
        kept.query([NORMAL])


def test_rows_outside_the_bounds_are_odd_and_cost_nothing():
    ensemble = fitted()
    assert ensemble.query([OUTSIDE] * 20).all()
    assert ensemble.spent == 0
    assert ensemble.query([OUTSIDE, NORMAL]).tolist() == [True, False]
    assert ensemble.spent == 1


def test_threads_get_no_more_answers_than_are_paid_for(kept):
    answers = []

    def ask():
        try:
            while True:
                answers.extend(kept.query([NORMAL]))
        except vf.BudgetError:
            pass

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 6


def test_a_budget_for_one_query_of_epsilon_1_is_algorithm_2_at_epsilon_1():
    once = estimator(budget=vf.Budget(epsilon=1.0, delta=0.0), max_queries=1)
    assert once.plan(2).answers.epsilon == pytest.approx(1.0)


# -- sparse vector ---------------------------------------------------------------------------------


def test_a_stream_pays_for_anomalies_only_and_ends_with_the_last():
    ensemble = fitted(method="sparse_vector", max_anomalies=2, budget=vf.Budget(400.0, 1e-6))
    assert ensemble.anomalies_left == 2
    assert not ensemble.query([NORMAL] * 50).any()
    assert ensemble.spent == 1  # a search is under way
    assert ensemble.anomalies_left == 2
    assert ensemble.query([OUTSIDE, ODD, NORMAL]).tolist() == [True, True, False]
    assert ensemble.spent == 2
    assert ensemble.anomalies_left == 1
    with pytest.warns(UserWarning, match="ended after 2 answers of this call"):
        answers = ensemble.query([NORMAL, ODD, NORMAL, ODD])
    assert answers.tolist() == [False, True]
    with pytest.raises(vf.BudgetError, match="the stream is over: 2 anomalies were paid for"):
        ensemble.query([NORMAL])
    assert ensemble.queries_left is None
    assert ensemble.ledger.epsilon(delta=1e-6) <= 400.0


def test_a_search_that_a_crash_ended_stays_spent(tmp_path):
    """The noisy threshold of a search is lost with its process: the next one pays for its own."""
    settings = {"method": "sparse_vector", "max_anomalies": 3, "budget": vf.Budget(400.0, 1e-6)}
    ensemble = fitted(**settings, journal=tmp_path / "j")
    ensemble.save(tmp_path / "e.private")
    ensemble.query([NORMAL])
    later = vf.load(tmp_path / "e.private")
    assert later.anomalies_left == 2
    later.query([NORMAL])
    assert later.spent == ensemble.spent == 2
    assert ensemble.query([ODD]).tolist() == [True]


def test_one_threshold_for_all_anomalies_ends_with_its_process(tmp_path):
    settings = {"method": "sparse_vector", "max_anomalies": 3, "renew": False}
    ensemble = fitted(**settings, budget=vf.Budget(100.0, 0.0), journal=tmp_path / "j")
    assert ensemble.answers.epsilon == pytest.approx(100.0, rel=1e-3)
    ensemble.save(tmp_path / "e.private")
    assert ensemble.query([ODD, NORMAL, ODD]).tolist() == [True, False, True]
    assert ensemble.anomalies_left == 1
    assert ensemble.spent == 1
    with pytest.raises(vf.BudgetError, match="a process that ended"):
        vf.load(tmp_path / "e.private").query([NORMAL])
    assert ensemble.query([ODD]).all()
    with pytest.raises(vf.BudgetError, match="the stream is over"):
        ensemble.query([NORMAL])


def test_a_quorum_above_a_half_takes_more_votes():
    ensemble = fitted(
        method="sparse_vector", max_anomalies=2, quorum=0.9, budget=vf.Budget(400.0, 1e-6)
    )
    against = [3, 5]
    for count, odd in zip(against, (False, True), strict=True):
        found = ensemble._stream.answer(Sensitive(np.array([5 - count])), np.array([False]))
        assert found.tolist() == [odd]


# -- data-dependent --------------------------------------------------------------------------------


def test_what_was_asked_costs_less_on_clear_votes_and_stays_behind_the_door():
    ensemble = fitted(method="noisy_max", parts=30, budget=vf.Budget(2.0, 1e-6))
    ensemble.query([NORMAL] * 6)
    found = ensemble.data_dependent_epsilon()
    assert isinstance(found, Sensitive)
    assert 0 < found.open() < 2.0
    assert ensemble.guarantee.epsilon == pytest.approx(2.0, rel=1e-3)
    with pytest.raises(ValueError, match="only noisy_max"):
        fitted().data_dependent_epsilon()


# -- files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("flow", [None, vf.maf(blocks=1, hidden=(4,))], ids=["mixture", "flow"])
def test_an_ensemble_comes_back_with_what_was_spent(tmp_path, flow):
    trained: dict[str, Any] = {"flow": flow, "num_components": None}
    trained["training"] = vf.Training(steps=20, batch_size=16)
    ensemble = fitted(journal=tmp_path / "j", **(trained if flow else {}))
    ensemble.query([NORMAL] * 2)
    ensemble.save(tmp_path / "e.private")
    later = vf.load(tmp_path / "e.private")
    assert isinstance(later, vf.FittedEnsemble)
    assert later.spent == 2
    later.query([NORMAL] * 3)
    assert ensemble.queries_left == later.queries_left == 1
    assert later.guarantee == ensemble.guarantee
    assert later.ledger == ensemble.ledger
    grid = RNG.uniform(-1, 1, size=(50, 2))
    assert np.array_equal(later.votes(grid).open(), ensemble.votes(grid).open())


def test_the_file_says_that_it_is_not_private_and_is_never_a_veil(kept, tmp_path):
    with pytest.raises(ValueError, match="an ensemble is never released"):
        kept.save(tmp_path / "e.VEIL")
    path = tmp_path / "e.private"
    old = os.umask(0)
    try:
        path.write_text("older, and readable by all")
        kept.save(path)
        assert path.stat().st_mode & 0o777 == 0o600
        path.unlink()
        kept.save(path)
        assert path.stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(old)
    whole = artifacts.read(path)
    assert whole.guarantee.epsilon == np.inf
    assert "INTERNAL, NOT PRIVATE" in str(whole.guarantee)
    assert whole.manifest["internal"] == fitted_ensemble.INTERNAL


def test_the_key_of_the_split_is_not_in_the_file(kept, tmp_path):
    from veilflow._core.keys import Secret

    kept.save(tmp_path / "e.private")
    key = Secret.from_seed(1).reveal()
    data = (tmp_path / "e.private").read_bytes() + kept.counter.path.read_bytes()
    assert key not in data
    assert key.hex().encode() not in data


def test_without_a_journal_there_is_no_file(tmp_path):
    with pytest.raises(ValueError, match="the ensemble has no journal"):
        fitted().save(tmp_path / "e.private")
    assert not (tmp_path / "e.private").exists()
    with pytest.raises(ValueError, match="the ensemble has no journal"):
        fitted().with_journal(tmp_path / "j")


def test_a_moved_journal_is_found_again_and_another_is_refused(kept, tmp_path):
    kept.query([NORMAL])
    kept.counter.path.rename(tmp_path / "moved")
    moved = kept.with_journal(tmp_path / "moved")
    assert moved.spent == 1
    other = fitted(journal=tmp_path / "other")
    with pytest.raises(vf.PrivacyError, match="of something else"):
        moved.with_journal(other.counter.path)


def test_a_file_holds_no_path_and_is_moved_with_its_journal(kept, tmp_path):
    folder = tmp_path / "home-of-somebody"
    folder.mkdir()
    ensemble = fitted(journal=folder / "j")
    ensemble.query([NORMAL])
    ensemble.save(folder / "e.private")
    members = zipfile.ZipFile(folder / "e.private")
    texts = [members.read(name) for name in members.namelist()]
    for text in (*texts, (folder / "e.private").read_bytes(), (folder / "j").read_bytes()):
        assert not any(str(part).encode() in text for part in (folder, tmp_path, folder.name))
    there = folder.rename(tmp_path / "moved")
    later = vf.load(there / "e.private")
    assert later.spent == 1
    later.query([NORMAL] * 2)
    (tmp_path / "link").symlink_to(there / "e.private")
    assert vf.load(tmp_path / "link").spent == 3  # a link leads to the file's own folder
    later.save(there / "again.private")
    assert vf.load(there / "again.private").spent == 3


def test_without_its_journal_beside_it_an_ensemble_answers_nothing(kept, tmp_path):
    kept.query([NORMAL] * 2)
    kept.save(tmp_path / "e.private")
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(tmp_path / "e.private", other)
    alone = vf.load(other / "e.private")
    for ask in (lambda: alone.query([NORMAL]), lambda: alone.spent, lambda: alone.ledger):
        with pytest.raises(vf.PrivacyError, match="is not where it was, beside the file"):
            ask()
    assert sorted(path.name for path in other.iterdir()) == ["e.private"]  # none is made anew
    assert alone.with_journal(kept.counter.path).spent == 2
    shutil.copy(fitted(journal=tmp_path / "j").counter.path, other / kept.counter.path.name)
    with pytest.raises(vf.PrivacyError, match="of something else"):
        alone.query([NORMAL])


def test_a_file_that_was_read_without_its_place_answers_nothing(kept):
    nowhere = registry.from_artifact(kept.to_artifact())
    for ask in (lambda: nowhere.query([NORMAL]), lambda: nowhere.spent):
        with pytest.raises(vf.PrivacyError, match="not known in which folder"):
            ask()
    assert kept.spent == 0
    assert nowhere.to_artifact().manifest == kept.to_artifact().manifest
    assert nowhere.votes([NORMAL]).open().tolist() == kept.votes([NORMAL]).open().tolist()


def test_an_ensemble_is_saved_beside_its_journal_only(kept, tmp_path):
    (tmp_path / "other").mkdir()
    with pytest.raises(ValueError, match="lies in another folder"):
        kept.save(tmp_path / "other" / "e.private")
    assert not list((tmp_path / "other").iterdir())


def test_a_journal_is_made_by_a_fit_and_goes_with_a_fit_that_fails(tmp_path, monkeypatch):
    path = tmp_path / "j"
    made = estimator(journal=path)
    with monkeypatch.context() as patch:
        patch.setattr(Answers, "run", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            made.fit(ROWS, progress=False)
    assert not path.exists()
    made.fit(ROWS, progress=False)
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(Sensitive, "open", lambda *_: 1 / 0)
        with pytest.raises(FileExistsError, match="counts what another ensemble spent"):
            made.fit(ROWS, progress=False)
    assert path.read_bytes() == before


class Killed(Exception):
    """What a test stops a fit by."""


@pytest.mark.parametrize("asked", [0, 2])
def test_a_fit_that_is_killed_after_it_made_its_journal_finds_it_again(
    tmp_path, monkeypatch, asked
):
    journal, run, saved = (tmp_path / name for name in ("j", "run", "e.private"))
    made = estimator(journal=journal)

    def killed(self):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Run, "finish", killed)
        with pytest.raises(Killed):
            made.fit(ROWS, progress=False, checkpoint=run, save_as=saved)
    assert run.stat().st_mode & 0o777 == 0o600
    if asked:  # of what was saved before
        vf.load(saved).query([NORMAL] * asked)
    with monkeypatch.context() as patch:
        patch.setattr(Answers, "run", killed)  # what was trained is not trained again
        ensemble = made.fit(ROWS, progress=False, checkpoint=run)
    assert not run.exists()
    assert ensemble.spent == asked
    again = fitted()
    grid = RNG.uniform(-1, 1, size=(50, 2))
    assert np.array_equal(again.votes(grid).open(), ensemble.votes(grid).open())
    # another ensemble does not go on with it, not even one with the same seed
    with pytest.raises(FileExistsError, match="counts what another ensemble spent"):
        made.fit(ROWS, progress=False)


def test_a_fit_that_resumes_counts_in_the_journal_it_began_with(tmp_path, monkeypatch):
    journal, run, saved = (tmp_path / name for name in ("j", "run", "e.private"))

    def killed(self):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Run, "finish", killed)
        with pytest.raises(Killed):
            estimator(journal=journal).fit(ROWS, progress=False, checkpoint=run, save_as=saved)
    for other in (tmp_path / "another", None):
        with pytest.raises(vf.PrivacyError, match="in another journal"):
            estimator(journal=other).fit(ROWS, progress=False, checkpoint=run)
    assert not (tmp_path / "another").exists()
    assert run.exists()


def test_a_checkpoint_is_for_the_same_bounds_and_threshold(tmp_path, monkeypatch):
    def killed(self):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Run, "finish", killed)
        with pytest.raises(Killed):
            estimator().fit(ROWS, progress=False, checkpoint=tmp_path / "run")
    for change in ({"bounds": (-2, 2)}, {"threshold": 0.5}, {"num_components": 2}):
        with pytest.raises(vf.PrivacyError, match="belongs to other settings"):
            estimator(**change).fit(ROWS, progress=False, checkpoint=tmp_path / "run")


@pytest.mark.parametrize(
    "change",
    [
        {"internal": "may be released"},
        {"plan": {}},
        {"answers": {}},
        {"journal": {}},
        *({"journal": {"file": name, "id": "0"}} for name in ("../j", "a/", "", "..", 3)),
        {"journal": {"path": "/", "id": "0"}},
    ],
    ids=str,
)
def test_a_doctored_file_is_refused(kept, change):
    whole = kept.to_artifact()
    with pytest.raises(vf.ArtifactError):
        registry.from_artifact(dataclasses.replace(whole, manifest={**whole.manifest, **change}))


@pytest.mark.parametrize(
    "change",
    [
        {"dim": 3},
        {"threshold": "inf"},
        {"flow": codec.plain(vf.maf())},
        {"domain": codec.plain(Box((0.0,) * 3, (1.0,) * 3))},
        {"kind": "FitPlan"},
    ],
    ids=str,
)
def test_a_doctored_plan_is_refused(kept, change):
    whole = kept.to_artifact()
    plan = {**whole.manifest["plan"], **change}
    with pytest.raises(vf.ArtifactError):
        registry.from_artifact(
            dataclasses.replace(whole, manifest={**whole.manifest, "plan": plan})
        )
    release = {**whole.manifest["plan"]["releases"][0], "parts": 10**9}
    plan = {**whole.manifest["plan"], "releases": [release]}
    with pytest.raises(vf.ArtifactError):  # at once: it does not build what it has no numbers for
        registry.from_artifact(
            dataclasses.replace(whole, manifest={**whole.manifest, "plan": plan})
        )


# -- settings --------------------------------------------------------------------------------------


def test_the_threshold_is_a_public_number():
    assert fitted(threshold=-1.5).threshold == -1.5
    assert fitted().threshold == pytest.approx(-np.log(4))
    assert uniform_log_density(Box.declared((0, [2.0, 5.0])), 2) == pytest.approx(-np.log(10))
    assert uniform_log_density(Ball(2.0), 2) == pytest.approx(-np.log(4 * np.pi))
    none = fitted(threshold=50.0)
    assert none.votes([NORMAL]).open().tolist() == [0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_queries": None}, "needs max_queries"),
        ({"max_anomalies": 3}, "max_anomalies must be left out"),
        ({"method": "sparse_vector"}, "needs max_anomalies"),
        (
            {"method": "sparse_vector", "max_anomalies": 3, "max_queries": 3},
            "max_queries must be left out",
        ),
        ({"method": "majority"}, "method must be one of"),
        ({"flow": "grid"}, "flow must be one of"),
        ({"parts": 1}, "parts must be from 2"),
        ({"threshold": "median"}, "threshold must be one of"),
        ({"threshold": float("nan")}, "threshold must be a number"),
        ({"quorum": 0.7}, "quorum is for sparse_vector"),
        ({"renew": False}, "renew is for sparse_vector"),
        ({"training": vf.Training(steps=3)}, r"training \(steps\) is not used"),
        ({"flow": vf.maf()}, "num_components is for parts that learn a mixture"),
        ({**FLOW, "training": vf.Training(clip_norm=1.0)}, r"training \(clip_norm\) is not used"),
        ({**FLOW, "training": vf.Training(steps=0)}, "steps must be"),
        ({"bounds": None}, "declare bounds"),
        ({"budget": vf.Budget(float("inf"), 1e-6)}, "budget must be finite"),
        ({"budget": vf.Budget(1.0, 0.0), "method": "noisy_max"}, "needs a positive delta"),
    ],
)
def test_settings_that_cannot_be_are_refused_before_any_record(settings, message):
    with pytest.raises(ValueError, match=message):
        estimator(**settings)


def test_rows_of_another_width_are_refused_and_nothing_is_spent():
    ensemble = fitted()
    with pytest.raises(ValueError, match="rows must have 2 columns, got 3"):
        ensemble.query([[0.0, 0.0, 0.0]])
    assert ensemble.spent == 0


def test_an_ensemble_shows_what_its_answers_cost_and_no_record():
    text = repr(fitted())
    assert text.startswith("FittedEnsemble(columns: 2; 5 parts, exponential; answers: (")
    assert isinstance(fitted().counter, InMemory)
