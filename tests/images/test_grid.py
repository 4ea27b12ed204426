"""Grids are PNG files that others can read."""

import os
import stat

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tests.images.files import some_bytes
from veilflow.images import ImageSpec, read_images, save_grid


@given(
    shape=st.tuples(
        st.integers(1, 7), st.sampled_from([1, 3]), st.integers(1, 4), st.integers(1, 4)
    ),
    columns=st.none() | st.integers(1, 9),
    gap=st.integers(0, 2),
)
def test_another_reader_finds_every_image_at_its_place(tmp_path_factory, shape, columns, gap):
    images = some_bytes(*shape)
    path = tmp_path_factory.mktemp("grid") / "grid.png"
    save_grid(images, path, columns=columns, gap=gap)
    picture = np.atleast_3d(np.asarray(Image.open(path)))
    num_images, channels, height, width = shape
    columns = min(columns or int(np.ceil(np.sqrt(num_images))), num_images)
    rows = -(-num_images // columns)
    expected = (rows * (height + gap) - gap, columns * (width + gap) - gap, channels)
    assert picture.shape == expected
    shown = np.zeros(picture.shape, bool)
    for place, image in enumerate(images):
        top, left = place // columns * (height + gap), place % columns * (width + gap)
        part = slice(top, top + height), slice(left, left + width)
        np.testing.assert_array_equal(picture[part], np.moveaxis(image, 0, 2))
        shown[part] = True
    assert (picture[~shown] == 255).all()


def test_numbers_images_and_bytes_give_the_same_file(tmp_path):
    images = some_bytes(5, 1, 4, 3)
    kept = read_images(images, ImageSpec(4, 3))
    for name, given_ in [
        ("bytes", images),
        ("no channels", images[:, 0]),
        ("images", kept),
        ("numbers", images / np.float32(255)),
        ("beyond", np.where(images == images.max(), 9.0, images / 255)),
    ]:
        save_grid(given_, tmp_path / f"{name}.png", columns=2)
    numbers = [(tmp_path / f"{name}.png").read_bytes() for name in ("bytes", "numbers")]
    assert numbers[0] == numbers[1]
    assert (tmp_path / "no channels.png").read_bytes() == numbers[0]
    assert (tmp_path / "images.png").read_bytes() == numbers[0]
    assert Image.open(tmp_path / "beyond.png").getextrema()[1] == 255


def test_a_grid_is_whole_or_not_there_and_as_readable_as_asked(tmp_path):
    path = tmp_path / "grid.PNG"
    save_grid(some_bytes(2, 3, 3), path, mode=0o600)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.read_bytes()
    with pytest.raises(ValueError, match="NaN"):
        save_grid(np.full((2, 3, 3), np.nan), path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["grid.PNG"]


@pytest.mark.parametrize(
    ("images", "settings", "message"),
    [
        (np.zeros((0, 3, 3), np.uint8), {}, r"at least one image.*\(0, 1, 3, 3\)"),
        (np.zeros((2, 2, 3, 3), np.uint8), {}, "at least one image"),
        (np.zeros((3, 3), np.uint8), {}, "at least one image"),
        (np.zeros((2, 3, 3), int), {}, r"bytes or numbers in \[0, 1\], got the type int64"),
        (np.zeros((2, 3, 3), np.uint8), {"columns": 0}, "columns must be at least 1"),
        (np.zeros((2, 3, 3), np.uint8), {"gap": -1}, "gap must be at least 0"),
        (np.zeros((2, 3, 3), np.uint8), {"path": "grid.jpg"}, "ends in .png"),
    ],
)
def test_what_makes_no_grid_is_refused(tmp_path, images, settings, message):
    path = tmp_path / settings.pop("path", "grid.png")
    with pytest.raises((TypeError, ValueError), match=message):
        save_grid(images, path, **settings)
    assert os.listdir(tmp_path) == []
