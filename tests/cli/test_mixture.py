"""`veilflow fit mixture`: the real model, which is quick enough to need no stand-in."""

import json

import numpy as np
import pytest

import veilflow as vf
from tests.cli.test_models import refused
from veilflow._core.codec import plain
from veilflow.models.domain import Ball
from veilflow.releases.mixture import ExpectationMaximization
from veilflow.tabular import read_rows

BUDGET = ("--epsilon", 1, "--delta", 1e-5)
FIT = ("fit", "mixture", "data.csv", *BUDGET)
BOX = ("--low", "-9,-8", "--high", 9)


@pytest.fixture
def mixture(veilflow, data):
    """A model file in the current folder."""
    done = veilflow(*FIT, *BOX, "--components", 2, "--steps", 4, "--out", "m.veil")
    assert done.exit_code == 0, done.stderr
    return "m.veil"


def test_fit_hands_every_flag_to_the_model_by_its_python_name(in_json, data, monkeypatch):
    calls = []

    class Spy(vf.MixtureDensity):
        def __post_init__(self):
            calls.append(self)
            super().__post_init__()

    monkeypatch.setattr("veilflow.models.mixture.MixtureDensity", Spy)
    found = in_json(
        *FIT,
        *BOX,
        *("--components", 2, "--steps", 3, "--num-records", 50, "--seed", 3),
        *("--out", "m.veil"),
    )
    assert found["out"] == "m.veil"
    assert found["guarantee"]["delta"] == 1e-5
    assert 0.99 < found["guarantee"]["epsilon"] <= 1
    (call,) = calls
    assert call == Spy(
        budget=vf.Budget(1.0, 1e-5),
        bounds=([-9, -8], [9, 9]),
        num_components=2,
        steps=3,
        num_records=50,
        seed=3,
    )


def test_what_is_not_given_keeps_the_defaults_of_the_library(veilflow, data, tmp_path):
    done = veilflow(*FIT, "--row-norm", 3, "--out", "m.veil")
    assert done.exit_code == 0, done.stderr
    assert "differential privacy, add-remove one row, by PLD" in done.stdout
    model, default = (
        vf.load(tmp_path / "m.veil"),
        vf.MixtureDensity(budget=vf.Budget(1, 1e-5), row_norm=3),
    )
    assert len(model.weights) == default.num_components
    assert model.plan == default.plan(2)
    assert model.domain == Ball(3.0)


@pytest.mark.filterwarnings("default::veilflow.NotPrivateWarning")
def test_no_privacy_is_said_so(veilflow, in_json, data):
    few = ("--components", 1, "--steps", 2)
    openly = veilflow(*FIT, *BOX, *few, "--epsilon", "inf", "--out", "o.veil", "--json")
    assert json.loads(openly.stdout)["guarantee"]["epsilon"] == "inf"
    assert "not private" in openly.stderr


def test_a_mixture_is_inspected_sampled_and_scored_like_any_model(
    veilflow, in_json, mixture, data, tmp_path
):
    found = in_json("inspect", mixture, "--recompute")
    assert found["model"] == "MixtureDensity"
    assert found["recomputed"]["holds"] is True
    assert found["schema"]["columns"] == ["a", "b"]
    assert "gaussian (noise multiplier" in veilflow("inspect", mixture).stdout
    assert in_json("sample", mixture, "-n", 30, "--out", "s.csv", "--seed", 1)["num_rows"] == 30
    rows = read_rows(tmp_path / "s.csv")
    assert rows.columns == ("a", "b")
    np.testing.assert_allclose(rows.values, vf.load(tmp_path / mixture).sample(30, seed=1))
    assert veilflow("score", mixture, data, "--out", "scores.csv").exit_code == 0
    assert np.isfinite(read_rows(tmp_path / "scores.csv").values).all()


def test_a_dry_run_prints_the_plan_and_does_nothing(in_json, veilflow, data, tmp_path):
    before = {path.name for path in tmp_path.iterdir()}
    words = (*FIT, *BOX, "--components", 2, "--steps", 3, "--dry-run", "--out", "m.veil")
    found, said = in_json(*words), veilflow(*words).stdout
    assert {path.name for path in tmp_path.iterdir()} == before
    plan = vf.MixtureDensity(
        budget=vf.Budget(1.0, 1e-5), bounds=([-9, -8], [9, 9]), num_components=2, steps=3
    ).plan()
    assert found["plan"] == json.loads(json.dumps(plain(plan)))
    assert found["guarantee"] == plan.guarantee.to_json()
    assert said.startswith("nothing was spent")
    assert "mixture: dim 2, num components 2, steps 3, spread" in said


def test_an_interrupted_fit_goes_on_from_its_checkpoint(veilflow, data, tmp_path, monkeypatch):
    words = (*FIT, *BOX, "--components", 2, "--steps", 3, "--checkpoint", "run", "--out", "m.veil")

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(vf.MixtureDensity, "assemble", killed)
        veilflow(*words)
    assert (tmp_path / "run").exists()
    assert not (tmp_path / "m.veil").exists()
    monkeypatch.setattr(ExpectationMaximization, "run", lambda *_: pytest.fail("asked again"))
    done = veilflow(*words)
    assert done.exit_code == 0, done.stderr
    assert not (tmp_path / "run").exists()
    assert len(vf.load(tmp_path / "m.veil").weights) == 2


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ((), "give --bounds, or --low and --high, or --row-norm"),
        (("--low", 0), "both --low and --high"),
        (("--row-norm", 1, "--components", 0), "num_components must be at least 1"),
        (("--row-norm", 1, "--epsilon", 0), "epsilon must be positive"),
        (("--row-norm", 1, "--columns", "a,z"), "no column 'z'"),
    ],
)
def test_flags_that_make_no_fit_are_refused_and_leave_no_file(
    flags, message, veilflow, data, tmp_path
):
    refused(veilflow(*FIT, *flags, "--out", "m.veil"), message)
    assert not (tmp_path / "m.veil").exists()


def test_fit_refuses_to_replace_a_file_before_anything_is_spent(veilflow, data, tmp_path):
    (tmp_path / "m.veil").write_text("precious")
    refused(veilflow(*FIT, *BOX, "--out", "m.veil"), "--force.*Nothing was done")
    assert (tmp_path / "m.veil").read_text() == "precious"
