"""`veilflow fit table`, and what the other commands do with its models."""

import dataclasses
import os
import stat

import pandas as pd
import pytest

import veilflow as vf
from tests.cli.test_models import refused
from tests.models.table import small
from veilflow._core import codec
from veilflow.cli import table as command
from veilflow.engine.optimizer import OPTIMIZERS
from veilflow.engine.training import CLIPPINGS
from veilflow.models.table.architecture import HFlowArchitecture
from veilflow.releases.plan import FitPlan

BUDGET = ("--epsilon", 4, "--delta", 1e-4)
FIT = ("fit", "table", "t.csv", "--schema", "s.toml", *BUDGET)
RESEARCH = ("schedule", "rate_decay")  # in Python
NOT_FLAGS = {"schema", "budget", "pay_for_discovery"}


@pytest.fixture
def table(veilflow, tmp_path):
    """A messy table and its schema in the current folder."""
    small.frame().to_csv(tmp_path / "t.csv", index=False)
    small.SCHEMA.to_file(tmp_path / "s.toml")
    with small.quick():
        yield "t.csv"


@pytest.fixture
def saved(veilflow, table, tmp_path):
    """A fitted table in the current folder."""
    small.fitted().save(tmp_path / "m.veil")
    return "m.veil"


def test_fit_hands_every_flag_to_the_model_by_its_python_name(in_json, table, monkeypatch):
    calls, model = [], small.fitted()

    def fake(self, rows, **settings):
        calls.append((self, str(rows), settings))
        return model

    monkeypatch.setattr(vf.TableFlow, "fit", fake)
    found = in_json(
        *FIT,
        *(
            "--num-records",
            600,
            "--warm-start",
            0.2,
            "--hidden",
            "8,9",
        ),
        *(
            "--label-weight",
            3,
            "--most-bins",
            9,
            "--steps",
            7,
            "--batch-size",
            50,
            "--clip-norm",
            0.5,
        ),
        *("--learning-rate", 0.01, "--weight-decay", 0.1, "--seed", 3, "--extra", "ignore"),
        *("--clipping", "sparsified", "--sparsity", 0.25, "--optimizer", "sgd"),
        *(
            "--noise-bands",
            4,
            "--pay-for-discovery",
            "--no-learn-structure",
            "--invalid",
            "replace",
            "--checkpoint",
            "run.ckpt",
        ),
        *("--out", "m.veil"),
    )
    assert found["out"] == "m.veil"
    ((estimator, rows, settings),) = calls
    assert rows == "t.csv"
    assert settings.pop("save_as").name == "m.veil"
    assert str(settings.pop("checkpoint")) == "run.ckpt"
    assert settings == {"progress": True, "extra": "ignore", "invalid": "replace"}
    given = {
        "num_records": 600,
        "warm_start": 0.2,
        "flow": vf.codes(hidden=(8, 9), most_bins=9, label_weight=3.0),
        "training": vf.Training(
            steps=7,
            batch_size=50,
            noise_bands=4,
            clip_norm=0.5,
            clipping="sparsified",
            sparsity=0.25,
            optimizer="sgd",
            learning_rate=0.01,
            weight_decay=0.1,
        ),
        "learn_structure": False,
        "seed": 3,
    }
    expected = vf.TableFlow(
        schema=small.SCHEMA, budget=vf.Budget(4.0, 1e-4), pay_for_discovery=True, **given
    )
    assert estimator == expected
    # and every setting of the library has a flag
    assert {field.name for field in dataclasses.fields(vf.TableFlow)} == NOT_FLAGS | set(given)
    trained = {field.name for field in dataclasses.fields(vf.Training)}
    assert trained - set(given["training"].given) == {"sampling_rate", "ema_decay", *RESEARCH}
    assert None not in (
        estimator.flow.hidden,
        estimator.flow.most_bins,
        estimator.flow.label_weight,
    )


PAPER = (
    *("--flow", "hflow", "--blocks", 2, "--spline-bins", 4, "--hidden", "8,8", "--rank", 2),
    *("--linear", "low-rank", "--network", "conditional", "--dequantization", "variational"),
    *("--most-bins", 9, "--clipping", "per-unit", "--optimizer", "adabelief"),
)


def test_the_papers_flow_has_a_flag_for_every_setting(in_json, table):
    found = in_json(*FIT, *PAPER, "--warm-start", "none", "--dry-run", "--out", "m.veil")
    flow = vf.hflow(
        blocks=2,
        bins=4,
        hidden=(8, 8),
        rank=2,
        network="conditional",
        dequantization="variational",
        most_bins=9,
    )
    training = vf.Training(clipping="per-unit", optimizer="adabelief")
    expected = vf.TableFlow(
        schema=small.SCHEMA,
        budget=vf.Budget(4.0, 1e-4),
        warm_start=False,
        flow=flow,
        training=training,
    )
    assert codec.restored(FitPlan, found["plan"]) == expected.plan()
    given = {flag.removeprefix("--").replace("-", "_") for flag in PAPER[::2]}
    sizes = {field.name for field in dataclasses.fields(flow)} - {"bins"} | {"spline_bins"}
    assert sizes <= given


def test_the_papers_flow_is_fitted_by_command(in_json, table, tmp_path):
    short = ("--warm-start", "none", "--steps", 2, "--num-records", 600)
    fitted = in_json(*FIT, *PAPER, *short, "--out", "m.veil")
    assert fitted["guarantee"]["epsilon"] <= 4
    model = vf.load(tmp_path / "m.veil")
    assert isinstance(model.plan.flow, HFlowArchitecture)
    assert list(model.sample(20, seed=1).columns) == list(small.SCHEMA.names)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--blocks", 2), "--blocks is for --flow hflow"),
        (("--spline-bins", 4), "--spline-bins is for --flow hflow"),
        (("--flow", "hflow", "--label-weight", 2), "--label-weight is for --flow codes"),
        (("--flow", "hflow", "--rank", 99), "rank must be at most"),
        (("--sparsity", 1.0), "sparsity must be"),
    ],
    ids=str,
)
def test_flags_of_another_flow_are_refused(flags, message, veilflow, table):
    refused(veilflow(*FIT, *flags, "--out", "m.veil"), message)


def test_the_words_of_the_flags_are_those_of_the_library():
    words = {"linear": command.Linear, "network": command.Network}
    for name, kinds in {**words, "dequantization": command.Dequantization}.items():
        for word in kinds:
            assert getattr(vf.hflow(**{name: str(word)}), name) == word
    assert tuple(word.value for word in command.Clipping) == CLIPPINGS
    assert {word.value for word in command.Optimizer} == set(OPTIMIZERS)


def test_a_messy_file_becomes_a_synthetic_file(in_json, veilflow, table, tmp_path):
    flags = ("--warm-start", "none", "--steps", 0, "--hidden", 4, "--num-records", 600)
    fitted = in_json(*FIT, *flags, "--out", "m.veil")
    assert fitted["guarantee"]["epsilon"] <= 4
    done = veilflow("sample", "m.veil", "-n", 500, "--out", "synthetic.csv")
    assert done.exit_code == 0, done.stderr
    assert "differential privacy" in done.stdout
    real, synthetic = pd.read_csv("t.csv"), pd.read_csv("synthetic.csv")
    assert list(synthetic.columns) == list(real.columns)
    assert len(synthetic) == 500
    assert (synthetic.dtypes == real.dtypes).all()
    assert (synthetic.isna().any() == real.isna().any()).all()
    model = vf.load(tmp_path / "m.veil")
    assert "training" not in [release.purpose for release in model.plan.releases]


def test_a_dry_run_opens_no_table_and_leaves_no_file(in_json, veilflow, table, tmp_path):
    (tmp_path / "t.csv").unlink()
    before = {path.name for path in tmp_path.iterdir()}
    found = in_json(*FIT, "--steps", 20, "--dry-run", "--out", "m.veil")
    assert {path.name for path in tmp_path.iterdir()} == before
    training = vf.Training(steps=20)
    budget = vf.Budget(4.0, 1e-4)
    plan = vf.TableFlow(schema=small.SCHEMA, budget=budget, training=training).plan()
    assert codec.restored(FitPlan, found["plan"]) == plan
    assert [entry["purpose"] for entry in found["ledger"]] == [
        entry.purpose for entry in plan.ledger.entries
    ]
    assert found["guarantee"]["epsilon"] == plan.guarantee.epsilon
    shown = veilflow(*FIT, "--dry-run", "--out", "m.veil").stdout
    assert shown.startswith("nothing was spent")
    for text in ("values of city", "histograms of columns", "marginals", "training"):
        assert text in shown


def test_wrong_input_is_one_line(veilflow, table, tmp_path):
    out = ("--out", "m.veil")
    refused(veilflow(*FIT, "--batch-size", 5, *out), "batch_size=5 needs num_records")
    refused(veilflow(*FIT, "--hidden", "a", *out), "--hidden must be whole numbers")
    refused(veilflow(*FIT, "--warm-start", "cold", *out), "--warm-start must be a number or none")
    refused(veilflow(*FIT, "--warm-start", 1.5, *out), "warm_start must be")
    refused(veilflow(*FIT, "--out", "t.csv", "--force"), "is the file that is read")
    refused(veilflow(*FIT, "--out", "s.toml", "--force"), "is the file that is read")
    missing = ("fit", "table", "none.csv", "--schema", "s.toml", *BUDGET, "--steps", 1)
    refused(veilflow(*missing, *out), "there is no file none.csv", 1)
    refused(veilflow("fit", "table", "t.csv", "--schema", "no.toml", *BUDGET, *out), "no.toml", 1)
    draft = veilflow("schema", "t.csv", "--out", "draft.toml")
    assert draft.exit_code == 0
    words = ("fit", "table", "t.csv", "--schema", "draft.toml", *BUDGET, *out)
    refused(veilflow(*words), "nobody has confirmed", 1)
    assert not (tmp_path / "m.veil").exists()


def test_an_existing_model_is_not_overwritten(veilflow, saved, monkeypatch):
    monkeypatch.setattr(vf.TableFlow, "fit", lambda *_, **__: pytest.fail("it was fitted"))
    refused(veilflow(*FIT, "--out", saved), "exists")


@pytest.mark.parametrize("suffix", ["csv", "parquet", "arrow"])
def test_rows_are_drawn_into_files_of_any_format(suffix, in_json, saved):
    found = in_json("sample", saved, "-n", 50, "--seed", 1, "--out", f"s.{suffix}")
    assert found["num_rows"] == 50
    model = small.fitted()
    scores = model.log_prob(f"s.{suffix}")
    assert len(scores) == 50


@pytest.mark.filterwarnings("always:the given cells")
def test_cells_may_be_given(veilflow, saved):
    given = ("--given", "age=33", "--given", "gain=0", "--given", "city=")
    done = veilflow("sample", saved, "-n", 40, *given, "--out", "s.csv")
    assert done.exit_code == 0, done.stderr
    rows = pd.read_csv("s.csv")
    assert (rows.age == 33).all()
    assert (rows.gain == 0).all()
    assert rows.city.isna().all()
    late = veilflow("sample", saved, "-n", 40, "--given", "smoker=yes", "--out", "late.csv")
    assert late.exit_code == 0, late.stderr
    assert "resampled by weight" in late.stderr
    assert pd.read_csv("late.csv").smoker.all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("height=3", "--given must be column=value, got 'height=3'. The columns are age, gain"),
        ("age", "--given must be column=value"),
        ("sex=X", "column 'sex'"),
        ("city=atlantis", "that was discovered"),
    ],
    ids=str,
)
def test_cells_that_cannot_be_given_are_refused(given, message, veilflow, saved, tmp_path):
    refused(veilflow("sample", saved, "--given", given, "--out", "s.csv"), message)
    assert not (tmp_path / "s.csv").exists()


def test_a_cell_is_not_given_twice(veilflow, saved):
    twice = ("--given", "age=3", "--given", "age=4", "--out", "s.csv")
    refused(veilflow("sample", saved, *twice), "names 'age' twice")


def test_models_of_numbers_take_no_cells_and_fill_no_gaps(veilflow, data):
    bounds = ("--low", "-9", "--high", "9", "--components", 2, "--steps", 2)
    done = veilflow("fit", "mixture", data, *BUDGET, *bounds, "--out", "n.veil")
    assert done.exit_code == 0, done.stderr
    given = veilflow("sample", "n.veil", "--given", "a=1", "--out", "s.csv")
    refused(given, "--given is for models of tables")
    for flags in (("sample", "n.veil", "--label", "a"), ("sample", "n.veil", "--sharpen", 0)):
        refused(veilflow(*flags, "--out", "s.csv"), "is for models of images")
    score = veilflow("score", "n.veil", data, "--label", "a", "--out", "s.csv")
    refused(score, "--label is for models of images")
    refused(veilflow("impute", "n.veil", data, "--out", "f.csv"), "no model of a table")


def test_scores_are_written_for_the_owner_alone_and_not_printed(in_json, saved, tmp_path):
    more = pd.read_csv("t.csv").assign(more=1)
    more.to_csv("more.csv", index=False)
    found = in_json("score", saved, "more.csv", "--out", "scores.csv")
    assert found["protected"] is False
    assert "mean_log_prob" not in found
    scores = pd.read_csv("scores.csv").log_prob
    assert scores.to_numpy() == pytest.approx(small.fitted().log_prob("t.csv"), rel=1e-5)
    assert stat.S_IMODE(os.stat("scores.csv").st_mode) == 0o600


def test_gaps_are_filled_for_the_owner_alone(in_json, saved):
    found = in_json("impute", saved, "t.csv", "--seed", 1, "--out", "f.csv")
    assert found["protected"] is False
    before, after = pd.read_csv("t.csv"), pd.read_csv("f.csv")
    assert after.isna().sum().sum() == 0
    for name in before:
        there = before[name].notna()
        assert (before[name][there] == after[name][there]).all(), name
    assert stat.S_IMODE(os.stat("f.csv").st_mode) == 0o600


def test_columns_that_the_model_does_not_know_are_named_when_they_are_left_out(veilflow, saved):
    pd.read_csv("t.csv").head(3).assign(**{"patient id": 7}).to_csv("more.csv", index=False)
    done = veilflow("impute", saved, "more.csv", "--out", "f.csv")
    assert done.exit_code == 0, done.stderr
    assert "left out, as the model does not have them: patient id" in done.stderr
    assert "patient id" not in pd.read_csv("f.csv")


def test_an_interrupt_leaves_the_files_as_they_were(veilflow, saved, monkeypatch, tmp_path):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    veilflow("sample", saved, "-n", 10, "--out", "s.csv")
    before = sorted(os.listdir()), (tmp_path / "s.csv").read_bytes()
    monkeypatch.setattr("veilflow.models.table.fitted_table.constrained", interrupted)
    done = veilflow("sample", saved, "-n", 10, "--out", "s.csv", "--force")
    assert done.exit_code == 130
    assert "interrupted. No result was written" in done.stderr
    assert (sorted(os.listdir()), (tmp_path / "s.csv").read_bytes()) == before


def test_inspect_shows_columns_and_what_was_discovered(veilflow, in_json, saved):
    done = veilflow("inspect", saved, "--recompute")
    assert done.exit_code == 0, done.stderr
    for text in (
        "model TableFlow",
        "the claim holds",
        "values of city",
        "  age: Numeric(17, 90, integer=True, nullable=True)",
        "  discovered of city: oslo, paris, rome",
        "  label: smoker",
    ):
        assert text in done.stdout, text
    assert in_json("inspect", saved)["schema"]["vocabularies"]["city"] == ["oslo", "paris", "rome"]
