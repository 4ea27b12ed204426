"""`fit classifier` and `classify`: labels in, predictions out, and CONDITIONAL where it is due."""

import re

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

import veilflow as vf
from veilflow.cli import classifier
from veilflow.engine.optimizer import OPTIMIZERS, SCHEDULES
from veilflow.models.expm.classifier_plan import MODELS
from veilflow.releases.expm.draw import SAMPLERS, ExponentialDraw, sampler_of
from veilflow.releases.expm.flow_sampler import FLOWS, FlowSampler
from veilflow.releases.expm.hmc import HmcSampler
from veilflow.releases.expm.loss import LOSSES

FIT = ("fit", "classifier", "data.csv", "--label", "answer", "--classes", "no, yes")
SPEND = ("--epsilon", 50, "--prior-scale", 3, "--low", -1, "--high", 1, "--num-records", 200)
NEW = (*FIT, *SPEND, "--out", "m.veil")
SLOW = vf.engine.Optimizer(learning_rate=1e-2, schedule="constant")
TINY = {
    "flow": FlowSampler(flow="planar", blocks=1, steps=2, samples=4),
    "hmc": HmcSampler(warmup=4, steps=2, leapfrogs=1),
}


@pytest.fixture
def answers(veilflow, tmp_path):
    """A file of two features and a label; returns its rows."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1, 1, (200, 2))
    words = np.where(rows[:, 0] > 0, "yes", "no")
    table = pa.table({"a": rows[:, 0], "answer": words, "b": rows[:, 1]})
    csv.write_csv(table, tmp_path / "data.csv")
    return rows


@pytest.fixture
def few(monkeypatch):
    """Few candidates and steps, so that a fit takes no time."""
    monkeypatch.setattr(
        "veilflow.models.expm.classifier.sampler_of",
        lambda name: TINY.get(name) or vf.expm.ZoomSampler(num_candidates=256, rounds=4),
    )


def refused(done, message, code=2):
    assert done.exit_code == code, done.stderr
    assert done.stdout == ""
    assert re.search(message, done.stderr), done.stderr


def test_words_are_those_of_the_library():
    assert tuple(classifier.Sampler) == tuple(SAMPLERS)
    assert tuple(classifier.Model) == MODELS
    assert tuple(classifier.Loss) == LOSSES
    assert tuple(classifier.Flow) == FLOWS
    assert tuple(classifier.Optimizer) == OPTIMIZERS
    assert tuple(classifier.Schedule) == SCHEDULES
    assert all(sampler_of(name).name == name for name in SAMPLERS)


def test_a_classifier_is_fitted_and_tells_classes(in_json, veilflow, answers, few, tmp_path):
    found = in_json(*NEW)
    assert found["guarantee"]["delta"] == 0
    assert found["guarantee"]["epsilon"] == pytest.approx(50)
    model = vf.load(tmp_path / "m.veil")
    assert model.columns == ("a", "b")
    assert model.classes == ("no", "yes")
    told = in_json("classify", "m.veil", "data.csv", "--out", "said.csv")
    assert told["protected"] is False
    assert told["conditional"] is False
    said = csv.read_csv(tmp_path / "said.csv")
    assert said.column_names == ["class", "p(no)", "p(yes)"]
    truth = np.where(answers[:, 0] > 0, "yes", "no")
    assert (np.array(said["class"]) == truth).mean() > 0.9
    np.testing.assert_allclose(
        np.array(said["p(yes)"]), model.predict_proba(answers)[:, 1], atol=1e-6
    )
    assert (tmp_path / "said.csv").stat().st_mode & 0o077 == 0
    refused(veilflow("classify", "m.veil", "data.csv", "--out", "said.csv"), "--force")


@pytest.mark.parametrize("sampler", ["flow", "hmc"])
def test_conditional_is_said_by_every_command(sampler, in_json, veilflow, answers, few):
    sentence = str(sampler_of(sampler).assumption)
    assert sentence.startswith("CONDITIONAL: ")
    words = (*NEW, "--sampler", sampler)
    dry = veilflow(*words, "--dry-run")
    done = veilflow(*words)
    told = veilflow("classify", "m.veil", "data.csv", "--out", "said.csv")
    shown = veilflow("inspect", "m.veil")
    for each in (dry, done, told, shown):
        assert each.exit_code == 0, each.stderr
        assert sentence in each.stdout
    again = in_json("classify", "m.veil", "data.csv", "--out", "said.parquet")
    assert again["conditional"] is True
    assert sentence in [a["sentence"] for a in again["guarantee"]["assumptions"]]
    shown = in_json("inspect", "m.veil")["guarantee"]["assumptions"]
    assert sentence in [one["sentence"] for one in shown]


FLOW = ("--sampler", "flow", "--flow", "planar", "--blocks", 1, "--samples", 4)
HASTY = (*FLOW, "--steps", 2, "--learning-rate", 0.5, "--optimizer", "rmsprop")


def test_the_settings_of_a_sampler_are_flags(veilflow, answers, tmp_path):
    done = veilflow(*NEW, *HASTY)
    assert done.exit_code == 0, done.stderr
    sampler = vf.load(tmp_path / "m.veil").plan.release(ExponentialDraw).sampler
    rate = vf.engine.Optimizer(name="rmsprop", learning_rate=0.5)
    assert sampler == FlowSampler(flow="planar", blocks=1, samples=4, steps=2, optimizer=rate)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("flow", "--schedule", "constant"), FlowSampler(optimizer=SLOW)),
        (("hmc", "--transitions", 7), HmcSampler(steps=7)),
        (("rejection", "--max-trials", 9), vf.expm.RejectionSampler(max_trials=9)),
        (("grid", "--per-axis", 5), vf.expm.GridSampler(per_axis=5)),
    ],
)
def test_settings_that_are_left_out_keep_their_default(
    flags, expected, veilflow, answers, monkeypatch
):
    given = []
    monkeypatch.setattr(
        "veilflow.models.expm.classifier.sampler_of", lambda x: given.append(x) or TINY["hmc"]
    )
    done = veilflow(*NEW, "--dry-run", "--sampler", *flags)
    assert done.exit_code == 0, done.stderr
    assert given[0] == expected


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--blocks", 2), "--blocks is a setting of --sampler flow, and the sampler is zoom"),
        (("--learning-rate", 0.1), "--learning-rate is a setting of --sampler flow"),
        (("--sampler", "flow", "--transitions", 2), "--transitions is a setting of --sampler hmc"),
        (("--sampler", "flow", "--blocks", 0), "blocks must be"),
    ],
)
def test_settings_of_another_sampler_are_refused(flags, message, veilflow, answers):
    refused(veilflow(*NEW, *flags), message)


def test_a_diagnosis_is_of_public_records_and_writes_no_model(in_json, veilflow, answers, tmp_path):
    (tmp_path / "public.csv").write_text((tmp_path / "data.csv").read_text())
    words = (*NEW, *HASTY, "--diagnose")
    found = in_json(*words, "public.csv")
    assert any("total_variation" in objection for objection in found["objections"])
    assert 0.1 < found["total_variation"] <= 1
    assert {"effective_share", "pareto_k", "tail_share", "stein_p_value"} < set(found)
    assert not (tmp_path / "m.veil").exists()
    shown = veilflow(*words, "public.csv").stdout
    assert "objection: " in shown
    assert "CONDITIONAL" in shown
    refused(veilflow(*words, "data.csv"), "to be protected")
    refused(veilflow(*NEW, "--diagnose", "public.csv"), "trains no flow")


def test_a_dry_run_spends_nothing_and_knows_the_price(in_json, answers, few, tmp_path):
    found = in_json(*NEW, "--dry-run", "--num-models", 2)
    assert found["guarantee"]["epsilon"] == pytest.approx(50)
    assert [entry["purpose"] for entry in found["ledger"]] == ["parameters"]
    assert not (tmp_path / "m.veil").exists()


def test_series_come_as_arrays(in_json, veilflow, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "veilflow.models.expm.classifier.sampler_of",
        lambda name: vf.expm.ZoomSampler(num_candidates=8, rounds=1),
    )
    mask = np.ones((6, 3, 2))
    arrays = {"values": mask / 2, "mask": mask, "since": mask, "labels": np.arange(6) % 2}
    np.savez(tmp_path / "series.npz", **arrays)
    words = ("fit", "classifier", "series.npz", "--classes", "0,1", "--model", "grud")
    in_json(*words, *SPEND, "--out", "g.veil")
    told = in_json("classify", "g.veil", "series.npz", "--out", "said.csv")
    assert any("floating-point" in one["sentence"] for one in told["guarantee"]["assumptions"])
    assert csv.read_csv(tmp_path / "said.csv").num_rows == 6
    refused(veilflow(*words, *SPEND, "--label", "x", "--out", "h.veil"), "names nothing")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((*FIT[:3], "--classes", "no,yes", *SPEND), "give --label"),
        ((*FIT[:3], "--label", "c", "--classes", "no,yes", *SPEND), "not a column"),
        ((*FIT, *SPEND, "--columns", "a,answer"), "is the label"),
        ((*FIT[:5], "--classes", "no,maybe", *SPEND), "declared classes"),
        ((*FIT, "--epsilon", 1, "--prior-scale", 3), "give --bounds"),
        ((*FIT, *SPEND, "--epsilon", 0), "epsilon must be positive"),
        ((*FIT, *SPEND, "--epsilon", "inf"), "epsilon must be finite"),
    ],
)
def test_what_does_not_fit_is_refused(words, message, veilflow, answers, few):
    refused(veilflow(*words, "--out", "m.veil"), message)


def test_only_classifiers_tell_classes(veilflow, model):
    refused(veilflow("classify", model, "data.csv", "--out", "said.csv"), "no classifier")
    refused(veilflow("classify", model, "data.csv", "--out", "said.npz"), "may be texts")
