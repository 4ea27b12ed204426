"""Lessons about runs that go on, neighbors that are named, and evidence that is none."""

import dataclasses
from functools import cache

import numpy as np
import pytest

import veilflow as vf
from tests.audit.broken_engines import no_noise
from tests.engine import test_checkpoint as runs
from tests.lessons import small
from veilflow import audit
from veilflow.engine import Checkpoint
from veilflow.privacy import accounting
from veilflow.privacy.dataset_ledger import DatasetLedger
from veilflow.privacy.events import Gaussian, PoissonSampled
from veilflow.privacy.guarantees import Guarantee
from veilflow.privacy.ledger import Ledger
from veilflow.privacy.unit import Adjacency
from veilflow.reports import words
from veilflow.reports.card import release_card
from veilflow.reports.render import card_html, card_markdown


@cache
def card():
    """Of a small model whose ledger is quickly added up."""
    ledger = Ledger().spend(Gaussian(5.0), purpose="training")
    guarantee = ledger.guarantee(delta=1e-6)
    whole = small.fitted().to_artifact()
    return release_card(dataclasses.replace(whole, ledger=ledger, guarantee=guarantee))


def test_d18_a_run_that_was_stopped_goes_on_with_the_same_noise(tmp_path):
    path, plan = tmp_path / "run", runs.make_plan(steps=60)
    whole = runs.run(None, plan=plan)
    with pytest.raises(runs.Stopped):
        runs.run(path, plan=plan, monitor=runs.stop_after(20))
    cut = path.read_bytes()
    assert 0 < Checkpoint(path).read().step < 60
    path.write_bytes(cut[: len(cut) // 2])
    with pytest.raises(vf.ArtifactError):  # half of it is nothing to go on from
        runs.run(path, plan=plan)
    path.write_bytes(cut)
    with pytest.raises(vf.PrivacyError, match="another plan"):  # which would reuse its noise
        runs.run(path, plan=runs.make_plan(steps=61))
    with pytest.raises(vf.PrivacyError, match="another set of records"):
        runs.run(path, plan=plan, rows=runs.ROWS[1:])
    np.testing.assert_array_equal(runs.run(path, plan=plan), whole)


def test_d19_the_relation_of_neighbors_is_stated_carried_and_not_mixed(tmp_path):
    guarantee = small.fitted().guarantee
    assert guarantee.adjacency is Adjacency.ADD_REMOVE
    assert "add-remove one row" in str(guarantee)
    document = guarantee.to_json()
    assert Guarantee.from_json(document) == guarantee
    del document["adjacency"]
    with pytest.raises(KeyError):  # a file that leaves it open is none
        Guarantee.from_json(document)
    assert words.adjacency(guarantee) in card_markdown(card())
    sampled = PoissonSampled(0.1, Gaussian(1.0))
    for name in ("pld", "rdp"):
        with pytest.raises(vf.PrivacyError, match="replace-one"):
            accounting.get(name).epsilon(sampled, delta=1e-6, adjacency=Adjacency.REPLACE_ONE)
    one = DatasetLedger(tmp_path / "spending")
    for adjacency in Adjacency:
        ledger = Ledger(adjacency=adjacency).spend(Gaussian(9.0), purpose="x")
        one.reserve(ledger, dataset="people", delta=1e-6)
    with pytest.raises(vf.PrivacyError, match="do not compose"):
        one.total(dataset="people", delta=1e-6)


def test_d20_a_distance_to_records_is_no_evidence_of_privacy():
    for text in (card_markdown(card()), card_html(card())):
        assert not any(w in text.lower() for w in ("closest record", "nearest record", " dcr"))
    # an attack that finds nothing leaves the claim where it was: a bound from below is no promise
    rows = np.random.default_rng(2).uniform(size=(40, 2))
    result = audit.audit(small.fitted(), rows[:20], rows[20:], method="density", guesses=4)
    assert result.lower_bound <= small.fitted().guarantee.epsilon
    assert result.claimed == small.fitted().guarantee.epsilon
    assert not result.exceeds_claim
    assert "private" not in result.sentence.lower()


@pytest.mark.usefixtures("optimized")
def test_d20_an_engine_without_noise_is_caught():
    with no_noise():
        report = audit.engine_check(small.plan(sampling_rate=0.5), parts=["noise"], steps=8)
    assert "noise" in report.failed


@pytest.fixture
def optimized():
    import jax

    jax.config.update("jax_disable_most_optimizations", False)
