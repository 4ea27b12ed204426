import dataclasses
import json
import re

import numpy as np
import pytest

import veilflow as vf
from veilflow._core.codec import plain
from veilflow.cli import fit, options
from veilflow.models import density_plan
from veilflow.models.settings import INVALID
from veilflow.tabular import read_rows, write_chunks

SETTINGS = {field.name for field in dataclasses.fields(vf.DensityFlow)}
TRAINING = {field.name for field in dataclasses.fields(vf.Training)}
NOT_PLANNED = {"budget", "bounds", "row_norm", "count_clamped", "training"}
BUDGET = ("--epsilon", 1, "--delta", 1e-5)
FIT = ("fit", "density", "data.csv", *BUDGET)


def refused(done, message, code=2):
    assert done.exit_code == code, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert re.search(message, done.stderr), done.stderr


def test_fit_hands_every_flag_to_the_model_by_its_python_name(in_json, quick, data):
    found = in_json(
        *FIT,
        *("--low", "-9,-8", "--high", 9, "--num-records", 50, "--steps", 7, "--batch-size", 5),
        *("--clip-norm", 0.5, "--learning-rate", 0.01, "--weight-decay", 0.2, "--seed", 3),
        *("--flow", "nsf", "--blocks", 2, "--hidden", "8, 9", "--base", "mixture"),
        *("--components", 4, "--start", "whitening", "--count-clamped"),
        *(
            "--no-rehearse",
            "--noise-bands",
            4,
            "--checkpoint",
            "ckpt",
            "--invalid",
            "replace",
            "--out",
            "m.veil",
        ),
    )
    assert found["out"] == "m.veil"
    assert found["guarantee"]["delta"] == 1e-5
    call = quick[-1]
    assert call.pop("budget").epsilon == 1
    assert str(call.pop("checkpoint")) == "ckpt"
    assert call == {
        "bounds": ([-9, -8], [9, 9]),
        "num_records": 50,
        "training": vf.Training(
            steps=7,
            batch_size=5,
            noise_bands=4,
            clip_norm=0.5,
            learning_rate=0.01,
            weight_decay=0.2,
        ),
        "flow": vf.nsf(blocks=2, hidden=(8, 9)),
        "base": "mixture",
        "num_components": 4,
        "start": "whitening",
        "seed": 3,
        "count_clamped": True,
        "rehearse": False,
        "progress": True,
        "invalid": "replace",
    }
    # and every setting of the library has a flag
    assert SETTINGS - {*call, "budget", "row_norm"} == set()
    rest = {"sampling_rate", "ema_decay", "clipping", "sparsity"}
    rest |= {"optimizer", "schedule", "rate_decay"}
    assert TRAINING - set(call["training"].given) == rest


def test_a_sampling_rate_is_a_flag_of_the_training(veilflow, quick, data):
    done = veilflow(*FIT, "--row-norm", 1, "--sampling-rate", 0.25, "--out", "m.veil")
    assert done.exit_code == 0, done.stderr
    assert quick[-1]["training"] == vf.Training(sampling_rate=0.25)


@pytest.mark.parametrize(
    ("flags", "flow"),
    [
        (("--flow", "maf"), vf.maf()),
        (("--flow", "realnvp", "--hidden", 7), vf.realnvp(hidden=(7,))),
        (("--blocks", 2), vf.maf(blocks=2)),
        (("--hidden", "3,4,5"), vf.maf(hidden=(3, 4, 5))),
    ],
    ids=str,
)
def test_a_flow_is_described_by_flags(flags, flow, veilflow, quick, data):
    done = veilflow(*FIT, "--row-norm", 1, *flags, "--out", "m.veil")
    assert done.exit_code == 0, done.stderr
    assert quick[-1]["flow"] == flow


def test_the_words_of_the_flags_are_those_of_the_library():
    assert tuple(word.value for word in fit.Start) == density_plan.STARTS
    assert tuple(word.value for word in options.InvalidCells) == INVALID
    for word in fit.Base:
        assert vf.DensityFlow(budget=vf.Budget(1.0, 1e-5), bounds=(0, 1), base=str(word))
    for word in fit.Flow:
        assert getattr(vf, str(word))().kind == word


WRONG_FLAGS = {
    "hidden in words": (("--hidden", "a,b"), "--hidden must be whole numbers"),
    "no hidden": (("--hidden", ""), "--hidden must be whole numbers"),
    "hidden of nothing": (("--hidden", "8,0"), "hidden must be at least 1, got 0"),
    "no blocks": (("--blocks", 0), "blocks must be at least 1, got 0"),
}


@pytest.mark.parametrize(("flags", "message"), WRONG_FLAGS.values(), ids=WRONG_FLAGS.keys())
def test_a_flow_that_cannot_be_is_refused_in_one_line(flags, message, veilflow, quick, data):
    refused(veilflow(*FIT, "--row-norm", 1, *flags, "--out", "m.veil"), message)
    assert quick == []


@pytest.mark.parametrize("flags", [("--flow", "iaf"), ("--start", "auto"), ("--base", "none")])
def test_an_unknown_word_is_a_usage_error(flags, veilflow, quick, data):
    done = veilflow(*FIT, "--row-norm", 1, *flags, "--out", "m.veil")
    assert done.exit_code == 2
    assert flags[1] in done.stderr
    assert quick == []


SMALL = ("--low", -9, "--high", 9, "--num-records", 50, "--out", "m.veil")


def test_a_dry_run_prints_the_plan_and_the_price_and_does_nothing(in_json, data, tmp_path):
    before = {path.name for path in tmp_path.iterdir()}
    found = in_json(*FIT, *SMALL, "--base", "normal", "--steps", 20, "--hidden", 4, "--dry-run")
    assert {path.name for path in tmp_path.iterdir()} == before
    estimator = vf.DensityFlow(
        budget=vf.Budget(1.0, 1e-5),
        bounds=([-9, -9], [9, 9]),  # the file has a line for each column
        num_records=50,
        flow=vf.maf(hidden=(4,)),
        base="normal",
        training=vf.Training(steps=20),
    )
    assert found["plan"] == json.loads(json.dumps(plain(estimator.plan(2))))
    assert 0.95 < found["guarantee"]["epsilon"] <= 1
    assert [entry["purpose"] for entry in found["ledger"]] == [
        "histograms of columns",
        "moments",
        "training",
        "distance of grid noise from Gaussian",
    ]
    assert "out" not in found


def test_a_dry_run_is_the_same_whatever_the_rows_are(in_json, data, tmp_path):
    first = in_json(*FIT, *SMALL, "--dry-run")
    (tmp_path / data).write_text("a,b\n1e9,-1e9\n")
    assert in_json(*FIT, *SMALL, "--dry-run") == first


def test_a_dry_run_refuses_what_a_fit_would_refuse_and_neither_is_counted(veilflow, data, tmp_path):
    words = ("fit", "density", data, "--epsilon", 1e-7, "--delta", 1e-9, *SMALL)
    flags = ("--start", "actnorm", "--steps", 0)
    message = "there is no grid of whole numbers"
    journal = ("--data-ledger", "spent", "--dataset", "people")
    for more in ((), ("--dry-run",), journal):
        refused(veilflow(*words, *flags, *more), message, code=1)
    assert not (tmp_path / "spent").exists()


def test_a_dry_run_for_people_says_that_nothing_was_spent(veilflow, data, monkeypatch):
    monkeypatch.setattr(vf.DensityFlow, "fit", lambda *_, **__: pytest.fail("it was fitted"))
    done = veilflow(*FIT, *SMALL, "--dry-run")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("nothing was spent")
    for text in ("differential privacy", "pure (epsilon", "grid: dim 2, bits "):
        assert text in done.stdout


@pytest.mark.filterwarnings("default::veilflow.NotPrivateWarning")
def test_a_fit_without_privacy_is_asked_for_by_an_infinite_epsilon(in_json, data):
    words = ("fit", "density", data, "--epsilon", "inf", "--delta", 1e-5, *SMALL)
    assert in_json(*words)["guarantee"]["epsilon"] == "inf"
    assert in_json("inspect", "m.veil", "--recompute")["recomputed"]["holds"] is True
    assert in_json("inspect", "m.veil")["guarantee"]["epsilon"] == "inf"


def test_fit_reads_bounds_from_a_file_by_column_name(veilflow, quick, data, tmp_path):
    (tmp_path / "bounds.toml").write_text("b = [-2, 2.5]\na = [-1, 1]\n")
    done = veilflow(*FIT, "--bounds", "bounds.toml", "--out", "m.veil")
    assert done.exit_code == 0, done.stderr
    assert quick[-1]["bounds"] == ([-1, -2], [1, 2.5])


def test_fit_takes_a_row_norm_instead_of_bounds(veilflow, quick, data):
    assert veilflow(*FIT, "--row-norm", 1, "--out", "m.veil").exit_code == 0
    assert quick[-1]["row_norm"] == 1
    assert quick[-1]["bounds"] is None


def test_settings_that_are_not_given_keep_the_defaults_of_the_library(veilflow, quick, data):
    assert veilflow(*FIT, "--row-norm", 1, "--out", "m.veil").exit_code == 0
    assert quick[-1].keys().isdisjoint(SETTINGS - NOT_PLANNED)
    assert quick[-1]["training"] == vf.Training()


def test_fit_can_use_some_of_the_columns(veilflow, quick, data, in_json):
    flags = ("--columns", "b, a", "--low", "-1,-2", "--high", "1,2", "--out", "m.veil")
    assert veilflow(*FIT, *flags).exit_code == 0
    assert in_json("inspect", "m.veil")["schema"] == {"columns": ["b", "a"]}


def test_fit_for_people_states_the_guarantee_and_its_assumptions(veilflow, quick, data):
    done = veilflow(*FIT, "--row-norm", 1, "--out", "m.veil")
    assert "wrote m.veil" in done.stdout
    assert "differential privacy, add-remove one row, by PLD" in done.stdout
    assert "assuming: a test" in done.stdout


def test_fit_refuses_to_replace_a_file_before_anything_is_spent(veilflow, quick, data, tmp_path):
    (tmp_path / "m.veil").write_text("precious")
    refused(veilflow(*FIT, "--row-norm", 1, "--out", "m.veil"), "--force.*Nothing was done")
    assert (tmp_path / "m.veil").read_text() == "precious"
    assert quick == []
    assert veilflow(*FIT, "--row-norm", 1, "--out", "m.veil", "--force").exit_code == 0


OUTS = {
    "the data": (("--out", "data.csv", "--force"), "is the file that is read"),
    "a folder": (("--out", "."), "not a file"),
    "in no folder": (("--out", "no/m.veil"), "does not exist"),
}


@pytest.mark.parametrize(("flags", "message"), OUTS.values(), ids=OUTS.keys())
def test_fit_refuses_an_output_it_cannot_write_before_anything_is_spent(
    flags, message, veilflow, quick, data, tmp_path
):
    before = (tmp_path / "data.csv").read_bytes()
    refused(veilflow(*FIT, "--row-norm", 1, *flags), message)
    assert quick == []
    assert (tmp_path / "data.csv").read_bytes() == before


BOUNDS = {
    "one side": (("--low", 0), "both --low and --high"),
    "words": (("--low", "a,b", "--high", 1), "numbers with commas"),
    "three of two": (("--low", "1,2,3", "--high", 1), "one number or 2"),
    "two kinds": (("--low", 0, "--high", 1, "--bounds", "b.toml"), "not both"),
    "no such column": (("--bounds", "b.toml", "--columns", "a"), "bounds 'b', but there is no"),
    "unknown column": (("--columns", "a,z", "--row-norm", 1), "no column 'z'"),
}


@pytest.mark.parametrize(("flags", "message"), BOUNDS.values(), ids=BOUNDS.keys())
def test_bounds_that_do_not_fit_the_columns_are_refused(
    flags, message, veilflow, quick, data, tmp_path
):
    (tmp_path / "b.toml").write_text("a = [0, 1]\nb = [0, 1]\n")
    refused(veilflow(*FIT, *flags, "--out", "m.veil"), message)
    assert quick == []


TOMLS = {
    "not toml": ("a = [", "not valid TOML"),
    "a column left out": ("a = [0, 1]", "column 'b' has no bounds"),
    "one number": ("a = [0, 1]\nb = 3", "b must be two numbers"),
    "true": ("a = [0, 1]\nb = [false, true]", "b must be two numbers"),
    "text": ("a = [0, 1]\nb = ['x', 1]", "b must be two numbers"),
}


@pytest.mark.parametrize(("text", "message"), TOMLS.values(), ids=TOMLS.keys())
def test_a_bounds_file_with_mistakes_is_refused_by_column(
    text, message, veilflow, quick, data, tmp_path
):
    (tmp_path / "b.toml").write_text(text)
    refused(veilflow(*FIT, "--bounds", "b.toml", "--out", "m.veil"), message)


def test_data_that_cannot_be_used_is_refused_without_showing_it(veilflow, quick, tmp_path):
    (tmp_path / "data.csv").write_text("a,name\n1,Ann\n2,Bob\n")
    done = veilflow(*FIT, "--row-norm", 1, "--out", "m.veil")
    refused(done, "column 2 of 2 is not numeric")
    assert "Ann" not in done.stderr
    assert quick == []


def test_a_budget_of_nothing_is_refused(veilflow, quick, data):
    done = veilflow("fit", "density", data, "--epsilon", 0, "--delta", 1e-5, "--out", "m.veil")
    refused(done, "epsilon must be positive")


def test_a_missing_data_file_is_one_line(veilflow, quick):
    refused(veilflow(*FIT, "--row-norm", 1, "--out", "m.veil"), "no file data.csv", code=1)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz", ".arrow"])
def test_sample_writes_rows_with_the_columns_of_the_model(suffix, in_json, model, tmp_path):
    found = in_json("sample", model, "-n", 30, "--out", f"s{suffix}", "--seed", 1)
    assert found["num_rows"] == 30
    assert [a["sentence"] for a in found["guarantee"]["assumptions"]] == ["a test"]
    rows = read_rows(tmp_path / f"s{suffix}")
    assert rows.columns == ("a", "b")
    np.testing.assert_array_equal(rows.values, np.random.default_rng(1).standard_normal((30, 2)))


def test_sample_does_not_replace_a_file_unless_told_to(veilflow, model, tmp_path):
    flags = ("sample", model, "-n", 3, "--out", "data.csv")
    before = (tmp_path / "data.csv").read_bytes()
    refused(veilflow(*flags), "exists")
    assert (tmp_path / "data.csv").read_bytes() == before
    assert veilflow(*flags, "--force").exit_code == 0
    refused(veilflow("sample", model, "--out", model, "--force"), "is the file that is read")


def test_sample_shows_its_progress_to_people_and_keeps_it_out_of_logs(veilflow, model, monkeypatch):
    done = veilflow("sample", model, "--rows", 30, "--out", "1.csv")
    assert done.stderr == ""
    monkeypatch.setenv("FORCE_COLOR", "1")
    done = veilflow("sample", model, "--rows", 30, "--out", "2.csv", "--json")
    assert "sampling" in done.stderr
    assert "30/30" in done.stderr
    assert json.loads(done.stdout)["num_rows"] == 30


def test_an_interrupted_sample_leaves_an_old_file_and_no_new_one(
    veilflow, model, monkeypatch, tmp_path
):
    from tests.cli import stand_in

    def interrupted(self, path, n, *, seed, monitor):
        def chunks():
            yield np.zeros((n, 2))
            raise KeyboardInterrupt

        write_chunks(chunks(), path, num_rows=n, dim=2)

    monkeypatch.setattr(stand_in.FittedDensityFlow, "sample_to", interrupted)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for out in ("data.csv", "new.parquet"):
        done = veilflow("sample", model, "-n", 3, "--out", out, "--force")
        assert done.exit_code != 0
        assert "wrote" not in done.stdout
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_an_unknown_suffix_of_the_output_is_refused(veilflow, model):
    refused(veilflow("sample", model, "--out", "s.xlsx"), "suffix of s.xlsx")


def test_score_writes_scores_and_prints_nothing_about_the_rows(veilflow, model, data, tmp_path):
    done = veilflow("score", model, data, "--out", "scores.csv")
    assert done.exit_code == 0, done.stderr
    assert done.stdout == "wrote scores.csv\n"
    assert "as private as they are" in done.stderr
    scores = read_rows(tmp_path / "scores.csv")
    assert scores.columns == ("log_prob",)
    values = read_rows(tmp_path / data).values
    expected = -0.5 * (values**2).sum(axis=1) - np.log(2 * np.pi)
    np.testing.assert_allclose(scores.values[:, 0], expected)


def test_score_prints_the_mean_only_when_asked_to(in_json, model, data, tmp_path):
    quiet = in_json("score", model, data, "--out", "1.csv")
    assert set(quiet) == {"out", "protected", "warning"}
    assert quiet["protected"] is False
    loud = in_json("score", model, data, "--out", "2.csv", "--reveal")
    assert loud["mean_log_prob"] == pytest.approx(read_rows(tmp_path / "2.csv").values.mean())


def test_score_finds_the_columns_of_the_model_by_name(veilflow, model, tmp_path):
    (tmp_path / "d.csv").write_text("b,name,a\n0,Ann,3\n")
    assert veilflow("score", model, "d.csv", "--out", "s.csv").exit_code == 0
    (tmp_path / "e.csv").write_text("b,name\n0,Ann\n")
    refused(veilflow("score", model, "e.csv", "--out", "t.csv"), "no column 'a'")


def test_inspect_shows_model_guarantee_ledger_and_schema(veilflow, model):
    done = veilflow("inspect", model)
    assert done.exit_code == 0, done.stderr
    for text in (
        "model DensityFlow, 2 parameters",
        "differential privacy, add-remove one row, by PLD",
        "assuming: a test",
        "20 x Poisson batch (rate 0.01), gaussian (noise multiplier 4)",
        "100.0%",
        "columns: ['a', 'b']",
    ):
        assert text in done.stdout


def test_inspect_prints_one_object(in_json, model):
    found = in_json("inspect", model)
    assert found["model"] == "DensityFlow"
    assert found["schema"] == {"columns": ["a", "b"]}
    (entry,) = found["ledger"]
    assert entry["purpose"] == "training"
    assert entry["share"] == 1
    assert "recomputed" not in found


def test_recomputing_confirms_an_honest_claim(in_json, veilflow, model):
    found = in_json("inspect", model, "--recompute")
    assert found["recomputed"]["holds"] is True
    assert found["recomputed"]["epsilon"] == pytest.approx(found["guarantee"]["epsilon"])
    assert "the claim holds" in veilflow("inspect", model, "--recompute").stdout


def test_recomputing_by_a_looser_accountant_is_a_comparison_and_not_a_verdict(in_json, model):
    found = in_json("inspect", model, "--recompute", "--accountant", "rdp")
    assert found["recomputed"]["holds"] is None
    assert found["recomputed"]["epsilon"] > found["guarantee"]["epsilon"]


def test_recomputing_exposes_a_claim_that_is_too_low(veilflow, model, tmp_path):
    from tests.models.test_artifact import changed

    path = tmp_path / model
    changed(path, "manifest.json", lambda d: d["guarantee"].update(epsilon=0.001))
    assert veilflow("inspect", model).exit_code == 0
    done = veilflow("inspect", model, "--recompute")
    assert done.exit_code == 1
    assert "THE CLAIM IS TOO LOW" in done.stdout
    assert done.stderr.startswith("error: the file claims epsilon=0.001")
    done = veilflow("inspect", model, "--recompute", "--json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["recomputed"]["holds"] is False


def test_text_from_a_file_cannot_rewrite_the_terminal(veilflow, model, tmp_path):
    from tests.models.test_artifact import changed

    changed(tmp_path / model, "schema.json", lambda d: d.update({"\x1b[2Jgone": "[red]x[/red]"}))
    done = veilflow("inspect", model)
    assert done.exit_code == 0
    assert "\x1b" not in done.stdout
    assert "[red]x[/red]" in done.stdout


@pytest.mark.parametrize("content", [b"", b"garbage", b"PK\x03\x04garbage"])
@pytest.mark.parametrize("words", [("inspect",), ("sample",), ("score", "data.csv")], ids=str)
def test_a_damaged_model_file_is_one_line_on_standard_error(
    content, words, veilflow, data, tmp_path
):
    (tmp_path / "x.veil").write_bytes(content)
    out = () if words[0] == "inspect" else ("--out", "o.csv")
    done = veilflow(words[0], "x.veil", *words[1:], *out)
    refused(done, "model file", code=1)
    assert not (tmp_path / "o.csv").exists()


def test_a_warning_of_the_library_is_a_note_and_not_a_traceback(veilflow, model, monkeypatch):
    import warnings

    from tests.cli import stand_in

    def warned(self, n, *, seed=None):
        warnings.warn("delta is weak", stacklevel=2)
        return np.zeros((n, 2))

    monkeypatch.setattr(stand_in.FittedDensityFlow, "sample", warned)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        done = veilflow("sample", model, "-n", 2, "--out", "s.csv", "--json")
    assert done.stderr == "warning: delta is weak\n"
    assert json.loads(done.stdout)["num_rows"] == 2
