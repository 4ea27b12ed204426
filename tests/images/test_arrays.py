"""Arrays of every layout and type become the same pixels, and no image changes another."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image

from tests.images.files import some_bytes
from veilflow.images import Images, ImageSpec, read_images, to_unit

COLOR = ImageSpec(5, 4, 3)
GRAY = ImageSpec(5, 4)


def test_every_layout_gives_the_same_pixels():
    images = some_bytes(6, 3, 5, 4)
    for array, layout in [
        (images, None),
        (images, "NCHW"),
        (np.moveaxis(images, 1, 3), None),
        (np.moveaxis(images, 1, 3), "NHWC"),
        (np.moveaxis(images, 1, 3).tolist(), None),
        (jnp.asarray(images), None),
    ]:
        read = read_images(array, COLOR, layout=layout)
        np.testing.assert_array_equal(to_unit(read.pixels), to_unit(images))
    for array in (images[:, 0], images[:, :1], images[:, 0, :, :, None]):
        np.testing.assert_array_equal(read_images(array, GRAY).pixels, images[:, :1])


def test_a_shape_with_two_meanings_must_be_told():
    images = some_bytes(2, 3, 3, 3)
    with pytest.raises(ValueError, match=r"\(3, 3, 3\) may have their channels first or last"):
        read_images(images, ImageSpec(3, 3, 3))
    first = read_images(images, ImageSpec(3, 3, 3), layout="NCHW").pixels
    last = read_images(images, ImageSpec(3, 3, 3), layout="NHWC").pixels
    np.testing.assert_array_equal(first, np.moveaxis(last, 1, 3))


def test_bytes_stay_bytes_in_place_and_read_only():
    images = some_bytes(6, 5, 4)
    read = read_images(images, GRAY)
    assert read.pixels.dtype == np.uint8
    assert np.shares_memory(read.pixels, images)
    assert not read.pixels.flags.writeable
    images[0, 0, 0] = 7  # the caller's own array is still his
    assert read.pixels[0, 0, 0, 0] == 7


@pytest.mark.parametrize("kind", ["int16", "int32", "int64", "uint16", "uint64"])
def test_whole_numbers_in_the_range_of_bytes_become_bytes_and_are_clamped(kind):
    images = some_bytes(6, 5, 4).astype(kind)
    images[0, 0, 0] = np.iinfo(kind).max
    read = read_images(images, GRAY).pixels
    assert read.dtype == np.uint8
    np.testing.assert_array_equal(read[:, 0], np.minimum(images, 255))


@given(
    values=hnp.arrays(np.float64, (3, 2, 2), elements=st.floats(allow_nan=False)),
    low=st.floats(-1e6, 1e6),
    width=st.floats(1e-3, 1e6),
)
def test_any_numbers_end_up_in_the_unit_interval_where_they_belong(values, low, width):
    spec = ImageSpec(2, 2, low=low, high=low + width)
    read = read_images(values, spec).pixels
    assert read.dtype == np.float32
    assert read.min() >= 0
    assert read.max() <= 1
    inside = np.clip(values, spec.low, spec.high)
    expected = (inside - spec.low) / (spec.high - spec.low)
    np.testing.assert_allclose(read[:, 0], expected, atol=1e-6)


def test_truth_values_and_small_ranges_are_scaled():
    truths = some_bytes(4, 5, 4) > 127
    read = read_images(truths, ImageSpec(5, 4, high=1)).pixels
    np.testing.assert_array_equal(read[:, 0], truths.astype(np.float32))
    sixteenths = some_bytes(4, 5, 4) % 17
    read = read_images(sixteenths, ImageSpec(5, 4, high=16)).pixels
    np.testing.assert_array_equal(read[:, 0] * 16, sixteenths)


FITTINGS = [
    {},
    {"size": "resize"},
    {"size": "resize", "method": "box"},
    {"size": "resize", "crop": "square"},
    {"size": "resize", "crop": 3},
    {"size": "resize", "color": "convert"},
]


@given(
    how=st.sampled_from(FITTINGS),
    images=hnp.arrays(np.float32, (5, 5, 4, 3), elements=st.floats(-1, 2, width=32)),
    other=hnp.arrays(np.float32, (5, 4, 3), elements=st.floats(width=32)),
    place=st.integers(0, 4),
)
def test_what_one_image_holds_changes_no_other(how, images, other, place):
    spec = ImageSpec(5 if not how else 3, 4 if not how else 2, 1 if "color" in how else 3, high=1)
    labels = np.array([0, 1, 2, 7, 1])
    spec = ImageSpec(spec.height, spec.width, spec.channels, high=1, classes=(0, 1, 2))

    def each(array):
        """Images one by one, absent where they are skipped."""
        found = [
            read_images(array[i : i + 1], spec, labels=labels[i : i + 1], invalid="skip", **how)
            for i in range(len(array))
        ]
        return [one.pixels for one in found]

    changed = images.copy()
    changed[place] = other
    together = read_images(changed, spec, labels=labels, invalid="skip", **how)
    apart = each(changed)
    # bit by bit as if every image were alone
    np.testing.assert_array_equal(together.pixels, np.concatenate(apart))
    before = each(images)
    for i in range(5):
        if i != place:
            np.testing.assert_array_equal(apart[i], before[i])


def test_a_large_array_is_converted_in_blocks_without_seams(monkeypatch):
    images = some_bytes(50, 5, 4).astype(np.float64)
    images[7, 0, 0] = np.nan
    spec = ImageSpec(3, 3)
    whole = read_images(images, spec, size="resize", invalid="skip").pixels
    monkeypatch.setattr("veilflow.images.arrays._BLOCK", 40)
    parts = read_images(images, spec, size="resize", invalid="skip").pixels
    assert len(parts) == 49
    np.testing.assert_array_equal(whole, parts)


@pytest.mark.parametrize("method", ["bilinear", "box"])
def test_resizing_agrees_with_pillow(method):
    image = some_bytes(40, 30)
    filters = {"bilinear": Image.Resampling.BILINEAR, "box": Image.Resampling.BOX}
    expected = np.asarray(Image.fromarray(image).resize((15, 10), filters[method]))
    read = read_images(image[None], ImageSpec(10, 15), size="resize", method=method).pixels
    # pillow rounds in between; with whole ratios both filters mean the same
    assert np.abs(read[0, 0].astype(int) - expected).max() <= 1


def test_resizing_keeps_a_flat_image_flat_and_the_middle_is_cropped():
    flat = np.full((1, 7, 9), 77, np.uint8)
    for method in ("bilinear", "box"):
        read = read_images(flat, ImageSpec(13, 3), size="resize", method=method).pixels
        assert (read == 77).all()
    image = some_bytes(1, 7, 5)
    read = read_images(image, ImageSpec(5, 5), crop="square").pixels
    np.testing.assert_array_equal(read[0, 0], image[0, 1:6])
    read = read_images(image, ImageSpec(3, 3), crop=3).pixels
    np.testing.assert_array_equal(read[0, 0], image[0, 2:5, 1:4])


@pytest.mark.parametrize(("wild", "tame"), [(-np.inf, 0), (-9e9, 0), (9e9, 1), (np.inf, 1)])
def test_pixels_out_of_range_are_moved_before_they_are_mixed_with_others(wild, tame):
    images = some_bytes(2, 8, 8) / 255
    expected = images.copy()
    images[0, 3, 3], expected[0, 3, 3] = wild, tame
    spec = ImageSpec(3, 3, high=1)
    read = [read_images(array, spec, size="resize").pixels for array in (images, expected)]
    np.testing.assert_array_equal(*read)


@pytest.mark.parametrize("labels", [None, [0, 1, 1, 0]])
def test_images_with_pixels_that_are_no_numbers_are_left_out_if_asked(labels):
    images = some_bytes(4, 5, 4).astype(np.float32)
    images[2, 1, 1] = np.nan
    spec = ImageSpec(5, 4, classes=() if labels is None else (0, 1))
    with pytest.raises(ValueError, match="NaN"):
        read_images(images, spec, labels=labels)
    read = read_images(images, spec, labels=labels, invalid="skip")
    np.testing.assert_allclose(read.pixels[:, 0] * 255, images[[0, 1, 3]], rtol=1e-6)
    assert read.labels is None if labels is None else read.labels.tolist() == [0, 1, 0]


def test_gray_becomes_color_and_color_gray_if_asked():
    gray = some_bytes(2, 5, 4)
    read = read_images(gray, COLOR, color="convert").pixels
    np.testing.assert_array_equal(read, np.stack([gray] * 3, axis=1))
    back = read_images(read, GRAY, color="convert").pixels
    np.testing.assert_array_equal(back[:, 0], gray)
    color = some_bytes(1, 5, 4, 3)
    luma = np.asarray(Image.fromarray(color[0]).convert("L")).astype(int)
    read = read_images(color, GRAY, color="convert").pixels
    assert np.abs(read[0, 0].astype(int) - luma).max() <= 1


def test_to_unit_is_the_same_in_numpy_and_in_a_compiled_program():
    images = some_bytes(2, 1, 5, 4)
    unit = to_unit(images)
    assert unit.dtype == np.float32
    assert (unit.min() >= 0, unit.max() <= 1) == (True, True)
    np.testing.assert_allclose(jax.jit(to_unit)(images), unit, rtol=1e-6)
    assert to_unit(unit) is unit
    with pytest.raises(TypeError, match="uint8 or float32, got float64"):
        to_unit(unit.astype(np.float64))


def test_images_show_no_image_and_no_count():
    spec = ImageSpec(5, 4, classes=("cat", "dog"))
    images = read_images(some_bytes(23, 5, 4), spec, labels=[0, 1] * 11 + [0])
    assert "23" not in repr(images)
    assert "array" not in repr(images)
    assert len(images) == 23
    dogs = images.take(images.labels == 1)
    assert len(dogs) == 11
    np.testing.assert_array_equal(dogs.pixels, images.pixels[1::2])
    assert read_images(images, spec) is images
    with pytest.raises(ValueError, match="read by another specification"):
        read_images(images, ImageSpec(5, 4))


def test_images_check_what_they_are_made_of():
    good = some_bytes(2, 1, 5, 4)
    labeled = ImageSpec(5, 4, classes=(0, 1))
    for pixels, labels, spec, message in [
        (good.astype(float), None, GRAY, "uint8 or float32, got float64"),
        (good[:, 0], None, GRAY, r"declared \(1, 5, 4\), got \(5, 4\)"),
        (good, None, labeled, "if and only if classes"),
        (good, np.zeros(2, np.int64), labeled, "int32, got int64"),
        (good, np.zeros(3, np.int32), labeled, "one number for each image"),
        (good, np.full(2, 2, np.int32), labeled, "places in the class list"),
    ]:
        with pytest.raises((TypeError, ValueError), match=message):
            Images(pixels, labels, spec)
