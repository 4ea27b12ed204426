"""Sharpening against Pillow's, which is the same filter in eight bits, and against cases by hand."""

import jax
import numpy as np
import pytest

from veilflow.images.sharpen import sharpen, smooth_then_sharpen


def pictures(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)


@pytest.mark.parametrize("factor", [0.0, 0.5, 1.0, 2.0, 8.0])
def test_it_is_pillows_filter_without_its_rounding(factor):
    from PIL import Image, ImageEnhance

    image = pictures(7, 9)
    expected = np.asarray(ImageEnhance.Sharpness(Image.fromarray(image)).enhance(factor))
    found = np.asarray(sharpen(image / np.float32(255), factor)) * 255
    # Pillow rounds the smoothed image to whole levels, then blends: half a level times |1 - factor|
    assert np.abs(found - expected).max() <= 1 + 0.5 * abs(1 - factor)


def test_one_bright_pixel_spreads_by_the_kernel():
    image = np.zeros((1, 5, 5), np.float32)
    image[0, 2, 2] = 1
    expected = np.zeros((5, 5))
    expected[1:4, 1:4] = 1 / 13
    expected[2, 2] = 5 / 13
    assert np.asarray(sharpen(image, 0))[0] == pytest.approx(expected, abs=1e-7)


def test_the_border_stays_as_it_is():
    image = pictures(3, 6, 5) / np.float32(255)
    found = np.array(sharpen(image, 4))
    found[:, 1:-1, 1:-1] = image[:, 1:-1, 1:-1]
    assert found == pytest.approx(image)


@pytest.mark.parametrize("shape", [(2, 2), (1, 2, 9), (9, 1)])
def test_images_without_an_inside_stay_as_they_are(shape):
    image = pictures(*shape) / np.float32(255)
    assert np.asarray(sharpen(image, 3)) == pytest.approx(image)


def test_results_stay_between_0_and_1():
    found = np.asarray(sharpen(pictures(4, 3, 8, 8) / np.float32(255), 50))
    assert found.min() == 0
    assert found.max() == 1


def test_every_image_and_channel_is_treated_alone():
    images = pictures(2, 3, 6, 6) / np.float32(255)
    together = np.asarray(smooth_then_sharpen(images, 5))
    alone = np.asarray(sharpen(sharpen(images[1, 2], 0), 5))
    assert together[1, 2] == pytest.approx(alone)


def test_it_compiles():
    images = pictures(2, 1, 6, 6) / np.float32(255)
    compiled = jax.jit(sharpen, static_argnums=1)(images, 5)
    assert np.asarray(compiled) == pytest.approx(np.asarray(sharpen(images, 5)), abs=1e-6)


@pytest.mark.parametrize("images", [pictures(4, 4), np.zeros(4)], ids=["8 bits", "one axis"])
def test_what_is_no_image_in_0_to_1_is_an_error(images):
    with pytest.raises(ValueError, match="floating-point pixels"):
        sharpen(images, 2)


def test_a_negative_factor_is_an_error():
    with pytest.raises(ValueError, match="factor must be at least 0"):
        sharpen(np.zeros((4, 4)), -1)
