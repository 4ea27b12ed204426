"""Images to files: arrays in an NPZ, all of them in one PNG, or a folder of PNG files by class."""

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from veilflow._core.store import atomic_path
from veilflow.images.grid import png, save_grid
from veilflow.images.image_set import Images, to_unit
from veilflow.images.spec import ImageSpec

FOLDER = ""
"""The kind of a target that is a folder; of a file it is how its name ends."""

_FILES = (".npz", ".png")
_NOT_IN_NAMES = frozenset("/\\:\0")


def target_kind(path: str | os.PathLike[str], spec: ImageSpec) -> str:
    """How images would be written to `path`: ".npz", ".png" or `FOLDER`.

    Raises:
        ValueError: If they cannot be, because of how the name ends, or of a class that is no name of
            a folder.
    """
    path = Path(path)
    kind = FOLDER if path.is_dir() else path.suffix.lower()
    if kind not in (FOLDER, *_FILES):
        raise ValueError(
            f"images are written to a file that ends in .npz or .png (side by side), or to a folder, "
            f"whose name has no ending; got {path.name}."
        )
    # a class list may come from a file of somebody else: its names must not lead out of the folder
    if kind == FOLDER and not all(map(_is_folder_name, map(str, spec.classes))):
        raise ValueError(
            "a class cannot be the name of a folder: it starts with a point, or has a slash, a "
            "backslash or a colon in it. Write a .npz file instead."
        )
    return kind


def write_images(images: Images, path: str | os.PathLike[str]) -> None:
    """Write images to a file or a folder, all or nothing.

    - `.npz`: the arrays `images`, (images, height, width) and channels last in color, in the declared
      range, and `labels`, as the class list has them. `read_images` reads the same images back.
    - `.png`: all images side by side.
    - a folder: PNG files, named by their place among all images, in a sub-folder for each class. They
      have 8 bits: the lower end of the declared range is black, the upper one white. The folder must
      not be there yet, or be empty.

    Raises:
        ValueError: If images are not written to such a target.
        OSError: If the folder is not empty, or may not be written.
    """
    kind = target_kind(path, images.spec)
    if kind == ".png":
        save_grid(images, path)
    elif kind == ".npz":
        with atomic_path(path) as temporary:
            if images.labels is None:
                np.savez(temporary, images=_in_range(images))
            else:
                labels = _classes(images.spec)[images.labels]
                np.savez(temporary, images=_in_range(images), labels=labels)
    else:
        with _new_folder(path) as temporary:
            _write_folder(images, temporary)


def _is_folder_name(name: str) -> bool:
    return not name.startswith(".") and not _NOT_IN_NAMES & set(name)


def _in_range(images: Images) -> np.ndarray:
    """Pixels as the specification declares them, channels last if there are several."""
    spec, pixels = images.spec, images.pixels
    if not spec.is_byte:
        units = to_unit(pixels).astype(np.float64)
        pixels = (spec.low + units * (spec.high - spec.low)).astype(np.float32)
    pixels = pixels[:, 0] if spec.channels == 1 else np.moveaxis(pixels, 1, 3)
    return np.ascontiguousarray(pixels)


def _classes(spec: ImageSpec) -> np.ndarray:
    classes = np.array(spec.classes)
    if classes.dtype.kind in "iuU":
        return classes
    # whole numbers that no type of NumPy holds: as objects they would be pickled
    return np.array([str(value) for value in spec.classes])


def _write_folder(images: Images, folder: Path) -> None:
    spec, labels = images.spec, images.labels
    inside = [folder] * max(1, len(spec.classes))
    if labels is not None:
        inside = [folder / str(name) for name in spec.classes]
        for place in np.unique(labels):
            inside[place].mkdir()
    for i, image in enumerate(images.pixels):
        pixels = image if image.dtype == np.uint8 else np.rint(image * 255).astype(np.uint8)
        place = 0 if labels is None else labels[i]
        (inside[place] / f"{i:06d}.png").write_bytes(png(np.moveaxis(pixels, 0, 2)))


@contextlib.contextmanager
def _new_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary folder beside `path` that takes its place only when the block ends well."""
    target = Path(os.path.realpath(path))
    temporary = target.parent / f".{secrets.token_hex(8)}.tmp"
    temporary.mkdir()
    try:
        yield temporary
        if target.exists():
            target.rmdir()  # fails unless it is an empty folder
        temporary.rename(target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
