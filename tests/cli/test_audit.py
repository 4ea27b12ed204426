"""`veilflow audit`: a bound beside the claim, marked where private rows were read."""

import json
from functools import partial

import numpy as np
import pytest

from tests.audit import broken_engines
from veilflow import audit
from veilflow.tabular.io import Rows, write_rows


@pytest.fixture
def holdout(veilflow, tmp_path):
    values = np.random.default_rng(1).normal(size=(60, 2))
    write_rows(Rows(values, ("a", "b")), tmp_path / "out.csv")
    return "out.csv"


def test_a_model_is_audited_with_rows_in_and_out(veilflow, model, data, holdout):
    done = veilflow("audit", model, "--data", data, "--holdout", holdout, "--json")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["internal"] is True
    assert found["method"] == "density"
    assert found["counts"]["canaries"] == 100
    assert 0 <= found["lower_bound"] <= found["claimed"]
    assert "INTERNAL" in done.stderr


def test_the_words_for_people_say_internal_and_what_is_assumed(veilflow, model, data, holdout):
    done = veilflow("audit", model, "--data", data, "--holdout", holdout)
    assert done.stdout.startswith("INTERNAL")
    assert "does not prove it" in done.stdout
    assert "assuming: " in done.stdout


def test_a_claim_that_is_refuted_is_an_error(veilflow, model, data, tmp_path):
    # rows far away: the density of the stand-in tells them apart without fail
    far = 50 + np.random.default_rng(1).normal(size=(60, 2))
    write_rows(Rows(far, ("a", "b")), tmp_path / "far.csv")
    done = veilflow("audit", model, "--data", data, "--holdout", "far.csv", "--json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["exceeds_claim"] is True
    assert "REFUTED" in done.stderr


ROWS = ("--data", "data.csv", "--holdout", "data.csv")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("m.veil",), "--holdout"),
        (("engine", "--data", "data.csv"), "for models"),
        (("engine", "--method", "density"), "for models"),
        (("m.veil", *ROWS, "--column", "c"), "one of a, b"),
        (("m.veil", *ROWS, "--column", "a", "--method", "synthetic"), "attack of its own"),
        (("m.veil", *ROWS, "--reference", "m.veil", "--method", "synthetic"), "--method density"),
    ],
)
def test_what_does_not_go_together_is_refused(veilflow, model, arguments, message):
    done = veilflow("audit", *arguments)
    assert done.exit_code == 2
    assert message in done.stderr


@pytest.mark.slow
def test_the_engine_is_measured_and_attacked_on_generated_rows(veilflow, monkeypatch):
    # one part is enough to see that it is called: each takes seconds to compile
    monkeypatch.setattr(audit, "engine_check", partial(audit.engine_check, parts=["sensitivity"]))
    settings = ("--epsilon", 4, "--sampling-rate", 1, "--steps", 4, "--canaries", 200)
    done = veilflow("audit", "engine", *settings, "--seed", 0, "--json")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["engine_check"]["passed"] is True
    assert found["canaries"]["internal"] is False
    assert 0 < found["canaries"]["lower_bound"] < found["canaries"]["claimed"]


def test_an_engine_that_fails_a_check_is_an_error(veilflow, monkeypatch):
    monkeypatch.setattr(audit, "engine_check", partial(audit.engine_check, parts=["noise"]))
    with broken_engines.no_noise():
        done = veilflow("audit", "engine", "--steps", 2, "--canaries", 50, "--seed", 0)
    assert done.exit_code == 1
    assert "FAIL" in done.stdout
    assert "the check of noise failed" in done.stderr
