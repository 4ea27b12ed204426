"""CelebA: a folder of aligned faces and a text file of forty attributes for each of them."""

import os
from pathlib import Path

from veilflow._core import check
from veilflow.images.folders import Entry, entry_of, once, read_entries
from veilflow.images.image_set import Images
from veilflow.images.resample import Fitting
from veilflow.images.spec import ImageSpec


def read_celeba(
    folder: str | os.PathLike[str],
    spec: ImageSpec,
    *,
    attributes: str | os.PathLike[str],
    attribute: str = "Male",
    crop: int | str | None = 178,
    method: str = "bilinear",
    invalid: str = "error",
) -> Images:
    """Read aligned faces with one attribute as their label.

        spec = vf.ImageSpec(height=32, width=32, channels=3, classes=(-1, 1))
        read_celeba("img_align_celeba", spec, attributes="list_attr_celeba.txt")

    All images that the file lists are read, in its order. Nobody counts them: taking the first so many
    of each class, as published code does, would let one face push out another.

    Args:
        folder: Where the images are (178 x 218 pixels in the published set).
        spec: The size to give them, three channels, and `classes=(-1, 1)`: without the attribute,
            and with it.
        attributes: The file `list_attr_celeba.txt`: a line with a number, a line of names, and for
            each image a line with its file and -1 or 1 for each name.
        attribute: Which of the names is the label.
        crop: The side of the square cut out of the middle before resizing.
        method: How to resize, "bilinear" or "box".
        invalid: "error", or "skip" files that cannot be read and lines that are damaged.

    Raises:
        ValueError: If a file or a line is not as declared; tells its place, never a name.
        OSError: If folder or file are not there.
        ImportError: If pillow is not installed.
    """
    check.one_of(("error", "skip"), invalid=invalid)
    if spec.channels != 3 or set(spec.classes) != {-1, 1}:
        raise ValueError("faces need a specification with channels=3 and classes=(-1, 1).")
    fitting = Fitting(size="resize", crop=crop, method=method)
    entries = once(_entries(Path(attributes), attribute))
    pixels, labels = read_entries(Path(folder), entries, spec, fitting=fitting, invalid=invalid)
    return Images(pixels, labels, spec)


def _entries(path: Path, attribute: str) -> list[Entry]:
    try:
        with open(path, encoding="utf-8-sig") as file:
            next(file, "")  # the number of images, which nothing here needs to know
            names = next(file, "").split()
            if names.count(attribute) != 1:  # the line is not shown: it may be a record
                raise ValueError(
                    f"the second line of {path.name} must name the attribute {attribute!r}. It is "
                    "spelled as in the published file, such as 'Male' or 'Wearing_Hat'."
                )
            place = names.index(attribute)
            return [_line(line.split(), place, len(names)) for line in file if line.strip()]
    except UnicodeDecodeError:
        raise ValueError(f"{path.name} is not UTF-8 text. Save it as UTF-8.") from None


def _line(cells: list[str], place: int, num_names: int) -> Entry:
    if len(cells) != num_names + 1:
        return Entry("", None, "is in a line with too few or too many cells. Correct it.")
    return entry_of(cells[0], cells[place + 1])
