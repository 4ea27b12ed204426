"""Images from arrays, files and folders, by a declared specification.

Every image is read by itself: no image changes another. Whether an *error* is raised does depend on the
images; `invalid="skip"` leaves out those that are not as declared instead. No error depends on the
number of images, of all classes or of one: an empty set is a set like any other.
"""

import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from veilflow._core import check
from veilflow.images.arrays import from_array
from veilflow.images.folders import list_csv, list_folder, read_entries
from veilflow.images.idx import is_idx, read_idx
from veilflow.images.image_set import NOT_A_CLASS, Images, class_places
from veilflow.images.resample import Fitting
from veilflow.images.spec import ImageSpec

_ARRAY_NAMES = (("images", "labels"), ("x", "y"))


def read_images(
    source: Any,
    spec: ImageSpec,
    *,
    labels: Any = None,
    names: Sequence[str] | None = None,
    layout: str | None = None,
    size: str = "error",
    crop: int | str | None = None,
    method: str = "bilinear",
    color: str = "error",
    invalid: str = "error",
) -> Images:
    """Read a set of images.

    Args:
        source: An array; an IDX file (`.idx`, `-ubyte`, with or without `.gz`), `.npy` or `.npz`; a
            folder of image files, flat or with one sub-folder for each class; or `Images`.
        spec: The declared size, range and classes.
        labels: Labels for an array, or an IDX or `.npy` file of them; for a flat folder, a CSV that
            lists files and labels. Sub-folders and `.npz` files need none.
        names: The names of the arrays of images and labels in an `.npz` file (by default "images"
            and "labels", or "x" and "y"), or of the columns of a CSV (by default "file" and "label").
        layout: The layout of an array, "NHW", "NHWC" or "NCHW", if its shape does not tell.
        size: What to do about images of another size: "error", or "resize" them.
        crop: Before that, cut out the center: a square of this side, or the largest "square".
        method: How to resize, "bilinear" or "box".
        color: What to do about gray images where color is declared, and the reverse: "error", or
            "convert".
        invalid: What to do about images that cannot be read, are not as declared, have NaN as a
            pixel, or a label that is not in the class list: "error", or "skip" them.

    Returns:
        The images in order; those of folders sorted by sub-folder and name, or as the CSV lists
        them. Bytes of an array that needs no conversion are not copied: do not change it afterwards.

    Raises:
        ValueError: If images are not as declared. The message gives the place of a file, never its
            name, a label or a pixel.
        TypeError: If the source is of a kind that is not read.
        OSError: If there is no such file or folder, or it may not be read.
        ImportError: If image files are to be read and pillow is not installed.
    """
    check.one_of(("error", "skip"), invalid=invalid)
    fitting = Fitting(size=size, crop=crop, method=method, color=color)
    if names is not None and (isinstance(names, str) or len(names) != 2):
        raise ValueError("names must be two: that of the images or files, and that of the labels.")
    if labels is not None and not spec.classes:
        raise ValueError("there are labels, but no classes are declared. Declare them in the spec.")
    if isinstance(source, Images):
        return _same(source, spec, labels)
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        if path.is_dir():
            return _from_folder(path, spec, labels, names, fitting, invalid)
        source, own = _read_file(path, names, labeled=bool(spec.classes) and labels is None)
        labels = own if labels is None else labels
    if isinstance(labels, str | os.PathLike):
        labels, _ = _read_file(Path(labels), None, labeled=False)
    if spec.classes and labels is None:
        raise ValueError("classes are declared, but there are no labels. Pass labels=.")
    pixels, missing = from_array(source, spec, layout=layout, fitting=fitting, invalid=invalid)
    if missing.any() and invalid == "error":
        raise ValueError(
            "there are pixels that are not numbers (NaN). Replace them by a public rule, or pass "
            "invalid='skip'."
        )
    places = None if labels is None else _places(labels, len(pixels), spec, invalid)
    keep = ~missing if places is None else ~missing & (places != NOT_A_CLASS)
    if keep.all():
        return Images(pixels, places, spec)
    return Images(pixels[keep], None if places is None else places[keep], spec)


def _same(images: Images, spec: ImageSpec, labels: Any) -> Images:
    if images.labels is not None and labels is not None:
        raise ValueError("these images have their labels already. Do not pass labels.")
    if images.spec != spec:
        raise ValueError("these images were read by another specification. Read them by this one.")
    return images


def _places(labels: Any, num_images: int, spec: ImageSpec, invalid: str) -> np.ndarray:
    places = class_places(labels, spec)
    if len(places) != num_images:
        raise ValueError("labels must be as many as images, one for each and in the same order.")
    if invalid == "error" and (places == NOT_A_CLASS).any():
        raise ValueError(
            "there are labels that are not in the declared class list. Declare or correct them, or "
            "pass invalid='skip'."
        )
    return places


def _from_folder(
    folder: Path,
    spec: ImageSpec,
    labels: Any,
    names: Sequence[str] | None,
    fitting: Fitting,
    invalid: str,
) -> Images:
    if labels is None:
        entries = list_folder(folder, labeled=bool(spec.classes))
    elif isinstance(labels, str | os.PathLike):
        entries = list_csv(Path(labels), names)
    else:
        raise TypeError(
            f"labels of a folder must be a CSV of files and labels, got {type(labels).__name__}."
        )
    pixels, places = read_entries(folder, entries, spec, fitting=fitting, invalid=invalid)
    return Images(pixels, places, spec)


def _read_file(path: Path, names: Sequence[str] | None, *, labeled: bool) -> tuple[Any, Any]:
    """The array of a file, and that of its labels if the file holds labels and they are wanted."""
    if not path.exists():
        raise FileNotFoundError(f"there is no file or folder {path}.")
    kind = path.suffix.lower()
    if not is_idx(path) and kind not in (".npy", ".npz"):
        raise ValueError(
            f"{path.name} is of a kind that is not read. Give a folder of image files, or a file that "
            "ends in .npz, .npy, .idx or -ubyte (with or without .gz)."
        )
    if is_idx(path):
        return read_idx(path), None
    with open(path, "rb") as file:  # errors from here on are about its contents
        try:
            if kind == ".npy":
                return np.lib.format.read_array(file, allow_pickle=False), None
            with zipfile.ZipFile(file) as archive:
                members = [name.removesuffix(".npy") for name in archive.namelist()]
                chosen = _chosen(members, names, path.name, labeled)
                arrays = [_member(archive, name) for name in chosen]
        except _Unnamed:
            raise
        except Exception:  # NumPy lets many kinds of error out of a damaged file
            raise ValueError(
                f"{path.name} is not a readable NumPy file of plain numbers: damaged, foreign, or "
                "holding Python objects."
            ) from None
    return arrays[0], arrays[1] if labeled else None


class _Unnamed(ValueError):
    """It is unclear which arrays of a file are meant."""


def _chosen(
    members: list[str], names: Sequence[str] | None, file: str, labeled: bool
) -> Sequence[str]:
    for pair in _ARRAY_NAMES if names is None else (names,):
        chosen = pair[: 2 if labeled else 1]
        if set(chosen) <= set(members):
            return chosen
    raise _Unnamed(
        f"{file} holds the arrays {', '.join(members[:8])}. Name that of the images and that of the "
        "labels: names=(images, labels)."
    )


def _member(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    with archive.open(f"{name}.npy") as member:
        return np.lib.format.read_array(member, allow_pickle=False)
