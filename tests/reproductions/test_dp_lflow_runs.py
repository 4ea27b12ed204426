"""What the DP-LFlow runs are made of: data, methods and measures."""

import math
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from reproductions.dp_lflow import data, estimators, measuring, runs, sharpening
from reproductions.dp_lflow.runs import Task

import veilflow as vf
from reproductions.metrics.images import ImageClassifierScores
from tests.reproductions import lflow_stand_in as stand_in
from veilflow.images.sharpen import smooth_then_sharpen
from veilflow.releases.training import PrivateTraining

pytestmark = pytest.mark.slow  # the system has probes; these are its parts

COMMON = {"epsilon": 10.0, "delta": 1e-5, "num_records": 60_000, "seed": 3}


def planned(method, spec=data.FACTS["mnist"].spec):
    return estimators.build(method, spec, **COMMON).plan()


def training(method):
    return planned(method).release(PrivateTraining).settings


def test_methods_differ_from_the_defaults_in_what_their_names_say():
    usual, budget = planned("flows"), vf.Budget(epsilon=10.0, delta=1e-5)
    spec = data.FACTS["mnist"].spec
    assert usual == vf.ImageFlow(spec=spec, budget=budget, num_records=60_000, seed=3).plan()
    assert usual.partition == "flows"
    steps = training("flows")
    assert planned("conditional").partition == "none"
    for name in ("conditional", *(f"flows-{size}" for size in estimators.SIZES)):
        other = planned(name)
        assert training(name) == steps
        same = {"flow": usual.flow, "partition": "flows", "releases": usual.releases}
        assert replace(other, **same) == usual
    for name, factor in estimators.SIZES.items():
        other = planned(f"flows-{name}")
        assert other.partition == "flows"
        assert other.flow.channels[-1] == factor * usual.flow.channels[-1]
        assert other.flow.hidden[0] == factor * usual.flow.hidden[0]
    with pytest.raises(ValueError, match="the methods are flows"):
        estimators.build("partition", data.FACTS["mnist"].spec, **COMMON)


def test_the_published_settings_bound_both_gradients_together():
    published, steps = planned("published"), training("published")
    assert math.hypot(*steps.clip_norm) == pytest.approx(0.1)
    assert published.temperature**2 == pytest.approx(1e5)
    assert (steps.steps, steps.sampling_rate) == (300, 0.1)
    assert steps.ema_decay is None
    # 2.55 MB as the authors count; half of the inputs of their coupling networks are hidden
    assert 2.0 < estimators.megabytes(published.flow) < 2.56


@pytest.mark.parametrize("method", ["flows", "conditional", "published"])
@pytest.mark.parametrize("epsilon", [10.0, 1.0])
def test_a_fit_spends_its_budget_and_no_more(method, epsilon):
    settings = {**COMMON, "epsilon": epsilon}
    ledger = estimators.build(method, data.FACTS["mnist"].spec, **settings).plan().ledger
    assert 0.98 * epsilon < ledger.epsilon(delta=1e-5) <= epsilon


def test_digits_need_no_file_and_are_split_once():
    train, test = data.load("digits")
    assert (len(train), len(test)) == (1_437, 360)
    assert train.pixels.dtype == np.uint8
    assert train.pixels.max() == 255
    assert set(np.unique(np.asarray(test.labels))) == set(range(10))
    with pytest.raises(ValueError, match="the data sets are mnist"):
        data.load("celeba")


@pytest.mark.data
@pytest.mark.parametrize("name", ["mnist", "fashion"])
def test_real_sets_are_whole(name):
    train, test = data.load(name)
    assert (len(train), len(test)) == (60_000, 10_000)
    assert train.spec == data.FACTS[name].spec


def test_samples_are_sharpened_from_their_bytes_in_blocks(monkeypatch):
    images = np.random.default_rng(0).integers(0, 256, (5, 1, 8, 8), dtype=np.uint8)
    monkeypatch.setattr(sharpening, "_BLOCK", 2)
    made = sharpening.versions("mnist", images)
    expected = 255 * smooth_then_sharpen(jnp.float32(images) / 255, 5.0)
    np.testing.assert_array_equal(made["raw"], images)
    np.testing.assert_allclose(made["sharpened"], expected, atol=0.5 + 1e-3)
    assert made["sharpened"].dtype == np.uint8
    assert sharpening.versions("digits", images).keys() == {"raw"}


def test_classifiers_are_averaged_over_seeds_of_their_own(monkeypatch):
    asked = []

    def compare(*images, num_classes, seed, classifiers, runs):
        asked.append((*classifiers, seed, runs))
        by_run = {"LR": (0.5,), "CNN": (0.1, 0.12, 0.14)}
        return ImageClassifierScores(dict.fromkeys(by_run, 0.0), by_run, 1, 1)

    monkeypatch.setattr(measuring, "compare_image_classifiers", compare)
    found = stand_in.load("mnist")
    train = found.train
    result = measuring.measure(train.pixels, train.labels, found, seed=2, classifiers=("LR", "CNN"))
    assert asked == [("LR", "CNN", 2, 5)]
    assert result["accuracies"]["CNN"]["mean"] == pytest.approx(12)
    assert result["fidelity"]["measure"] == "Frechet distance (small features)"
    assert result["fidelity"]["distance"] > 0


def test_a_model_that_knows_brightness_tells_classes_apart():
    found = stand_in.load("mnist")
    model = stand_in.StandIn("", 1.0, 1e-5, 0).fit(found.train, progress=False)
    assert measuring.outliers(model, found)["mean"] > 0.9


def test_a_run_samples_measures_and_tells_what_it_spent(monkeypatch):
    calls = stand_in.take_over(monkeypatch)
    monkeypatch.setattr(runs, "IMAGE_CLASSIFIERS", ("LR",))
    done = runs.perform(Task(data="digits", method="flows", epsilon=10.0, split=1))
    assert calls == [("flows", 10.0, 1)]
    assert done.result["guarantee"]["epsilon"] <= 10
    assert done.result["raw"]["accuracies"].keys() == {"LR"}
    assert len(done.result["ood"]["by_class"]) == 10
    for name in ("fit_seconds", "sampling_seconds", "peak_gigabytes"):
        assert done.result[name] > 0
    assert done.result["plan"] == stand_in.PLAN
    assert done.arrays["shown_raw"].shape == (100, 1, 8, 8)
    assert "samples" not in done.result  # no table has an FID of digits
    assert done.arrays.keys() == {"shown_raw"}
