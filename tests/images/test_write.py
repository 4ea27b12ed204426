"""Images to files: `read_images` reads them back, and grids are PNG files that others can read."""

import os
import stat

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import veilflow as vf
from tests.images.files import some_bytes
from veilflow.images import Images, ImageSpec, read_images, save_grid
from veilflow.images.write import target_kind, write_images

GRAY = vf.ImageSpec(height=4, width=5, classes=("cat", "dog"))
COLOR = vf.ImageSpec(height=4, width=5, channels=3, classes=(7, -1))
SCANS = vf.ImageSpec(height=4, width=5, low=-100, high=900)


def some(spec, num_images=6):
    rng = np.random.default_rng(0)
    shape = num_images, *spec.shape
    pixels = rng.integers(0, 256, shape).astype(np.uint8)
    if not spec.is_byte:
        pixels = rng.uniform(size=shape).astype(np.float32)
    labels = np.arange(num_images, dtype=np.int32) % 2 if spec.classes else None
    return Images(pixels, labels, spec)


@pytest.mark.parametrize("spec", [GRAY, COLOR, SCANS], ids=["gray", "color", "scans"])
@pytest.mark.parametrize("num_images", [0, 6])
def test_an_npz_is_read_back_as_it_was(spec, num_images, tmp_path):
    images = some(spec, num_images)
    write_images(images, tmp_path / "s.npz")
    again = read_images(tmp_path / "s.npz", spec)
    np.testing.assert_allclose(again.pixels, images.pixels, atol=1e-6)
    assert again.pixels.dtype == images.pixels.dtype
    if spec.classes:
        np.testing.assert_array_equal(again.labels, images.labels)


def test_an_npz_holds_the_declared_range_and_the_declared_classes(tmp_path):
    write_images(some(SCANS), tmp_path / "s.npz")
    write_images(some(COLOR), tmp_path / "c.npz")
    with np.load(tmp_path / "s.npz") as file:
        assert set(file) == {"images"}
        assert file["images"].shape == (6, 4, 5)
        assert -100 <= file["images"].min() < 0 < 800 < file["images"].max() <= 900
    with np.load(tmp_path / "c.npz") as file:
        assert file["images"].shape == (6, 4, 5, 3)
        assert file["labels"].tolist() == [7, -1] * 3


def test_classes_beyond_the_numbers_of_numpy_are_written_without_a_pickle(tmp_path):
    spec = vf.ImageSpec(height=4, width=5, classes=(0, 2**70))
    write_images(some(spec), tmp_path / "s.npz")
    again = read_images(tmp_path / "s.npz", spec)
    np.testing.assert_array_equal(again.labels, [0, 1] * 3)


@pytest.mark.parametrize("spec", [GRAY, COLOR], ids=["gray", "color"])
def test_a_folder_is_read_back_by_its_classes(spec, tmp_path):
    images = some(spec)
    write_images(images, tmp_path / "out")
    again = read_images(tmp_path / "out", spec)
    for place, name in enumerate(spec.classes):
        files = sorted(path.name for path in (tmp_path / "out" / str(name)).iterdir())
        assert files == [f"{i:06d}.png" for i in range(place, 6, 2)]
        mine = images.take(images.labels == place).pixels
        np.testing.assert_array_equal(again.take(again.labels == place).pixels, mine)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_without_classes_the_files_lie_in_the_folder_itself(tmp_path):
    images = some(SCANS)
    (tmp_path / "out").mkdir()
    write_images(images, tmp_path / "out")
    again = read_images(tmp_path / "out", vf.ImageSpec(height=4, width=5))
    np.testing.assert_array_equal(again.pixels, np.rint(images.pixels * 255))


def test_what_is_in_a_folder_stays(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    with pytest.raises(OSError, match="not empty"):
        write_images(some(GRAY), tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine.txt"]


def test_an_interrupt_leaves_no_folder(tmp_path, monkeypatch):
    def interrupted(pixels):
        raise KeyboardInterrupt

    monkeypatch.setattr("veilflow.images.write.png", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_images(some(GRAY), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_grid_is_one_file(tmp_path):
    write_images(some(COLOR), tmp_path / "grid.PNG")
    assert (tmp_path / "grid.PNG").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["../up", ".hidden", "a/b", "a\\b", "c:", "..", "nul\0"])
def test_no_class_leads_out_of_the_folder(name, tmp_path):
    spec = vf.ImageSpec(height=4, width=5, classes=("cat", name))
    assert target_kind(tmp_path / "s.npz", spec) == ".npz"
    with pytest.raises(ValueError, match="cannot be the name of a folder"):
        write_images(some(spec), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_other_endings_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"ends in \.npz or \.png .* got s\.csv"):
        target_kind(tmp_path / "s.csv", GRAY)


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
