"""IDX, NPZ and NPY files give back what was written, or an error that shows none of it."""

import gzip
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.images.files import TYPES, some_bytes, write_idx
from veilflow.datasets import load
from veilflow.images import ImageSpec, read_images, to_unit
from veilflow.images.idx import read_idx

IMAGES = some_bytes(6, 5, 4)
LABELS = np.array([0, 1, 2, 2, 1, 0], np.uint8)
SPEC = ImageSpec(5, 4, classes=(0, 1, 2))


@given(data=st.data(), kind=st.sampled_from(sorted(TYPES)), packed=st.booleans())
def test_any_idx_file_gives_its_array_back(tmp_path_factory, data, kind, packed):
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4))
    array = data.draw(hnp.arrays(np.dtype(kind), shape))
    name = "some-idx.idx.gz" if packed else "some.idx"
    path = write_idx(tmp_path_factory.mktemp("idx") / name, array)
    back = read_idx(path)
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)


@pytest.mark.parametrize("name", ["train-{}-ubyte", "train-{}-ubyte.gz", "{}.idx", "{}.IDX.GZ"])
def test_a_pair_of_idx_files_is_read_as_the_array(tmp_path, name):
    images = write_idx(tmp_path / name.format("images"), IMAGES)
    labels = write_idx(tmp_path / name.format("labels"), LABELS)
    read = read_images(images, SPEC, labels=labels)
    assert read.pixels.dtype == np.uint8
    np.testing.assert_array_equal(read.pixels[:, 0], IMAGES)
    np.testing.assert_array_equal(read.labels, LABELS)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("names", [("images", "labels"), ("x", "y"), ("x_train", "y_train")])
def test_an_npz_is_read_by_its_names(tmp_path, save, names):
    path = tmp_path / "set.npz"
    save(path, **{names[0]: IMAGES, names[1]: LABELS, "objects": np.array([{}])})
    read = read_images(path, SPEC, names=names if names[0] == "x_train" else None)
    np.testing.assert_array_equal(read.pixels[:, 0], IMAGES)
    np.testing.assert_array_equal(read.labels, LABELS)
    unlabeled = read_images(path, ImageSpec(5, 4), names=names)
    assert unlabeled.labels is None


def test_npy_files_hold_images_or_labels(tmp_path):
    np.save(tmp_path / "x.npy", IMAGES)
    np.save(tmp_path / "y.npy", LABELS)
    read = read_images(str(tmp_path / "x.npy"), SPEC, labels=str(tmp_path / "y.npy"))
    np.testing.assert_array_equal(read.pixels[:, 0], IMAGES)
    np.testing.assert_array_equal(read.labels, LABELS)


def damaged(tmp_path):
    """Files that are no arrays, by name, and what is said of them."""
    plain = write_idx(tmp_path / "good-ubyte", IMAGES).read_bytes()
    np.savez(tmp_path / "good.npz", images=IMAGES)
    archive = (tmp_path / "good.npz").read_bytes()
    return {
        "empty-ubyte": (b"", "is not an IDX file"),
        "text-ubyte": (b"SECRET text", "is not an IDX file"),
        "head-ubyte": (plain[:9], "is truncated"),
        "short-ubyte": (plain[:-1], "is truncated"),
        "long-ubyte": (plain + b"S", "holds more than its header claims"),
        "claims-ubyte": (b"\0\0\x08\x03" + b"\xff" * 12, "is truncated"),
        "claims.idx.gz": (gzip.compress(b"\0\0\x08\x03" + b"\xff" * 12), "is truncated"),
        "short.idx.gz": (gzip.compress(plain)[:-20], "damaged or truncated"),
        "flipped.idx.gz": (b"\x1f\x8b" + b"SECRET" * 9, "damaged or truncated"),
        "cut.npz": (archive[:-30], "not a readable NumPy file"),
        "text.npz": (b"SECRET", "not a readable NumPy file"),
        "text.npy": (b"SECRET", "not a readable NumPy file"),
        "table.csv": (b"SECRET", "table.csv is of a kind that is not read"),
    }


def test_damaged_files_are_refused_by_name_without_showing_a_byte(tmp_path):
    for name, (data, message) in damaged(tmp_path).items():
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(ValueError, match=message) as info:
            read_images(path, ImageSpec(5, 4))
        assert name in str(info.value)
        assert "SECRET" not in str(info.value)
        assert info.value.__suppress_context__ or info.value.__context__ is None


def test_python_objects_are_never_unpickled(tmp_path):
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    for name in ("evil.npy", "evil.npz"):
        with open(tmp_path / name, "wb") as file:
            array = np.array([Evil()], object)
            np.save(file, array) if name.endswith("npy") else np.savez(file, images=array)
        with pytest.raises(ValueError, match="holding Python objects"):
            read_images(tmp_path / name, ImageSpec(5, 4))
    assert not (tmp_path / "ran").exists()


def test_arrays_that_are_not_named_as_told_are_listed(tmp_path):
    np.savez(tmp_path / "set.npz", x_train=IMAGES, y_train=LABELS)
    with pytest.raises(ValueError, match=r"arrays x_train, y_train\. Name that of"):
        read_images(tmp_path / "set.npz", SPEC)
    with pytest.raises(ValueError, match="holds the arrays"):
        read_images(tmp_path / "set.npz", SPEC, names=("x_train", "labels"))
    with pytest.raises(ValueError, match="names must be two"):
        read_images(tmp_path / "set.npz", SPEC, names="x_train")
    with pytest.raises(FileNotFoundError, match="there is no file or folder"):
        read_images(tmp_path / "other.npz", SPEC)


@pytest.mark.data
@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
def test_the_published_sets_stay_bytes_in_place(name):
    parts = load(name)
    images = parts["x_train"]
    read = read_images(images, ImageSpec(28, 28, classes=range(10)), labels=parts["y_train"])
    assert read.pixels.nbytes == images.nbytes
    assert np.shares_memory(read.pixels, images)
    assert to_unit(read.pixels[:500]).max() <= 1
