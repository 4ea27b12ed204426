"""Images to files, and what read_images makes of them."""

import numpy as np
import pytest

import veilflow as vf
from veilflow.images import Images, read_images
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
    with pytest.raises(ValueError, match=r"\.npz file, to a \.png .* got s\.csv"):
        target_kind(tmp_path / "s.csv", GRAY)
