"""`veilflow audit` for every kind of model: an attack that means something, or a word of advice."""

import dataclasses
import json
import struct
from functools import partial
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

import veilflow as vf
from tests.cli.test_detect import COUNTED
from tests.cli.test_posterior import NEW as FIT_POSTERIOR
from tests.cli.test_posterior import refused
from tests.models.detect.models import mixture
from tests.models.image import small
from veilflow.audit import membership
from veilflow.cli import audit as command
from veilflow.images import Images, read_images
from veilflow.images.write import write_images
from veilflow.tabular import Rows, write_rows

SPEC = vf.ImageSpec(height=6, width=6, classes=(0, 1, 2))
SIDES = ("in", "out")
NPZ = ("--data", "in.npz", "--holdout", "out.npz")
FOLDERS = ("--data", "in", "--holdout", "out")
IDX = ("--data", "in-images-idx3-ubyte", "--holdout", "out-images-idx3-ubyte")
IDX_LABELS = ("--labels", "in-labels.idx", "--holdout-labels", "out-labels.idx")
CSV = ("--data", "in.csv", "--holdout", "out.csv")


def write_idx(array, path):
    """Bytes as an IDX file."""
    head = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    path.write_bytes(head + array.astype(np.uint8).tobytes())


@pytest.fixture(scope="module")
def image_model():
    """A model of images with the claim of epsilon 1, whose numbers are some or other."""
    budget = vf.Budget(epsilon=1.0, delta=1e-3)
    with small.untrained():
        return small.estimator(spec=SPEC, budget=budget).fit(
            read_images(small.pixels(), SPEC, labels=small.places()), progress=False
        )


@pytest.fixture
def images(veilflow, image_model, tmp_path):
    """The model and images of both sides, in files of every kind; returns the images."""
    found = []
    for seed, side in enumerate(SIDES):
        pixels = small.pixels(seed=seed)
        found.append(read_images(pixels, SPEC, labels=small.places()))
        write_images(found[-1], tmp_path / f"{side}.npz")
        write_images(found[-1], tmp_path / side)
        write_idx(pixels, tmp_path / f"{side}-images-idx3-ubyte")
        write_idx(small.places(), tmp_path / f"{side}-labels.idx")
    image_model.save(tmp_path / "m.veil")
    return found


def test_words_are_those_of_the_library():
    assert tuple(command.Method) == membership.METHODS


@pytest.mark.parametrize("files", [NPZ, FOLDERS, (*IDX, *IDX_LABELS)], ids=["npz", "folder", "idx"])
def test_images_are_scored_whatever_file_they_are_in(in_json, images, files):
    for words, name in (((), "reconstruction"), (("--method", "density"), "density of codes")):
        found = in_json("audit", "m.veil", *files, *words)
        assert found["method"] == name
        assert found["internal"] is True
        assert found["counts"]["canaries"] == 2 * small.NUM_IMAGES
        assert found["lower_bound"] <= found["claimed"] <= 1
        # the same images in another order
        other = in_json("audit", "m.veil", *NPZ, *words)
        assert found["scores"]["auc"] == pytest.approx(other["scores"]["auc"])


def test_an_image_model_that_knows_its_images_is_refuted(veilflow, images, monkeypatch):
    inside = {image.tobytes() for image in images[0].pixels}

    def is_known(found):
        return np.array([image.tobytes() in inside for image in found.pixels])

    def knowing(self, found):
        # classes are far apart, and members a little above others of their class
        return 100.0 * found.labels + is_known(found)

    def telling(self, found):
        known = is_known(found)[:, None, None, None]
        return Images(np.where(known, found.pixels, 0).astype(np.uint8), found.labels, SPEC)

    monkeypatch.setattr(vf.FittedImageFlow, "log_prob", knowing)
    monkeypatch.setattr(vf.FittedImageFlow, "reconstruct", telling)
    for method in ("density", "reconstruction"):
        done = veilflow("audit", "m.veil", *NPZ, "--method", method, "--json")
        assert done.exit_code == 1
        assert json.loads(done.stdout)["scores"]["auc"] == 1
        assert "REFUTED" in done.stderr


def test_synthetic_images_are_compared_pixel_by_pixel(in_json, veilflow, images, monkeypatch):
    monkeypatch.setattr("veilflow.audit.rows.how_many", lambda model, most: 60)
    found = in_json("audit", "m.veil", *NPZ, "--method", "synthetic")
    assert found["method"] == "nearest synthetic image"
    assert found["lower_bound"] <= found["claimed"]
    monkeypatch.setattr(vf.FittedImageFlow, "sample", lambda *_, **__: images[0])
    done = veilflow("audit", "m.veil", *NPZ, "--method", "synthetic")
    assert done.exit_code == 1
    assert "REFUTED" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (IDX, "Name their files by --labels"),
        ((*NPZ, "--reference", "m.veil"), "codes have other coordinates"),
        ((*NPZ, "--column", "age"), "a FittedImageFlow is neither"),
        ((*NPZ, "--method", "label"), "for classifiers"),
        ((*NPZ, "--reference", "m.veil", "--method", "synthetic"), "density and label"),
        ((*NPZ, "--label", "age"), "--label is for classifiers"),
    ],
)
def test_what_is_not_for_images_is_refused(veilflow, images, words, message):
    refused(veilflow("audit", "m.veil", *words), message)


@pytest.fixture(scope="module")
def classifier():
    """A classifier that is sure of itself, with the claim of epsilon 1."""
    rows = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    fitted = vf.ExpMechClassifier(
        budget=vf.Budget(epsilon=1.0, delta=0.0),
        prior=vf.GaussianPrior(3.0),
        sampler=vf.expm.ZoomSampler(num_candidates=64, rounds=2),
        classes=(0, 1),
        bounds=(-1, 1),
        num_records=200,
    ).fit(rows, rows[:, 0] > 0, progress=False)
    steep = np.zeros_like(fitted.thetas)
    steep[:, 0] = 20.0
    return dataclasses.replace(fitted, parameters=fitted.parameters._replace(thetas=steep))


@pytest.fixture
def labeled(veilflow, classifier, tmp_path):
    """The classifier, and records with its answers, in one file, and with others in another."""
    classifier.save(tmp_path / "m.veil")
    for seed, side in enumerate((*SIDES, "wrong")):
        rows = np.random.default_rng(seed).uniform(-1, 1, (100, 2))
        label = (classifier.predict(rows) + (side == "wrong")) % 2
        table = pa.table({"a": rows[:, 0], "answer": label, "b": rows[:, 1]})
        csv.write_csv(table, tmp_path / f"{side}.csv")


def test_a_classifier_is_audited_by_how_sure_it_is_of_labels(in_json, veilflow, labeled):
    found = in_json("audit", "m.veil", *CSV, "--label", "answer")
    assert found["method"] == "label"
    assert found["counts"]["canaries"] == 200
    assert found["delta"] == 0
    assert found["lower_bound"] <= found["claimed"]
    ratio = in_json("audit", "m.veil", *CSV, "--label", "answer", "--reference", "m.veil")
    assert ratio["method"] == "label ratio"
    assert ratio["scores"]["auc"] == 0.5
    wrong = ("--data", "in.csv", "--holdout", "wrong.csv", "--label", "answer")
    done = veilflow("audit", "m.veil", *wrong)
    assert done.exit_code == 1
    assert "REFUTED" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "Name their column: --label"),
        (("--label", "c"), "is not a column"),
        (("--label", "answer", "--method", "synthetic"), "how sure it is of labels"),
        (("--label", "answer", "--method", "density"), "how sure it is of labels"),
        (("--label", "answer", "--column", "a"), "is neither"),
        (("--label", "answer", "--reference", "d.veil"), "of the same kind"),
        (("--labels", "l.npy"), "for image models"),
    ],
)
def test_what_is_not_for_classifiers_is_refused(veilflow, labeled, tmp_path, words, message):
    mixture(columns=("a", "b")).save(tmp_path / "d.veil")
    refused(veilflow("audit", "m.veil", *CSV, *words), message)


def test_labels_are_read_as_the_classifier_names_them(labeled, tmp_path):
    model = SimpleNamespace(predict_proba=None, classes=("0", "1"), columns=("a", "b"))
    read = partial(command.read_attacked, labels=None)
    features, labels = read(model, tmp_path / "in.csv", label="answer")
    assert features == tmp_path / "in.csv"
    assert set(labels) == {"0", "1"}
    series = np.zeros((4, 3, 2))
    path = tmp_path / "s.npz"
    np.savez(path, values=series, mask=series, since=series, labels=np.array([0, 1, 1, 0]))
    model.classes = (0, 1)
    features, labels = read(model, path, label=None)
    assert [part.shape for part in features] == [(4, 3, 2)] * 3
    assert labels == [0, 1, 1, 0]
    with pytest.raises(ValueError, match="Leave --label out"):
        read(model, path, label="answer")


@pytest.fixture
def rows(veilflow, tmp_path):
    """Rows of two columns on both sides."""
    for seed, side in enumerate(SIDES):
        values = np.random.default_rng(seed).uniform(-3, 3, (100, 2))
        write_rows(Rows(values, ("a", "b")), tmp_path / f"{side}.csv")


def test_a_likelihood_detector_is_audited_by_its_density_and_its_own_claim(
    in_json, veilflow, rows, tmp_path
):
    model = mixture(columns=("a", "b"))
    paid = vf.LikelihoodDetector(model).from_private(
        np.zeros((50, 2)), budget=vf.Budget(epsilon=1.0, delta=0.0)
    )
    model.save(tmp_path / "m.veil")
    paid.save(tmp_path / "d.veil")
    refused(veilflow("audit", "m.veil", *CSV, "--method", "reconstruction"), "for image models")
    for words in ((), ("--method", "synthetic"), ("--column", "a")):
        of_model, of_detector = (in_json("audit", m, *CSV, *words) for m in ("m.veil", "d.veil"))
        assert of_detector["scores"] == of_model["scores"]
        assert of_detector["claimed"] == paid.guarantee.epsilon > of_model["claimed"]


def test_an_ensemble_is_refused_and_nothing_is_asked(in_json, veilflow, rows, tmp_path):
    values = [1, 0] + 0.3 * np.random.default_rng(4).normal(size=(200, 2))
    write_rows(Rows(values, ("a", "b")), tmp_path / "data.csv")
    in_json(*COUNTED)
    for words in ((), ("--method", "synthetic"), ("--column", "a")):
        refused(veilflow("audit", "e.private", *CSV, *words), "only answers are released")
    assert vf.load(tmp_path / "e.private").spent == 0


def test_a_posterior_is_not_asked_about_rows(in_json, veilflow, rows, tmp_path):
    rng = np.random.default_rng(0)
    age = rng.uniform(20, 80, 3000)
    pressure = 95 + 0.5 * age + rng.normal(0, 10, 3000)
    write_rows(Rows(np.column_stack([age, pressure]), ("age", "pressure")), tmp_path / "data.csv")
    in_json(*FIT_POSTERIOR)
    for words in ((), ("--method", "synthetic"), ("--column", "a")):
        refused(veilflow("audit", "p.veil", *CSV, *words), "a density of parameters")
