"""`veilflow posterior`: columns named by flags in, slopes with their deviations out."""

import re

import numpy as np
import pytest

import veilflow as vf
from veilflow.cli import posterior
from veilflow.models.posterior.regressions import KINDS
from veilflow.tabular import Rows, read_rows, write_rows

SPEND = ("--epsilon", 3, "--delta", 1e-6, "--seed", 4)
FIT = (
    "posterior",
    "fit",
    "data.csv",
    "--model",
    "linear",
    "--target",
    "pressure",
    "--columns",
    "age",
)
BOUNDS = ("--low", "20,60", "--high", "80,200")
NEW = (*FIT, *BOUNDS, *SPEND, "--out", "p.veil")


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    age = rng.uniform(20, 80, 3000)
    pressure = 120 + 0.5 * (age - 50) + rng.normal(0, 10, 3000)
    return Rows(np.column_stack([age, pressure, rng.uniform(size=3000)]), ("age", "pressure", "z"))


@pytest.fixture
def patients(veilflow, rows, tmp_path):
    """A file of an age, a pressure and something else."""
    write_rows(rows, tmp_path / "data.csv")


@pytest.fixture(scope="module")
def kept():
    """The file of the first fit, for all other tests."""
    return {}


@pytest.fixture
def fitted(in_json, patients, tmp_path, kept):
    """What the fit printed; the file is in the folder."""
    if not kept:
        kept["told"] = in_json(*NEW, "--checkpoint", "run.checkpoint")
        assert not (tmp_path / "run.checkpoint").exists()  # the fit is done
        kept["file"] = (tmp_path / "p.veil").read_bytes()
    (tmp_path / "p.veil").write_bytes(kept["file"])
    return kept["told"]


def refused(done, message, code=2):
    assert done.exit_code == code, done.stderr
    assert done.stdout == ""
    assert re.search(message, done.stderr), done.stderr


def test_words_are_those_of_the_library():
    assert tuple(posterior.Kind) == KINDS


def test_a_posterior_is_fitted_and_told(fitted, in_json, veilflow, tmp_path):
    named = {one["name"]: one for one in fitted["parameters"]}
    assert list(named) == ["intercept", "age", "log_sd"]
    assert named["intercept"]["mean"] == pytest.approx(120, abs=1.5)
    assert named["age"]["mean"] == pytest.approx(0.5, abs=0.08)
    assert named["log_sd"]["mean"] == pytest.approx(np.log(10), abs=0.1)
    assert 0.005 < named["age"]["sd"] < 0.05
    low, high = named["age"]["interval"]
    assert low < named["age"]["median"] < high
    assert fitted["guarantee"]["epsilon"] == pytest.approx(3, rel=0.01)
    assert any("seed" in one["sentence"] for one in fitted["guarantee"]["assumptions"])
    assert "warning" not in fitted

    told = in_json("posterior", "summary", "p.veil", "--level", 0.5)
    assert told["level"] == 0.5
    inner = told["parameters"][1]["interval"]
    assert low < inner[0] < inner[1] < high
    assert told["regression"]["bounds"] == [[20, 60], [80, 200]]
    assert np.shape(told["correlation"]) == (3, 3)
    shown = veilflow("posterior", "summary", "p.veil")
    assert "95 % interval" in shown.stdout
    assert "middle of their bounds" in shown.stdout
    assert veilflow("inspect", "p.veil", "--recompute").exit_code == 0


def test_draws_are_written_and_repeat_with_a_seed(fitted, in_json, veilflow, tmp_path):
    words = ("posterior", "sample", "p.veil", "-n", 300, "--seed", 1)
    assert in_json(*words, "--out", "draws.csv")["num_draws"] == 300
    in_json(*words, "--out", "again.parquet")
    drawn, again = read_rows(tmp_path / "draws.csv"), read_rows(tmp_path / "again.parquet")
    assert drawn.columns == ("intercept", "age", "log_sd")
    assert drawn.values.shape == (300, 3)
    np.testing.assert_allclose(drawn.values, again.values, rtol=1e-6)
    refused(veilflow(*words, "--out", "draws.csv"), "--force")
    refused(veilflow(*words, "--out", "draws.txt"), "suffix|txt")
    refused(veilflow("sample", "p.veil", "--out", "rows.csv"), "posterior sample")


def test_a_dry_run_knows_the_price_and_spends_nothing(in_json, patients, tmp_path):
    found = in_json(*NEW, "--dry-run")
    assert found["guarantee"]["epsilon"] == pytest.approx(3, rel=0.01)
    assert [entry["purpose"] for entry in found["ledger"]] == [
        "gradients and curvatures",
        "distance of grid noise from Gaussian",
    ]
    assert not (tmp_path / "p.veil").exists()


def test_bounds_may_come_from_a_schema_that_somebody_confirmed(
    in_json, veilflow, patients, tmp_path
):
    schema = vf.Schema(age=vf.Numeric(20, 80), pressure=vf.Numeric(60, 200))
    schema.to_file(tmp_path / "schema.toml")
    words = (*FIT, *SPEND, "--dry-run", "--out", "p.veil", "--schema")
    assert in_json(*words, "schema.toml")["ledger"]
    draft = vf.Schema(age=vf.Numeric(20, 80, unconfirmed=("low",)), pressure=vf.Numeric(60, 200))
    draft.to_file(tmp_path / "draft.toml")
    refused(veilflow(*words, "draft.toml"), "nobody has confirmed")
    vf.Schema(age=vf.Numeric(20, 80)).to_file(tmp_path / "less.toml")
    refused(veilflow(*words, "less.toml"), "must declare 'pressure'")
    refused(veilflow(*words, "schema.toml", *BOUNDS), "one of the three")


@pytest.mark.filterwarnings("ignore:in . of 3 directions", "always:there are few records")
def test_few_records_under_much_noise_are_warned_of(in_json, rows, veilflow, tmp_path):
    write_rows(Rows(rows.values[:900], rows.columns), tmp_path / "data.csv")
    words = (*FIT, *BOUNDS, "--epsilon", 1, "--delta", 1e-6, "--seed", 4, "--out", "few.veil")
    done = veilflow(*words)
    assert done.exit_code == 0, done.stderr
    assert done.stderr.count("few records") == 1
    # the file remembers
    assert "few records" in in_json("posterior", "summary", "few.veil")["warning"]
    assert veilflow("posterior", "summary", "few.veil").stderr.count("few records") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((*FIT, *SPEND), "give --schema, --bounds"),
        ((*FIT[:5], "--target", "age", "--columns", "age,z", *BOUNDS, *SPEND), "is the target"),
        ((*FIT[:5], "--target", "weight", *BOUNDS, *SPEND), "--target 'weight' is not a column"),
        ((*FIT, "--low", "20", *SPEND), "both --low and --high"),
        ((*FIT[:4], "logistic", *FIT[5:], *BOUNDS, *SPEND), "0 and 1"),
        ((*FIT[:4], "poisson", *FIT[5:], "--low", -1, "--high", 9, *SPEND), "not negative"),
        ((*FIT[:4], "cubic", *FIT[5:], *BOUNDS, *SPEND), "cubic"),
        ((*FIT, *BOUNDS, *SPEND, "--prior-scale", 0), "prior_scale must be positive"),
        ((*FIT, *BOUNDS, "--epsilon", 1, "--delta", 0), "delta must be positive"),
    ],
)
def test_what_does_not_fit_is_refused(words, message, veilflow, patients):
    refused(veilflow(*words, "--out", "p.veil"), message)


def test_only_posteriors_have_parameters(veilflow, model):
    refused(veilflow("posterior", "summary", model), "no posterior")
    refused(veilflow("posterior", "sample", model, "--out", "draws.csv"), "no posterior")
