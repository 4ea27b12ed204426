"""Faces in the form in which CelebA is published, read as the guide shows, from generated files."""

import numpy as np
import pandas as pd
import pytest

from tests.images.files import some_bytes, write_image
from veilflow.images import ImageSpec, read_images

SPEC = ImageSpec(32, 32, 3, classes=(-1, 1))


@pytest.fixture
def published(tmp_path):
    """A folder of three faces, and a CSV of labels made of the list of attributes."""
    folder = tmp_path / "img_align_celeba"
    for number in range(1, 4):
        # smooth, as photographs are: noise would not survive JPEG
        rows, columns = np.mgrid[:218, :178]
        image = np.stack([rows, columns, np.full_like(rows, 60 * number)], axis=2)
        write_image(folder / f"00000{number}.jpg", image.astype(np.uint8), quality=95)
    lines = ["000001.jpg  1 -1  1", "000003.jpg -1  1 -1", "000002.jpg -1  1  1"]
    path = tmp_path / "list_attr_celeba.txt"
    path.write_text("3\nSmiling Male Young\n" + "\n".join(lines) + "\n")
    attributes = pd.read_csv(path, sep=r"\s+", skiprows=1)
    attributes["Male"].rename("label").to_csv(tmp_path / "male.csv", index_label="file")
    return folder, tmp_path / "male.csv"


def test_faces_are_cropped_resized_and_labeled(published):
    folder, labels = published
    read = read_images(folder, SPEC, labels=labels, size="resize", crop=178)
    assert read.pixels.shape == (3, 3, 32, 32)
    assert read.labels.tolist() == [0, 1, 1]
    # the middle: rows 20 to 198 of 218, all of the 178 columns
    np.testing.assert_allclose(read.pixels[0, 0, :, 5], np.linspace(22.3, 194.7, 32), atol=3)
    np.testing.assert_allclose(read.pixels[0, 1, 5, :], np.linspace(2.3, 174.7, 32), atol=3)
    np.testing.assert_allclose(read.pixels[:, 2].mean(axis=(1, 2)), [60, 180, 120], atol=3)


def test_a_crop_larger_than_a_face_is_refused(published):
    folder, labels = published
    write_image(folder / "000001.jpg", some_bytes(100, 218, 3))
    with pytest.raises(ValueError, match="100 x 218 pixels, too small for a crop of 178"):
        read_images(folder, SPEC, labels=labels, size="resize", crop=178)
