"""Images that are not as declared: an error that names no file and shows no pixel, or left out."""

import builtins
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.images.files import some_bytes, write_csv, write_image
from veilflow.images import ImageSpec, read_images

GRAY = ImageSpec(6, 5)
COLOR = ImageSpec(6, 5, 3)
DEEP = ImageSpec(6, 5, high=65535)
GOOD = some_bytes(6, 5)


def cut(path, image, **settings):
    data = write_image(path, image, **settings).read_bytes()
    path.write_bytes(data[: len(data) * 2 // 3])


def half_hidden(path, image):
    Image.merge("LA", [Image.fromarray(image), Image.new("L", (5, 6), 100)]).save(path)


def animated(path, image):
    frames = [Image.fromarray(255 - image)]
    Image.fromarray(image).save(path, save_all=True, append_images=frames)


def keyed(path, image):
    picture = Image.fromarray(image // 16 * 16).quantize(16)
    picture.save(path, transparency=picture.getpixel((0, 0)))


# How the second of three files is written, by which specification it is read, what is said of it.
CASES = {
    "another size": (lambda p, x: write_image(p, x[:5]), GRAY, "5 x 5 pixels, but 6 x 5"),
    "on its side": (lambda p, x: write_image(p, x.T), GRAY, "5 x 6 pixels, but 6 x 5"),
    "color": (lambda p, x: write_image(p, np.stack([x, x, 255 - x], 2)), GRAY, "3 channels"),
    "no image": (lambda p, x: p.write_bytes(b"SECRET"), GRAY, "damaged, truncated, not an image"),
    "empty": (lambda p, x: p.write_bytes(b""), GRAY, "damaged, truncated, not an image"),
    "cut": (cut, GRAY, "damaged, truncated, not an image"),
    "alpha": (half_hidden, GRAY, "is transparent in places"),
    "a transparent color": (keyed, GRAY, "is transparent in places"),
    "animation": (animated, GRAY, "several pictures"),
    "deep": (lambda p, x: write_image(p, x.astype(np.uint16)), GRAY, "more than 8 bits"),
    "a folder": (lambda p, x: p.mkdir(), GRAY, "is a folder"),
    "a pipe": (lambda p, x: os.mkfifo(p), GRAY, "is not a file"),
    "no target": (lambda p, x: os.symlink("nowhere", p), GRAY, "does not exist"),
}


@pytest.mark.parametrize(("write", "spec", "message"), CASES.values(), ids=CASES.keys())
def test_a_file_not_as_declared_is_told_by_its_place_or_left_out(tmp_path, write, spec, message):
    for name in ("ada.png", "grace.png"):
        write_image(tmp_path / name, GOOD)
    write(tmp_path / "emmy SECRET.png", GOOD)
    with pytest.raises(ValueError, match=rf"file 2 .*{message}") as info:
        read_images(tmp_path, spec)
    assert "SECRET" not in str(info.value)
    assert "emmy" not in str(info.value)
    assert info.value.__suppress_context__ or info.value.__context__ is None
    read = read_images(tmp_path, spec, invalid="skip")
    np.testing.assert_array_equal(read.pixels[:, 0], [GOOD, GOOD])


OTHER_FORMATS = {
    "ink": ("b.jpg", lambda p: Image.new("CMYK", (5, 6)).save(p), COLOR, "mode CMYK"),
    "lab": ("b.tif", lambda p: Image.new("LAB", (5, 6)).save(p), COLOR, "mode LAB"),
    "gray": ("b.png", lambda p: write_image(p, GOOD), COLOR, r"1 channel \(gray\) instead"),
    "bytes": ("b.png", lambda p: write_image(p, GOOD), DEEP, "8 bits, which end at 255"),
    "half a gif": ("b.gif", lambda p: cut(p, GOOD), GRAY, "damaged, truncated"),
    "half a bitmap": ("b.bmp", lambda p: cut(p, GOOD), GRAY, "damaged, truncated"),
    "half a jpeg": ("b.jpg", lambda p: cut(p, some_bytes(64, 64)), ImageSpec(64, 64), "damaged"),
    "half a map": ("b.pgm", lambda p: cut(p, GOOD), GRAY, "damaged, truncated"),
    "half a tiff": ("b.tif", lambda p: cut(p, GOOD), GRAY, "damaged, truncated"),
    "text": (
        "b.txt",
        lambda p: p.write_text("SECRET"),
        GRAY,
        "is not an image file, which ends in",
    ),
    "webp": (
        "b.webp",
        lambda p: write_image(p, GOOD),
        COLOR,
        "is not an image file, which ends in",
    ),
    "webp renamed": (
        "b.png",
        lambda p: write_image(p, GOOD, format="webp"),
        COLOR,
        "damaged, truncated, not an image",
    ),
    "NaN": (
        "b.tif",
        lambda p: write_image(p, np.where(GOOD.max() > GOOD, GOOD, np.nan).astype(np.float32)),
        GRAY,
        "NaN",
    ),
}


@pytest.mark.parametrize(
    ("name", "write", "spec", "message"), OTHER_FORMATS.values(), ids=OTHER_FORMATS.keys()
)
def test_files_of_other_kinds_are_refused_or_left_out(tmp_path, name, write, spec, message):
    write(tmp_path / name)
    with pytest.raises(ValueError, match=f"file 1 .*{message}") as info:
        read_images(tmp_path, spec)
    assert "SECRET" not in str(info.value)
    assert len(read_images(tmp_path, spec, invalid="skip")) == 0


def test_bombs_are_refused_by_pillows_own_limit_before_they_are_unpacked(tmp_path, monkeypatch):
    write_image(tmp_path / "a.png", some_bytes(60, 50))
    for limit in (2000, 1000):  # pillow warns of the first and refuses the second
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
        with pytest.raises(ValueError, match="limit against decompression bombs"):
            read_images(tmp_path, GRAY, size="resize")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 3000)
    assert len(read_images(tmp_path, GRAY, size="resize")) == 1


def test_a_file_of_another_size_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    write_image(tmp_path / "a.png", some_bytes(60, 50))
    monkeypatch.setattr(Image.Image, "load", lambda self: pytest.fail("unpacked"))
    with pytest.raises(ValueError, match="60 x 50 pixels"):
        read_images(tmp_path, GRAY)


@settings(max_examples=300)
@given(
    suffix=st.sampled_from(["png", "jpg", "bmp", "gif", "pgm", "tif"]),
    cut_at=st.floats(0, 1),
    flips=st.lists(st.tuples(st.floats(0, 1), st.integers(1, 255)), max_size=4),
)
def test_whatever_happened_to_a_file_it_is_read_or_refused_like_any_other(
    tmp_path_factory, suffix, cut_at, flips
):
    folder = tmp_path_factory.mktemp("fuzz")
    path = write_image(folder / f"a.{suffix}", some_bytes(16, 16))
    data = bytearray(path.read_bytes())
    for where, mask in flips:
        data[int(where * (len(data) - 1))] ^= mask
    path.write_bytes(data[: max(1, int(cut_at * len(data)))])
    spec = ImageSpec(16, 16)
    read = read_images(folder, spec, invalid="skip")
    assert len(read) in (0, 1)
    if not len(read):
        with pytest.raises(ValueError, match=r"^file 1 ") as info:
            read_images(folder, spec)
        assert str(folder) not in str(info.value)


PETS = ImageSpec(6, 5, classes=("dog", "cat"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("SECRET/a.png", "label that is not in the class list"),
        ("Cat/a.png", "label that is not in the class list"),
        ("a.png", "in no sub-folder of a class"),
        ("cat/deeper/a.png", "a folder within that of a class"),
    ],
)
def test_files_in_no_folder_of_a_class_are_refused_or_left_out(tmp_path, name, message):
    write_image(tmp_path / name, GOOD)
    write_image(tmp_path / "dog" / "a.png", GOOD)
    with pytest.raises(ValueError, match=f"file 1 .*{message}") as info:
        read_images(tmp_path, PETS)
    assert "SECRET" not in str(info.value)
    assert read_images(tmp_path, PETS, invalid="skip").labels.tolist() == [0]


LINES = {
    "label": ("b.png,SECRET", "label that is not in the class list"),
    "no label": ("b.png,", "label that is not in the class list"),
    "missing": ("SECRET.png,dog", "does not exist"),
    "short": ("SECRET.png", "too few cells"),
    "above": ("../SECRET.png,dog", "outside of the folder"),
    "hidden above": ("x/../../SECRET.png,dog", "outside of the folder"),
    "absolute": (f"{os.sep}SECRET.png,dog", "outside of the folder"),
    "drive": ("C:/SECRET.png,dog", "outside of the folder"),
    "nothing": (",dog", "outside of the folder"),
    "null": ("a\0.png,dog", "does not exist"),
    "quote": ('"SECRET.png,dog', "too few cells"),
    "not utf-8": ("SECRET\udcff.png,dog", "does not exist"),
}


@pytest.mark.parametrize(("line", "message"), LINES.values(), ids=LINES.keys())
def test_lines_of_a_csv_not_as_declared_are_refused_or_left_out(tmp_path, line, message):
    folder = tmp_path / "images"
    for name in ("a.png", "b.png"):
        write_image(folder / name, GOOD)
    write_image(tmp_path / "SECRET.png", GOOD)
    path = write_csv(tmp_path / "labels.csv", [("a.png", "cat"), tuple(line.split(","))])
    with pytest.raises(ValueError, match=message) as info:
        read_images(folder, PETS, labels=path)
    assert "SECRET" not in str(info.value)
    assert read_images(folder, PETS, labels=path, invalid="skip").labels.tolist() == [1]


def test_a_file_listed_twice_is_refused_or_left_out_whatever_the_order(tmp_path):
    for name in ("a.png", "b.png"):
        write_image(tmp_path / name, GOOD)
    rows = [("a.png", "cat"), ("b.png", "dog"), ("./a.png", "dog")]
    for order in (rows, rows[::-1]):
        path = write_csv(tmp_path / "labels.csv", order)
        with pytest.raises(ValueError, match="is listed more than once"):
            read_images(tmp_path, PETS, labels=path)
        assert read_images(tmp_path, PETS, labels=path, invalid="skip").labels.tolist() == [0]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"SECRET.png,cat\n", "must name one column 'file'"),
        (b"", "must name one column 'file'"),
        (b"file,file,label\n", "must name one column 'file'"),
    ],
)
def test_files_that_are_no_list_of_labels_are_refused(tmp_path, data, message):
    (tmp_path / "labels.csv").write_bytes(data)
    with pytest.raises(ValueError, match=message) as info:
        read_images(tmp_path, PETS, labels=tmp_path / "labels.csv")
    assert "SECRET" not in str(info.value)


ARRAYS = {
    "size": (np.zeros((2, 6, 6)), {}, "6 x 6 pixels, but 6 x 5 is declared"),
    "channels": (np.zeros((2, 6, 5, 2)), {}, r"shape \(6, 5, 2\) are not 6 x 5"),
    "alpha": (np.zeros((2, 6, 5, 4)), {"layout": "NHWC"}, "4 channels"),
    "color": (np.zeros((2, 6, 5, 3)), {}, "in any order"),
    "flat": (np.zeros((2, 30)), {}, "got 2. Reshape flat images first"),
    "too many": (np.zeros((2, 1, 6, 5, 1)), {}, "3 dimensions .* or 4 with channels, got 5"),
    "layout": (np.zeros((2, 6, 5)), {"layout": "NHWC"}, "has 4 dimensions, .* got 3"),
    "unknown layout": (np.zeros((2, 6, 5)), {"layout": "HWN"}, "layout must be one of 'NHW'"),
    "of two sizes": ([np.zeros((6, 5)), np.zeros((5, 6))], {}, "5 x 6 pixels, but 6 x 5 is"),
    "ragged": ([[[1, 2], [3]]], {}, "rows of an image must have one length"),
    "objects": (np.array([[["SECRET"]]], object), {}, "pixels must be real numbers"),
    "text": (np.array([[["SECRET"]]]), {}, "pixels must be real numbers"),
    "complex": (np.full((2, 6, 5), 1j), {}, "pixels must be real numbers"),
    "no layout": ([np.zeros((6, 5))], {"layout": "HWN", "invalid": "skip"}, "layout must be one"),
    "nothing": (None, {}, "a folder, a file, or an array, got NoneType"),
    "NaN": (np.full((2, 6, 5), np.nan), {}, r"not numbers \(NaN\)"),
    "crop": (np.zeros((2, 6, 5)), {"crop": 7, "size": "resize"}, "too small for a crop of 7"),
    "after the crop": (np.zeros((2, 6, 5)), {"crop": 4}, r"\(4 x 4 after the crop\)"),
    "bad crop": (np.zeros((2, 6, 5)), {"crop": "middle"}, "in pixels or 'square', got 'middle'"),
    "bad size": (np.zeros((2, 6, 5)), {"size": "pad"}, "size must be one of 'error', 'resize'"),
    "bad method": (np.zeros((2, 6, 5)), {"method": "x"}, "method must be one of"),
    "bad color": (np.zeros((2, 6, 5)), {"color": "x"}, "color must be one of"),
    "bad invalid": (np.zeros((2, 6, 5)), {"invalid": "x"}, "invalid must be one of"),
}


@pytest.mark.parametrize(("array", "how", "message"), ARRAYS.values(), ids=ARRAYS.keys())
def test_arrays_not_as_declared_are_refused(array, how, message):
    with pytest.raises((TypeError, ValueError), match=message) as info:
        read_images(array, GRAY, **how)
    assert "SECRET" not in str(info.value)


def test_a_folder_takes_its_labels_from_a_file_and_must_be_there(tmp_path):
    with pytest.raises(TypeError, match="must be a CSV of files and labels, got list"):
        read_images(tmp_path, PETS, labels=["dog"])
    with pytest.raises(FileNotFoundError, match="there is no file or folder"):
        read_images(tmp_path / "nowhere", PETS)
    with pytest.raises(FileNotFoundError):
        read_images(tmp_path, PETS, labels=tmp_path / "nowhere.csv")


def test_images_beyond_memory_are_refused_without_telling_how_many():
    huge = np.broadcast_to(np.float64(0), (123_457, 2, 2))
    with pytest.raises(MemoryError, match="do not fit into memory") as info:
        read_images(huge, ImageSpec(2**20, 2**20), size="resize")
    assert "123" not in str(info.value)


def test_without_pillow_files_are_refused_with_advice_and_arrays_are_read(tmp_path, monkeypatch):
    write_image(tmp_path / "a.png", GOOD)
    found = builtins.__import__

    def no_pillow(name, *rest):
        if name.startswith("PIL"):
            raise ImportError(name)
        return found(name, *rest)

    monkeypatch.setattr(builtins, "__import__", no_pillow)
    with pytest.raises(ImportError, match=r"pip install 'veilflow\[images\]'"):
        read_images(tmp_path, GRAY, invalid="skip")
    assert len(read_images(GOOD[None], GRAY)) == 1
