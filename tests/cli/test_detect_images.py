"""`detect fit` and `detect query` of image models: folders and arrays in, a flag for each image out."""

import re
import stat

import numpy as np
import pytest
from pyarrow import csv

import veilflow as vf
from tests.models.image import small
from veilflow.images.write import write_images
from veilflow.privacy.events import ExponentialMechanism
from veilflow.releases.quantile import Quantile

FIT = ("detect", "fit", "m.veil", "--out", "d.veil", "--label", "dot", "--seed", 1)
ASK = ("detect", "query", "d.veil")
OUT = ("--out", "flags.csv")
DOTS = small.pixels()[small.places() == 1]


@pytest.fixture
def folder(veilflow, tmp_path, monkeypatch):
    """A model of three classes, one without, and their images in every form that is read."""
    small.drawn().save(tmp_path / "m.veil")
    small.drawn("unlabeled").save(tmp_path / "u.veil")
    write_images(small.images(), tmp_path / "by_class")
    write_images(small.images(), tmp_path / "labeled.npz")
    write_images(small.images(small.BARE), tmp_path / "flat")
    np.save(tmp_path / "array.npy", small.pixels())
    (tmp_path / "empty").mkdir()
    whole = vf.LikelihoodDetector.from_samples
    monkeypatch.setattr(
        vf.LikelihoodDetector, "from_samples", lambda self, *, seed: whole(self, 500, seed=seed)
    )
    return tmp_path


def refused(done, message, code=2):
    assert done.exit_code == code, done.stderr
    assert done.stdout == ""
    assert re.search(message, done.stderr), done.stderr


def said(folder):
    return csv.read_csv(folder / "flags.csv")


def test_images_of_every_form_are_flagged_one_by_one(in_json, folder):
    made = in_json(*FIT, "--false-alarm-rate", 0.1)
    detector = vf.load(folder / "d.veil")
    assert (made["from"], made["threshold"]) == ("samples", detector.threshold)
    assert detector.ledger == small.drawn().ledger
    scores = detector.score(small.pixels())
    assert 0 < detector.is_odd(scores).sum() < len(scores)
    for name in ("array.npy", "labeled.npz", "flat"):
        assert in_json(*ASK, name, *OUT, "--force")["protected"] is False
        assert said(folder).column_names == ["odd", "score"]
        assert np.allclose(np.array(said(folder)["score"]), scores, rtol=1e-5)
        assert np.array(said(folder)["odd"]).tolist() == detector.is_odd(scores).tolist()
    assert stat.S_IMODE((folder / "flags.csv").stat().st_mode) == 0o600
    in_json(*ASK, "by_class", *OUT, "--force")  # whose order is another
    assert np.allclose(np.sort(said(folder)["score"]), np.sort(scores), rtol=1e-5)


def test_a_model_without_classes_needs_no_label(in_json, veilflow, folder):
    in_json("detect", "fit", "u.veil", "--out", "d.veil", "--seed", 1)
    in_json(*ASK, "flat", *OUT)
    assert said(folder).num_rows == small.NUM_IMAGES
    refused(veilflow(*ASK, "by_class", *OUT, "--force"), "Declare classes")
    refused(veilflow("detect", "fit", "u.veil", "--out", "x.veil", "--label", "dot"), "no labels")


@pytest.mark.parametrize("source", ["by_class", "labeled.npz"])
def test_images_of_the_class_set_the_threshold(source, veilflow, in_json, folder):
    wanted = vf.LikelihoodDetector(small.drawn(), label="dot", false_alarm_rate=0.1)
    found = in_json(*FIT, "--public", source, "--false-alarm-rate", 0.1)
    assert found["threshold"] == pytest.approx(wanted.from_public(DOTS).threshold, rel=1e-6)
    every = wanted.from_public(small.pixels()).threshold
    assert abs(found["threshold"] - every) > 1e-3  # which no class told would give
    done = veilflow(*FIT, "--public", "flat", "--false-alarm-rate", 0.1, "--force")
    assert done.exit_code == 0
    assert vf.load(folder / "d.veil").threshold == pytest.approx(every, rel=1e-6)
    assert "class dot" not in done.stderr
    done = veilflow(*FIT, "--public", source, "--false-alarm-rate", 0.1, "--force")
    assert "the images of class dot set the threshold" in done.stderr


def test_a_private_threshold_is_paid_for_even_if_there_is_no_image(in_json, folder):
    for name in ("by_class", "empty"):
        ledger = ("--data-ledger", f"{name}.jsonl", "--dataset", "shapes")
        in_json(*FIT, "--private", name, "--epsilon", 2, *ledger, "--force")
        assert vf.load(folder / "d.veil").plan.release(Quantile).event == ExponentialMechanism(2.0)
        (total,) = in_json("spending", f"{name}.jsonl", "--delta", 0)["datasets"]
        assert total["guarantee"]["epsilon"] == pytest.approx(2, rel=1e-3)


def test_numbered_classes_are_named_by_their_number(in_json, folder, monkeypatch):
    spec = vf.ImageSpec(height=6, width=6, classes=(7, 8, 9))
    with small.untrained():
        model = small.estimator(spec=spec).fit(small.pixels(), small.places() + 7, progress=False)
    model.save(folder / "m.veil")
    np.savez(folder / "n.npz", images=small.pixels(), labels=small.places() + 7)
    words = ("detect", "fit", "m.veil", "--out", "d.veil", "--label", 8, "--public", "n.npz")
    found = in_json(*words, "--false-alarm-rate", 0.1)
    wanted = vf.LikelihoodDetector(model, label=8, false_alarm_rate=0.1).from_public(DOTS)
    assert found["threshold"] == pytest.approx(wanted.threshold, rel=1e-6)


def test_slips_are_refused_kindly(veilflow, folder):
    refused(veilflow(*FIT[:5]), "label must name the class")
    refused(veilflow(*FIT[:5], "--label", "cat"), "Classes are 'bar', 'dot', 'frame'")
    assert veilflow(*FIT).exit_code == 0
    refused(veilflow(*ASK, "array.npy", *OUT, "--explain"), "an image has no columns")
    refused(veilflow(*ASK, "empty", *OUT), "empty has no images")
    refused(veilflow(*ASK, "gone", *OUT), "no file or folder gone", code=1)
    (folder / "rows.csv").write_text("a,b\n1,2\n")
    refused(veilflow(*ASK, "rows.csv", *OUT), "is of a kind that is not read")
    np.save(folder / "wide.npy", np.zeros((2, 5, 9), np.uint8))
    refused(veilflow(*ASK, "wide.npy", *OUT), "6 x 6 is declared")
    few = veilflow(*FIT, "--public", "by_class", "--force")
    refused(few, "needs the number of public rows to be at least 99")
    (folder / "labeled.npz").write_bytes(b"PK\x03\x04 not a zip")
    assert veilflow(*ASK, "labeled.npz", *OUT).exit_code in (1, 2)
    assert not (folder / "flags.csv").exists()
