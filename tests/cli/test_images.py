"""`veilflow fit images`, and what the other commands do with its models."""

import dataclasses
import json
import os
import stat
import sys

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import veilflow as vf
from tests.cli.test_models import refused
from tests.models.image import small
from veilflow._core.codec import plain
from veilflow.cli import fit
from veilflow.cli.main import app
from veilflow.images import Images, read_images
from veilflow.images.write import write_images
from veilflow.models.image.architecture import _NUM_PARAMS
from veilflow.models.image.latent_model import PARTITIONS, RECONSTRUCTIONS

SPEC = vf.ImageSpec(height=6, width=6, classes=("bar", "dot"))
SIZES = vf.ImageArchitecture(size=(6, 6), channels=(2,), latent=2, blocks=1, hidden=())
BUDGET = ("--epsilon", 4, "--delta", 1e-3)
FIT = ("fit", "images", "i.npz", "--spec", "s.toml", *BUDGET)
QUICK = ("--steps", 2, "--sampling-rate", 0.5, "--num-records", 12)
NOT_FLAGS = {"spec", "budget"}
NOT_TRAINING_FLAGS = {
    "clipping",
    "sparsity",
    "optimizer",
    "schedule",
    "rate_decay",
    "ema_decay",
}


def twelve():
    pixels = np.random.default_rng(0).integers(0, 60, (12, 1, 6, 6)).astype(np.uint8)
    pixels[::2, :, :, 2] = pixels[1::2, :, 2:4, 2:4] = 220
    return Images(pixels, np.arange(12, dtype=np.int32) % 2, SPEC)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A folder with images by class, the model of them, and what the command printed."""
    folder = tmp_path_factory.mktemp("images")
    write_images(twelve(), folder / "shapes")
    SPEC.to_file(folder / "s.toml")
    paths = ("--spec", folder / "s.toml", "--out", folder / "m.veil")
    words = ("fit", "images", folder / "shapes", *paths, *BUDGET, *QUICK, "--json")
    with pytest.MonkeyPatch.context() as patch, small.untrained():
        patch.setattr("veilflow.models.image.image_plan.architecture_for", lambda *_: SIZES)
        done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.stderr
    return folder, json.loads(done.stdout)


@pytest.fixture
def model(fitted, veilflow):
    return fitted[0] / "m.veil"


@pytest.fixture
def data(veilflow, tmp_path):
    """An array of images and their specification in the current folder."""
    write_images(twelve(), tmp_path / "i.npz")
    SPEC.to_file(tmp_path / "s.toml")


def test_fit_hands_every_flag_to_the_model_by_its_python_name(in_json, model, data, monkeypatch):
    calls, done = [], vf.load(model)

    def fake(self, images, labels, **settings):
        calls.append((self, str(images), str(labels), settings))
        return done

    monkeypatch.setattr(vf.ImageFlow, "fit", fake)
    found = in_json(
        *FIT,
        *(
            "--labels",
            "l.npy",
            "--num-records",
            12,
            "--partition",
            "none",
            "--reconstruction",
            "mse",
        ),
        *(
            "--temperature",
            3,
            "--steps",
            7,
            "--sampling-rate",
            0.2,
            "--noise-bands",
            3,
            "--clip-norm",
            "0.1, 0.2",
        ),
        *("--learning-rate", "0.01,0.02", "--weight-decay", 0.1, "--seed", 3),
        *("--channels", "2,3", "--latent", 4, "--blocks", 1, "--hidden", 5),
        *("--scalar-map", "spline", "--decoder-sees-class"),
        *("--invalid", "skip", "--checkpoint", "run.ckpt", "--out", "m.veil"),
    )
    assert found["out"] == "m.veil"
    ((estimator, images, labels, settings),) = calls
    assert (images, labels) == ("i.npz", "l.npy")
    assert {name: str(value) for name, value in settings.items()} == {
        "progress": "True",
        "invalid": "skip",
        "checkpoint": "run.ckpt",
        "save_as": "m.veil",
    }
    given = {
        "num_records": 12,
        "partition": "none",
        "reconstruction": "mse",
        "temperature": 3.0,
        "seed": 3,
    }
    sizes = {"channels": (2, 3), "latent": 4, "blocks": 1, "hidden": (5,)}
    told = {"scalar_map": "spline", "decoder_sees_class": True}
    given["flow"] = vf.ImageArchitecture(size=(6, 6), **sizes, **told)
    steps = {
        "steps": 7,
        "sampling_rate": 0.2,
        "noise_bands": 3,
        "clip_norm": (0.1, 0.2),
        "learning_rate": (0.01, 0.02),
        "weight_decay": 0.1,
    }
    given["training"] = vf.Training(**steps)
    assert estimator == vf.ImageFlow(spec=SPEC, budget=vf.Budget(4.0, 1e-3), **given)
    # and every setting of the library has a flag
    assert {field.name for field in dataclasses.fields(vf.ImageFlow)} == NOT_FLAGS | set(given)
    names = {field.name for field in dataclasses.fields(vf.Training)}
    assert names == {"batch_size", *NOT_TRAINING_FLAGS, *steps}


def test_a_single_number_is_for_both_networks_and_a_batch_is_a_size(in_json, data):
    flags = ("--clip-norm", 0.1, "--learning-rate", 0.02, "--batch-size", 3, "--num-records", 12)
    plan = in_json(*FIT, *flags, "--dry-run", "--out", "m.veil")["plan"]
    settings = plan["releases"][0]["settings"]
    assert (settings["clip_norm"], settings["learning_rate"]) == (0.1, 0.02)
    assert settings["sampling_rate"] == 0.25


def test_sizes_that_are_left_out_are_those_of_the_planner(in_json, data):
    flow = in_json(*FIT, "--latent", 3, "--dry-run", "--out", "m.veil")["plan"]["flow"]
    usual = in_json(*FIT, "--dry-run", "--out", "m.veil")["plan"]["flow"]
    assert flow == {**usual, "latent": 3}


def test_the_words_of_the_flags_are_those_of_the_library():
    assert tuple(word.value for word in fit.Reconstruction) == tuple(RECONSTRUCTIONS)
    assert tuple(fit.Partition) == PARTITIONS
    assert set(fit.ScalarMap) == set(_NUM_PARAMS)


def test_a_folder_of_images_becomes_a_model(fitted):
    folder, printed = fitted
    model = vf.load(folder / "m.veil")
    assert set(printed) == {"out", "guarantee"}
    assert printed["guarantee"] == model.guarantee.to_json()
    assert model.guarantee.epsilon <= 4
    assert model.spec == SPEC
    assert model.plan.partition == "flows"


def test_a_dry_run_opens_no_image_and_leaves_no_file(in_json, veilflow, data, tmp_path):
    (tmp_path / "i.npz").unlink()
    found = in_json(*FIT, "--dry-run", "--out", "m.veil")
    assert [path.name for path in tmp_path.iterdir()] == ["s.toml"]
    estimator = vf.ImageFlow(spec=SPEC, budget=vf.Budget(4.0, 1e-3))
    assert found["plan"] == plain(estimator.plan())
    assert found["guarantee"]["epsilon"] == estimator.plan().ledger.epsilon(delta=1e-3)
    shown = veilflow(*FIT, "--dry-run", "--out", "m.veil").stdout
    for text in ("nothing was spent", "number of records", "sampling rate 0.1", "partition: flows"):
        assert text in shown


def test_wrong_input_is_one_line(veilflow, data, tmp_path):
    out = ("--out", "m.veil")
    refused(veilflow("fit", "images", "i.npz", "--spec", "no.toml", *BUDGET, *out), "no.toml", 1)
    refused(veilflow("fit", "images", "none", "--spec", "s.toml", *BUDGET, *out), "none", 1)
    refused(veilflow(*FIT, "--clip-norm", "a,b", *out), "--clip-norm must be numbers")
    refused(veilflow(*FIT, "--clip-norm", "1,2,3", *out), "clip_norm must be one number")
    refused(veilflow(*FIT, "--out", "s.toml", "--force"), "is the file that is read")
    (tmp_path / "b.toml").write_text("height = 6\nwidth = 6\nclasses = ['bar']\n")
    undeclared = ("fit", "images", "i.npz", "--spec", "b.toml", *BUDGET, *QUICK, *out)
    refused(veilflow(*undeclared), "not in the declared class list.* pass --invalid skip")
    (tmp_path / "b.toml").write_text("height = 6\n")
    refused(veilflow(*undeclared), "b.toml: the field 'width' is missing")
    assert not (tmp_path / "m.veil").exists()


def test_a_missing_pillow_is_one_line(veilflow, fitted, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    words = ("fit", "images", fitted[0] / "shapes", "--spec", fitted[0] / "s.toml", *BUDGET, *QUICK)
    refused(veilflow(*words, "--out", "m.veil"), r"pip install 'veilflow\[images\]'", 1)


def test_images_are_drawn_into_arrays(in_json, model):
    found = in_json("sample", model, "-n", 5, "--seed", 1, "--out", "s.npz")
    assert set(found) == {"out", "num_images", "guarantee"}
    assert found["num_images"] == 5
    drawn, again = read_images("s.npz", SPEC), vf.load(model).sample(5, seed=1)
    np.testing.assert_array_equal(drawn.pixels, again.pixels)
    np.testing.assert_array_equal(drawn.labels, again.labels)
    in_json("sample", model, "--rows", 2, "--label", "dot", "--sharpen", 5, "--out", "d.npz")
    with np.load("d.npz") as file:
        assert file["labels"].tolist() == ["dot", "dot"]


def test_images_are_drawn_into_folders_and_grids(veilflow, model, tmp_path):
    done = veilflow("sample", model, "-n", 5, "--seed", 1, "--out", "synthetic")
    assert done.exit_code == 0, done.stderr
    assert "wrote 5 images to synthetic" in done.stdout
    assert "differential privacy" in done.stdout
    drawn = read_images("synthetic", SPEC)
    np.testing.assert_array_equal(drawn.labels, [0, 0, 0, 1, 1])
    assert veilflow("sample", model, "-n", 5, "--seed", 1, "--out", "g.png").exit_code == 0
    assert (tmp_path / "g.png").read_bytes().startswith(b"\x89PNG")
    again = ("sample", model, "-n", 5, "--out", "synthetic", "--force")
    refused(veilflow(*again), "folder with something in it")
    refused(veilflow("sample", model, "--out", "g.png"), "exists")
    (tmp_path / "here").write_text("")
    refused(veilflow("sample", model, "--out", "here", "--force"), "not a new folder")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["g.png", "here", "synthetic"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--label", "cat", "--out", "s.npz"), "there is no class 'cat'. Classes are 'bar', 'dot'"),
        (("--given", "age=3", "--out", "s.npz"), "--given is for models of tables"),
        (("--out", "s.csv"), r"ends in \.npz or \.png"),
        (("--out", "no/s.npz"), "does not exist"),
        (("--out", "no/s"), "does not exist"),
        (("--out", "."), "not a new folder"),
        (("--sharpen", -1, "--out", "s.npz"), "sharpen"),
        (("-n", 0, "--out", "s.png"), "at least one image"),
    ],
    ids=str,
)
def test_images_that_cannot_be_drawn_are_refused(flags, message, veilflow, model, tmp_path):
    refused(veilflow("sample", model, *flags), message)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("source", ["i.npz", "shapes", "shapes/bar"])
def test_scores_are_written_for_the_owner_alone_and_not_printed(source, in_json, fitted, data):
    folder, _ = fitted
    path = source if source == "i.npz" else folder / source
    found = in_json("score", folder / "m.veil", path, "--label", "dot", "--out", "scores.csv")
    assert set(found) == {"out", "protected", "warning"}
    assert found["protected"] is False
    images = read_images(folder / "shapes", SPEC) if source != "i.npz" else twelve()
    if source == "shapes/bar":
        images = images.take(images.labels == 0)
    scores = pd.read_csv("scores.csv").ood_score
    expected = vf.load(folder / "m.veil").ood_score(images, label="dot")
    assert scores.to_numpy() == pytest.approx(expected, rel=1e-5)
    assert stat.S_IMODE(os.stat("scores.csv").st_mode) == 0o600


def test_a_mean_score_is_printed_only_if_asked_for(veilflow, model, data):
    done = veilflow("score", model, "i.npz", "--label", "bar", "--out", "s.csv", "--reveal")
    assert "mean score" in done.stdout
    assert "not private" in done.stdout
    assert "warning: the scores are computed from the images themselves" in done.stderr


def test_images_that_cannot_be_scored_are_refused(veilflow, model, data, tmp_path):
    score = ("score", model, "i.npz", "--out", "scores.csv")
    refused(veilflow(*score), "label must name the class")
    refused(veilflow(*score, "--label", "cat"), "there is no class 'cat'")
    np.save(tmp_path / "big.npy", np.zeros((1, 9, 9), np.uint8))
    big = ("score", model, "big.npy", "--label", "bar", "--out", "scores.csv")
    refused(veilflow(*big), r"size='resize' \(in Python\)")  # there is no such flag
    (tmp_path / "big.npy").unlink()
    refused(veilflow("score", model, "no.npz", "--label", "bar", "--out", "s.csv"), "no.npz", 1)
    refused(veilflow("impute", model, "i.npz", "--out", "f.csv"), "no model of a table")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["i.npz", "s.toml"]


def test_inspect_shows_what_was_declared(veilflow, in_json, model):
    done = veilflow("inspect", model, "--recompute")
    assert done.exit_code == 0, done.stderr
    for text in ("model ImageFlow", "the claim holds", "training", "  height: 6", "'bar', 'dot'"):
        assert text in done.stdout, text
    assert in_json("inspect", model)["schema"]["spec"] == SPEC.to_json()
