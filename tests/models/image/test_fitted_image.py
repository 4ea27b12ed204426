"""A fitted image model: samples, scores, files."""

import dataclasses

import equinox as eqx
import numpy as np
import pytest

import veilflow as vf
from tests.models.image import small
from veilflow._core.codec import plain
from veilflow.images.sharpen import smooth_then_sharpen
from veilflow.models import registry
from veilflow.models.image import blocks


@pytest.fixture(params=small.KINDS)
def model(request) -> vf.FittedImageFlow:
    return small.drawn(request.param)


@pytest.fixture
def by_class() -> vf.FittedImageFlow:
    return small.drawn()


# -- samples ---------------------------------------------------------------------------------------


@pytest.mark.few(2)
def test_samples_are_images_of_the_specification(model):
    images = model.sample(7, seed=3)
    assert images.spec == model.spec
    assert images.pixels.shape == (7, 1, 6, 6)
    assert images.pixels.dtype == np.uint8
    assert len(model.sample(0)) == 0
    if model.classes:
        assert images.labels.tolist() == [0, 1, 2, 0, 1, 2, 0]
    else:
        assert images.labels is None


@pytest.mark.few(2)
def test_an_image_of_a_seed_depends_on_its_number_and_class_alone(model, monkeypatch):
    whole = model.sample(25, seed=3)
    np.testing.assert_array_equal(model.sample(11, seed=3).pixels, whole.pixels[:11])
    assert not np.array_equal(model.sample(25, seed=4).pixels, whole.pixels)
    assert not np.array_equal(model.sample(25).pixels, model.sample(25).pixels)
    for place, name in enumerate(model.classes):
        alone = model.sample(25, label=name, seed=3)
        assert (alone.labels == place).all()
        np.testing.assert_array_equal(alone.pixels[place::3], whole.pixels[place::3])
    monkeypatch.setattr(blocks, "_CPU_PIXELS", 4 * 36)  # four images at a time
    np.testing.assert_allclose(np.int32(model.sample(25, seed=3).pixels), whole.pixels, atol=1)


def test_samples_are_sharpened_in_the_range_of_pixels():
    unit = vf.ImageSpec(height=6, width=6, high=1.0)
    model = dataclasses.replace(small.drawn("unlabeled"), spec=unit)
    plain = model.sample(5, seed=1).pixels
    assert plain.dtype == np.float32
    sharp = model.sample(5, seed=1, sharpen=5).pixels
    np.testing.assert_allclose(sharp, smooth_then_sharpen(plain, 5), atol=1e-5)
    assert not np.allclose(sharp, plain, atol=1e-3)


def test_a_label_is_a_class_or_its_place(by_class):
    one, two = by_class.sample(3, label="dot", seed=0), by_class.sample(3, label=1, seed=0)
    np.testing.assert_array_equal(one.pixels, two.pixels)
    for label, error, message in (
        ("cat", ValueError, "there is no class 'cat'. Classes are 'bar', 'dot', 'frame'"),
        (3, ValueError, "there is no class 3"),
        (["bar", "dot"], TypeError, "label must be one class"),
    ):
        with pytest.raises(error, match=message):
            by_class.sample(3, label=label)
    with pytest.raises(ValueError, match="have no labels"):
        small.drawn("unlabeled").sample(3, label=0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"num_images": -1}, "num_images"), ({"num_images": 3, "sharpen": -1.0}, "sharpen")],
)
def test_wrong_settings_of_samples_are_named(by_class, settings, message):
    with pytest.raises(ValueError, match=message):
        by_class.sample(**settings)


# -- scores ----------------------------------------------------------------------------------------


def test_each_image_is_scored_in_its_own_class(model):
    images = small.images(model.spec, seed=5)
    scores = model.log_prob(images)
    every = model.log_prob_by_class(images)
    assert scores.dtype == np.float64
    assert np.isfinite(every).all()
    assert every.shape == (40, max(1, len(model.classes)))
    labels = np.zeros(40, int) if images.labels is None else images.labels
    np.testing.assert_allclose(scores, every[np.arange(40), labels], rtol=1e-5)
    if len(model.classes) > 1:
        assert not np.allclose(every[:, 0], every[:, 1])


def test_scores_do_not_depend_on_what_stands_beside_an_image(model, monkeypatch):
    images = small.images(model.spec)
    scores = model.log_prob(images)
    np.testing.assert_allclose(model.log_prob(images.take(slice(7, 9))), scores[7:9], rtol=1e-5)
    monkeypatch.setattr(blocks, "_CPU_PIXELS", 4 * 36)
    np.testing.assert_allclose(model.log_prob(images), scores, rtol=1e-5)
    assert model.log_prob(images.take(slice(0))).shape == (0,)


def test_the_density_is_that_of_the_flow_at_the_code(by_class):
    images = small.images()
    for place in (0, 2):
        one, _ = by_class.models.of_class(place)
        image = images.pixels[place]
        wanted = one.flow.log_prob(one.encoder(image.astype(np.float32) / 255))
        np.testing.assert_allclose(by_class.log_prob(images)[place], wanted, rtol=1e-4)


def test_a_decoder_that_is_told_the_class_draws_by_it():
    model = small.drawn("told")
    images = small.images()
    one, first = model.models.of_class(0)
    other, second = model.models.of_class(1)
    image = images.pixels[0].astype(np.float32) / 255
    found = [np.asarray(one.reconstruct(image, c)) for c in (first, second)]
    assert np.abs(found[0] - found[1]).max() > 0.01
    np.testing.assert_array_equal(other.reconstruct(image, second), found[1])
    again = model.reconstruct(images.take(slice(0, 1))).pixels[0]
    np.testing.assert_allclose(again, np.round(255 * found[0]), atol=1)


def test_out_of_distribution_scores_are_minus_the_log_density_in_one_class(by_class):
    images = small.images()
    every = by_class.log_prob_by_class(small.pixels())
    for place, name in enumerate(small.CLASSES):
        np.testing.assert_allclose(by_class.ood_score(images, label=name), -every[:, place])
    with pytest.raises(ValueError, match="label must name the class"):
        by_class.ood_score(images)
    bare = small.drawn("unlabeled")
    np.testing.assert_allclose(bare.ood_score(small.pixels()), -bare.log_prob(small.pixels()))


def test_labels_are_needed_where_the_own_class_is_asked_for(by_class):
    with pytest.raises(ValueError, match="there are no labels"):
        by_class.log_prob(small.pixels())
    scores = by_class.log_prob(small.pixels(), small.places())
    np.testing.assert_array_equal(scores, by_class.log_prob(small.images()))
    with pytest.raises(ValueError, match="have their labels already"):
        by_class.reconstruct(small.images(), small.places())
    with pytest.raises(ValueError, match="6 x 6"):
        by_class.log_prob_by_class(np.zeros((3, 5, 5)))


def test_reconstructions_are_images_with_the_labels_they_had(model):
    images = small.images(model.spec)
    again = model.reconstruct(images)
    assert again.pixels.dtype == np.uint8
    assert again.pixels.shape == images.pixels.shape
    np.testing.assert_array_equal(again.labels, images.labels)


# -- files -----------------------------------------------------------------------------------------


def test_a_file_gives_the_model_back(model, tmp_path):
    model.save(tmp_path / "m.veil")
    again = vf.load(tmp_path / "m.veil")
    assert type(again) is vf.FittedImageFlow
    assert small.same(again, model)
    assert again.spec == model.spec
    assert repr(again) == repr(model)
    np.testing.assert_array_equal(again.sample(9, seed=2).pixels, model.sample(9, seed=2).pixels)


def test_a_model_shows_its_size_and_its_guarantee(by_class):
    assert repr(by_class).startswith("FittedImageFlow(6 x 6 x 1, 3 classes; (")
    assert str(by_class.guarantee) in repr(by_class)


def remade(model, *, plan=None, schema=None, both=None, arrays=None, **changes):
    """The model of a file in which something is changed; `both` is said of images in two places."""
    whole = model.to_artifact()
    images = {**whole.schema["spec"], **(schema or {}), **(both or {})}
    made = {**whole.manifest["plan"], **(plan or {})}
    made["spec"] = {**made["spec"], **(both or {})}
    manifest = {**whole.manifest, "plan": made}
    return registry.from_artifact(
        dataclasses.replace(
            whole,
            manifest=manifest,
            schema={"spec": images},
            arrays={**whole.arrays, **(arrays or {})},
            **changes,
        )
    )


def sizes(**changes):
    return {"flow": {**plain(small.SIZES), **changes}}


FIRST = ".model.encoder.convolutions[0].weight"
DOCTORED = {
    "other latent": {"plan": sizes(latent=4)},
    "another size": {"plan": sizes(size=[6, 5])},
    "no convolution": {"plan": sizes(channels=[])},
    "a giant": {"plan": sizes(hidden=[10**9, 10**9]), "schema": {}},
    "endless": {"plan": sizes(blocks=10**9)},
    "deep": {"plan": sizes(channels=[1] * 60)},
    "splines": {"plan": sizes(scalar_map="spline")},
    "a word": {"plan": sizes(scalar_map="os.system")},
    "an unknown size": {"plan": sizes(depth=3)},
    "a text": {"plan": sizes(latent="3")},
    "one model": {"plan": {"partition": "none"}},
    "whole models": {"plan": {"partition": "models"}},
    "a partition by number": {"plan": {"partition": 1}},
    "no classes": {"schema": {"classes": []}},
    "more classes": {"schema": {"classes": ["bar", "dot", "frame", "more"]}},
    "color": {"schema": {"channels": 3}},
    "larger images": {"schema": {"height": 12}},
    "no classes in both": {"both": {"classes": []}},
    "more classes in both": {"both": {"classes": ["bar", "dot", "frame", "more"]}},
    "color in both": {"both": {"channels": 3}},
    "another kind of plan": {"plan": {"kind": "FitPlan"}},
    "an unknown field": {"schema": {"depth": 3}},
    "another array": {"arrays": {"extra": np.zeros(0, np.float32)}},
    "another shape": {"arrays": {FIRST: np.zeros((9, 3), np.float32)}},
    "other floats": {"arrays": {FIRST: np.zeros((3, 1, 3, 3), np.float64)}},
    "not a number": {"arrays": {FIRST: np.full((3, 1, 3, 3), np.nan, np.float32)}},
}


@pytest.mark.parametrize("change", DOCTORED.values(), ids=DOCTORED.keys())
def test_a_doctored_file_is_refused(by_class, change):
    with pytest.raises(vf.ArtifactError, match="do not make a ImageFlow"):
        remade(by_class, **change)


def test_a_file_that_only_claims_to_be_large_is_refused_before_anything_is_built(
    by_class, monkeypatch
):
    monkeypatch.setattr(eqx, "filter_eval_shape", lambda *_: pytest.fail("was built"))
    for change in (sizes(latent=10**6), sizes(channels=[10**6, 10**6]), sizes(blocks=1000)):
        with pytest.raises(vf.ArtifactError, match="do not make a ImageFlow"):
            remade(by_class, plan=change)


def test_what_is_not_changed_is_the_model_again(by_class):
    assert small.same(remade(by_class), by_class)
