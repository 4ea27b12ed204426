"""Sharpening against Pillow's, which is the same filter in eight bits, and against cases by hand."""

import jax
import numpy as np
import pytest
from PIL import Image, ImageEnhance

from veilflow.images.sharpen import sharpen, smooth_then_sharpen

BYTES = np.random.default_rng(0).integers(0, 256, (2, 3, 7, 9)).astype(np.uint8)
IMAGES = BYTES / np.float32(255)
"""Of one shape for all tests: JAX compiles for each shape."""


@pytest.mark.parametrize("factor", [0.0, 0.5, 1.0, 2.0, 8.0])
def test_each_image_and_channel_gets_pillows_filter_without_its_rounding(factor):
    images = sharpen(IMAGES, factor)
    for i, j in np.ndindex(2, 3):
        expected = np.asarray(ImageEnhance.Sharpness(Image.fromarray(BYTES[i, j])).enhance(factor))
        # Pillow rounds the smoothed image to whole levels, then blends: half a level times |1 - factor|
        distance = np.abs(np.asarray(images[i, j]) * 255 - expected).max()
        assert distance <= 1 + 0.5 * abs(1 - factor)


def test_one_bright_pixel_spreads_by_the_kernel_and_smoothing_comes_first():
    images = np.zeros_like(IMAGES)
    images[1, 2, 3, 4] = 1
    expected = np.zeros_like(IMAGES)
    expected[1, 2, 2:5, 3:6] = 1 / 13
    expected[1, 2, 3, 4] = 5 / 13
    smooth = np.asarray(sharpen(images, 0))
    assert smooth == pytest.approx(expected, abs=1e-7)
    sharp = np.asarray(smooth_then_sharpen(images, 5))
    assert sharp == pytest.approx(np.asarray(sharpen(smooth, 5)))


def test_the_border_stays_as_it_is_and_results_stay_between_0_and_1():
    sharp = np.array(sharpen(IMAGES, 50))
    assert (sharp.min(), sharp.max()) == (0, 1)
    sharp[:, :, 1:-1, 1:-1] = IMAGES[:, :, 1:-1, 1:-1]
    assert sharp == pytest.approx(IMAGES)


@pytest.mark.parametrize("shape", [(2, 2), (1, 2, 9), (9, 1)])
def test_images_without_an_inside_stay_as_they_are(shape):
    image = IMAGES.reshape(-1)[: np.prod(shape)].reshape(shape)
    assert np.asarray(sharpen(image, 3)) == pytest.approx(image)


def test_it_compiles():
    compiled = jax.jit(sharpen, static_argnums=1)(IMAGES, 5)
    assert np.asarray(compiled) == pytest.approx(np.asarray(sharpen(IMAGES, 5)), abs=1e-6)


@pytest.mark.parametrize("images", [BYTES, np.zeros(4)], ids=["8 bits", "one axis"])
def test_other_arrays_than_pixels_in_0_to_1_are_refused(images):
    with pytest.raises(ValueError, match="floating-point pixels"):
        sharpen(images, 2)


def test_a_negative_factor_is_refused():
    with pytest.raises(ValueError, match="factor must be at least 0"):
        sharpen(IMAGES, -1)
