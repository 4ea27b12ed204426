"""Folders of image files: every format, both ways of labeling, read in one order."""

import os
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.images.files import some_bytes, write_csv, write_image
from veilflow.images import ImageSpec, image_files, read_images

GRAY = ImageSpec(6, 5)
COLOR = ImageSpec(6, 5, 3)
PETS = ImageSpec(6, 5, classes=("dog", "cat"))


def folder_of_pets(folder):
    images = {
        "cat/2.png": some_bytes(6, 5, seed=1),
        "cat/10.PNG": some_bytes(6, 5, seed=2),
        "dog/a.bmp": some_bytes(6, 5, seed=3),
    }
    for name, image in images.items():
        write_image(folder / name, image)
    return [images[name] for name in sorted(images)]


@pytest.mark.parametrize("suffix", ["png", "bmp", "gif", "pgm", "tif", "tiff", "PNG"])
def test_gray_files_without_loss_come_back_exactly(tmp_path, suffix):
    image = some_bytes(6, 5)
    write_image(tmp_path / f"a.{suffix}", image)
    read = read_images(tmp_path, GRAY)
    assert read.pixels.dtype == np.uint8
    np.testing.assert_array_equal(read.pixels, image[None, None])


@pytest.mark.parametrize("suffix", ["png", "bmp", "ppm", "tif"])
def test_color_files_without_loss_come_back_exactly(tmp_path, suffix):
    image = some_bytes(6, 5, 3)
    write_image(tmp_path / f"a.{suffix}", image)
    read = read_images(tmp_path, COLOR)
    np.testing.assert_array_equal(read.pixels[0], np.moveaxis(image, 2, 0))


@pytest.mark.parametrize("suffix", ["jpg", "jpeg", "JPG"])
def test_photographs_come_back_nearly(tmp_path, suffix):
    rows, columns = np.mgrid[:16, :24]
    image = np.stack([rows * 9, columns * 9, rows + columns], axis=2).astype(np.uint8)
    write_image(tmp_path / f"a.{suffix}", image, quality=95)
    read = read_images(tmp_path, ImageSpec(16, 24, 3)).pixels[0]
    assert np.abs(read.astype(int) - np.moveaxis(image, 2, 0)).mean() < 3


def test_of_a_photograph_with_copies_of_itself_the_first_is_read(tmp_path):
    first, second = (Image.new("RGB", (5, 6), (shade, 0, 0)) for shade in (250, 10))
    first.save(tmp_path / "a.jpg", format="MPO", save_all=True, append_images=[second])
    with Image.open(tmp_path / "a.jpg") as image:
        assert image.n_frames == 2
    assert read_images(tmp_path, COLOR).pixels[0, 0].min() > 200


def test_sub_folders_are_classes_and_files_are_sorted(tmp_path):
    images = folder_of_pets(tmp_path)
    read = read_images(tmp_path, PETS)
    np.testing.assert_array_equal(read.pixels[:, 0], images)
    assert read.labels.tolist() == [1, 1, 0]
    listed = [path.relative_to(tmp_path).as_posix() for path in image_files(tmp_path, PETS)]
    assert listed == ["cat/10.PNG", "cat/2.png", "dog/a.bmp"]


def test_whole_numbers_name_folders_too_and_classes_may_be_empty(tmp_path):
    write_image(tmp_path / "7" / "a.png", some_bytes(6, 5))
    (tmp_path / "3").mkdir()
    read = read_images(tmp_path, ImageSpec(6, 5, classes=range(10)))
    assert read.labels.tolist() == [7]


def test_no_images_are_a_set_like_any_other(tmp_path):
    read = read_images(tmp_path, PETS)
    assert read.pixels.shape == (0, 1, 6, 5)
    assert read.labels.shape == (0,)
    assert read_images(tmp_path, GRAY).labels is None
    write_csv(tmp_path / "labels.csv", [])
    assert len(read_images(tmp_path, PETS, labels=tmp_path / "labels.csv")) == 0
    for nothing in ([], np.empty((0, 6, 5)), np.empty((0, 6, 5, 1), np.uint8)):
        assert read_images(nothing, PETS, labels=[]).pixels.shape == (0, 1, 6, 5)


def test_a_csv_names_files_and_labels_in_its_order(tmp_path):
    folder_of_pets(tmp_path / "all")
    rows = [("dog/a.bmp", "cat"), ("cat\\2.png", " dog ")]
    path = write_csv(tmp_path / "labels.csv", rows)
    read = read_images(tmp_path / "all", PETS, labels=path)
    assert read.labels.tolist() == [1, 0]
    np.testing.assert_array_equal(read.pixels[0, 0], some_bytes(6, 5, seed=3))
    other = "\ufeffid,kind,image"
    path = write_csv(tmp_path / "other.csv", [("1", "cat", "cat/2.png")], header=other)
    read = read_images(tmp_path / "all", PETS, labels=path, names=("image", "kind"))
    assert read.labels.tolist() == [1]


def test_hidden_files_and_clutter_are_not_looked_at(tmp_path):
    images = folder_of_pets(tmp_path)
    for name in (".DS_Store", "cat/Thumbs.db", "cat/._2.png", ".git/x", "__MACOSX/cat/a.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_bytes(b"clutter")
    np.testing.assert_array_equal(read_images(tmp_path, PETS).pixels[:, 0], images)


def test_links_are_followed_but_never_in_a_circle(tmp_path):
    folder_of_pets(tmp_path / "real")
    linked = tmp_path / "linked"
    linked.mkdir()
    os.symlink(tmp_path / "real" / "cat", linked / "cat")
    (linked / "dog").mkdir()
    os.symlink(tmp_path / "real" / "dog" / "a.bmp", linked / "dog" / "b.bmp")
    assert read_images(linked, PETS).labels.tolist() == [1, 1, 0]
    os.symlink(linked, linked / "dog" / "up")
    os.symlink(linked / "dog" / "loop.png", linked / "dog" / "loop.png")
    with pytest.raises(ValueError, match="file 4 does not exist, or is not a file"):
        read_images(linked, PETS)
    assert len(read_images(linked, PETS, invalid="skip")) == 3


def test_folders_of_many_files_are_listed_once_and_in_order(tmp_path):
    image = write_image(tmp_path / "0000.png", some_bytes(6, 5)).read_bytes()
    for number in range(1, 1500):
        (tmp_path / f"{number:04}.png").write_bytes(image if number % 100 else b"")
    read = read_images(tmp_path, GRAY, invalid="skip")
    assert len(read) == 1500 - 14
    assert (read.pixels == read.pixels[0]).all()


def test_pictures_are_turned_as_their_cameras_say(tmp_path):
    image = some_bytes(6, 5)
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        write_image(tmp_path / f"{orientation}.png", image, exif=exif)
    turned = read_images(tmp_path, ImageSpec(6, 5), invalid="skip").pixels[:, 0]
    np.testing.assert_array_equal(turned[0], image)
    np.testing.assert_array_equal(turned[1], image[:, ::-1])
    np.testing.assert_array_equal(turned[2], image[::-1, ::-1])
    np.testing.assert_array_equal(turned[3], image[::-1])
    on_their_side = read_images(tmp_path, ImageSpec(5, 6), invalid="skip").pixels[:, 0]
    assert len(turned) == len(on_their_side) == 4
    np.testing.assert_array_equal(on_their_side[1], np.rot90(image, -1))


def test_longer_numbers_need_a_range_of_their_own(tmp_path):
    deep = np.arange(30, dtype=np.uint16).reshape(6, 5) * 2000
    write_image(tmp_path / "a.png", deep)
    write_image(tmp_path / "b.tif", deep)
    read = read_images(tmp_path, ImageSpec(6, 5, high=65535)).pixels
    assert read.dtype == np.float32
    np.testing.assert_allclose(read[:, 0] * 65535, [deep, deep], atol=0.01)


def test_color_of_longer_numbers_is_read_to_bytes(tmp_path):
    values = (np.arange(90).reshape(6, 15) * 700).astype(">u2")
    rows = b"".join(b"\0" + row.tobytes() for row in values)  # 0: no filter
    head = struct.pack(">IIBBBBB", 5, 6, 16, 2, 0, 0, 0)
    chunks = [(b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    data = b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in chunks
    )
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + data)
    read = read_images(tmp_path, COLOR).pixels[0]
    np.testing.assert_array_equal(np.moveaxis(read, 0, 2).reshape(6, 15), values // 256)


def test_real_numbers_in_files_are_scaled(tmp_path):
    real = np.linspace(-1, 2, 30, dtype=np.float32).reshape(6, 5)
    write_image(tmp_path / "a.tif", real)
    read = read_images(tmp_path, ImageSpec(6, 5, low=0, high=1)).pixels
    np.testing.assert_allclose(read[0, 0], np.clip(real, 0, 1), atol=1e-6)


def test_palettes_and_opaque_alpha_become_what_they_show(tmp_path):
    color = np.repeat(some_bytes(6, 1, 3) // 2, 5, axis=1)
    picture = Image.fromarray(color)
    picture.quantize(8).save(tmp_path / "a.png")
    picture.quantize(8).save(tmp_path / "b.gif")
    picture.convert("RGBA").save(tmp_path / "c.png")
    read = read_images(tmp_path, COLOR).pixels
    np.testing.assert_array_equal(read, [np.moveaxis(color, 2, 0)] * 3)
    gray = Image.fromarray(color[:, :, 0])
    gray.quantize(8).save(tmp_path / "a.png")
    gray.save(tmp_path / "b.gif")
    gray.convert("LA").save(tmp_path / "c.png")
    np.testing.assert_array_equal(read_images(tmp_path, GRAY).pixels[:, 0], [color[:, :, 0]] * 3)
    Image.fromarray(color[:, :, 0] > 60).save(tmp_path / "a.png")
    black_and_white = read_images(tmp_path, GRAY).pixels[0, 0]
    np.testing.assert_array_equal(black_and_white, (color[:, :, 0] > 60) * np.uint8(255))


@settings(max_examples=15)
@given(
    sizes=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=2, max_size=4),
    damaged=st.integers(0, 3),
    garbage=st.binary(max_size=40),
)
def test_what_one_file_holds_changes_no_other(tmp_path_factory, sizes, damaged, garbage):
    folder = tmp_path_factory.mktemp("files")
    for number, size in enumerate(sizes):
        write_image(folder / f"{number}.png", some_bytes(*size, seed=number))
    how = {"size": "resize", "invalid": "skip"}
    before = read_images(folder, GRAY, **how).pixels
    damaged %= len(sizes)
    (folder / f"{damaged}.png").write_bytes(garbage)
    after = read_images(folder, GRAY, **how).pixels
    np.testing.assert_array_equal(after, np.delete(before, damaged, axis=0))
