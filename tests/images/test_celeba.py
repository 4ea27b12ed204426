"""Faces in the form in which CelebA is published, on generated files."""

import numpy as np
import pytest

from tests.images.files import some_bytes, write_image
from veilflow.images import ImageSpec, read_celeba

SPEC = ImageSpec(32, 32, 3, classes=(-1, 1))
HEAD = "3\nSmiling Male Young\n"


def faces(folder, lines, head=HEAD):
    for number in range(1, 4):
        # smooth, as photographs are: noise would not survive JPEG
        rows, columns = np.mgrid[:218, :178]
        image = np.stack([rows, columns, np.full_like(rows, 60 * number)], axis=2)
        write_image(folder / f"00000{number}.jpg", image.astype(np.uint8), quality=95)
    path = folder.parent / "list_attr_celeba.txt"
    path.write_text(head + "\n".join(lines) + "\n")
    return path


def test_faces_are_cropped_resized_and_labeled(tmp_path):
    lines = ["000001.jpg  1 -1  1", "000003.jpg -1  1 -1", "000002.jpg -1  1  1"]
    attributes = faces(tmp_path / "img_align_celeba", lines)
    read = read_celeba(tmp_path / "img_align_celeba", SPEC, attributes=attributes)
    assert read.pixels.shape == (3, 3, 32, 32)
    assert read.labels.tolist() == [0, 1, 1]
    # the middle: rows 20 to 198 of 218, all of the 178 columns
    np.testing.assert_allclose(read.pixels[0, 0, :, 5], np.linspace(22.3, 194.7, 32), atol=3)
    np.testing.assert_allclose(read.pixels[0, 1, 5, :], np.linspace(2.3, 174.7, 32), atol=3)
    np.testing.assert_allclose(read.pixels[:, 2].mean(axis=(1, 2)), [60, 180, 120], atol=3)
    young = read_celeba(
        tmp_path / "img_align_celeba", SPEC, attributes=attributes, attribute="Young"
    )
    assert young.labels.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("000002.jpg 1 1", "too few or too many cells"),
        ("000002.jpg 1 1 1 1", "too few or too many cells"),
        ("SECRET.jpg 1 1 1", "is not there"),
        ("000002.jpg 1 0 1", "label that is not in the class list"),
        ("../000002.jpg 1 1 1", "outside of the folder"),
        ("SECRET", "too few or too many cells"),
    ],
)
def test_damaged_lines_are_told_by_their_place_or_left_out(tmp_path, line, message):
    folder = tmp_path / "faces"
    attributes = faces(folder, ["000001.jpg 1 1 1", line])
    with pytest.raises(ValueError, match=f"file 2 .*{message}") as info:
        read_celeba(folder, SPEC, attributes=attributes)
    assert "SECRET" not in str(info.value)
    read = read_celeba(folder, SPEC, attributes=attributes, invalid="skip")
    assert read.labels.tolist() == [1]


def test_the_number_in_the_first_line_is_not_believed(tmp_path):
    folder = tmp_path / "faces"
    head = HEAD.replace("3", "202599", 1)
    attributes = faces(folder, ["000001.jpg 1 1 1"], head=head)
    assert len(read_celeba(folder, SPEC, attributes=attributes)) == 1


def test_attributes_and_specifications_that_do_not_fit_are_refused(tmp_path):
    folder = tmp_path / "faces"
    attributes = faces(folder, ["000001.jpg 1 1 1"])
    with pytest.raises(ValueError, match="must name the attribute 'male'"):
        read_celeba(folder, SPEC, attributes=attributes, attribute="male")
    attributes.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="not UTF-8"):
        read_celeba(folder, SPEC, attributes=attributes)
    with pytest.raises(ValueError, match=r"channels=3 and classes=\(-1, 1\)"):
        read_celeba(folder, ImageSpec(32, 32, 3, classes=(0, 1)), attributes=attributes)
    with pytest.raises(FileNotFoundError):
        read_celeba(folder, SPEC, attributes=tmp_path / "nowhere.txt")


def test_a_crop_larger_than_a_face_is_refused(tmp_path):
    folder = tmp_path / "faces"
    attributes = faces(folder, ["000001.jpg 1 1 1"])
    write_image(folder / "000001.jpg", some_bytes(100, 218, 3))
    with pytest.raises(ValueError, match="100 x 218 pixels, too small for a crop of 178"):
        read_celeba(folder, SPEC, attributes=attributes)
