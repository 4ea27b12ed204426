"""Labels become places in the declared list, whatever they come as."""

import numpy as np
import pandas as pd
import pytest

from tests.images.files import some_bytes
from veilflow.images import ImageSpec, read_images

IMAGES = some_bytes(3, 2, 2)
DIGITS = ImageSpec(2, 2, classes=(7, 8, -1))
PETS = ImageSpec(2, 2, classes=("dog", "caf\u00e9", "cat"))


@pytest.mark.parametrize(
    ("labels", "spec"),
    [
        ([8, 7, -1], DIGITS),
        (np.array([8, 7, -1], np.int8), DIGITS),
        ([8.0, 7.0, -1.0], DIGITS),
        (["8", " 7", "-1"], DIGITS),
        (np.array([8, 7, -1], object), DIGITS),
        (["caf\u00e9", "dog", "cat"], PETS),
        (["cafe\u0301", "dog ", "cat"], PETS),
        (pd.Series(["caf\u00e9", "dog", "cat"]), PETS),
        ([1, 0, 2], PETS),
        (np.array([1, 0, 2], np.uint8), PETS),
        (np.array([1, 0, 2], object), PETS),
        (np.array([1, 0, 2 + 0j]), PETS),
        ([True, False, "cat"], PETS),
    ],
)
def test_labels_of_all_kinds_are_found_in_the_list(labels, spec):
    read = read_images(IMAGES, spec, labels=labels)
    assert read.labels is not None
    assert read.labels.dtype == np.int32
    assert read.labels.tolist() == [1, 0, 2]


@pytest.mark.parametrize(
    ("labels", "spec"),
    [
        ([8, 7, 8675309], DIGITS),
        (np.array([8, 7, 255], np.uint8), DIGITS),
        ([8, 7, 8.5], DIGITS),
        ([8, 7, np.nan], DIGITS),
        ([8, 7, None], DIGITS),
        (["8", "7", "07"], DIGITS),
        (["dog", "cat", "SECRET"], PETS),
        (["dog", "cat", None], PETS),
        (["dog", "cat", "Dog"], PETS),
        ([0, 1, 3], PETS),
        ([0, 1, -1], PETS),
        ([0, 1, 1j], PETS),
        (np.array([0, 1, 1j]), PETS),
        ([0, 1, [1]], PETS),
        ([0, 1, b"dog"], PETS),
    ],
)
def test_labels_in_no_list_are_refused_unseen_or_skipped(labels, spec):
    with pytest.raises(ValueError, match="not in the declared class list") as info:
        read_images(IMAGES, spec, labels=labels)
    assert "SECRET" not in str(info.value)
    assert "8675309" not in str(info.value)
    read = read_images(IMAGES, spec, labels=labels, invalid="skip")
    np.testing.assert_array_equal(read.pixels[:, 0], IMAGES[:2])


@pytest.mark.parametrize("counts", [(0, 0), (0, 3), (1, 2), (3, 0)])
def test_classes_of_no_or_one_image_are_as_good_as_any(counts):
    labels = ["dog"] * counts[0] + ["cat"] * counts[1]
    read = read_images(IMAGES[: len(labels)], PETS, labels=labels)
    assert np.bincount(read.labels, minlength=3).tolist() == [counts[0], 0, counts[1]]


@pytest.mark.parametrize(
    ("labels", "spec", "message"),
    [
        (None, PETS, "classes are declared, but there are no labels"),
        ([0, 1, 1], ImageSpec(2, 2), "no classes are declared"),
        ([0, 1], PETS, "labels must be as many as images"),
        (np.array([[0], [1], [1]]), PETS, "1 dimension, one label for each image, got 2"),
    ],
)
def test_labels_that_cannot_belong_to_the_images_are_refused(labels, spec, message):
    with pytest.raises((TypeError, ValueError), match=message):
        read_images(IMAGES, spec, labels=labels)
