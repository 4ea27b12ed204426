"""Writing images: arrays in an NPZ file, a grid in one PNG file, or a folder of PNG files by class."""

import contextlib
import math
import os
import secrets
import shutil
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from veilflow._core import check
from veilflow._core.store import atomic_path, write_atomic
from veilflow.images.image_set import Images, to_unit
from veilflow.images.spec import ImageSpec

FOLDER = ""
"""The kind of a target that is a folder; that of a file is its suffix."""

_FILES = (".npz", ".png")
_NOT_IN_NAMES = frozenset("/\\:\0")
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_COLOR_TYPES = {1: 0, 3: 2}
"""PNG's numbers for gray and for color, by channels."""


def target_kind(path: str | os.PathLike[str], spec: ImageSpec) -> str:
    """The kind of file or folder that `path` names: ".npz", ".png" or `FOLDER`.

    Raises:
        ValueError: If the suffix is another, or a class cannot be the name of a folder.
    """
    path = Path(path)
    kind = FOLDER if path.is_dir() else path.suffix.lower()
    if kind not in (FOLDER, *_FILES):
        raise ValueError(
            "images are written to a file that ends in .npz or .png (side by side), or to a folder, "
            f"whose name has no suffix; got {path.name}."
        )
    # a class list may come from somebody else's file: its names must not lead out of the folder
    if kind == FOLDER and not all(map(_is_folder_name, map(str, spec.classes))):
        raise ValueError(
            "a class cannot be the name of a folder: it starts with a point, or contains a slash, a "
            "backslash or a colon. Write a .npz file instead."
        )
    return kind


def write_images(images: Images, path: str | os.PathLike[str]) -> None:
    """Write images to a file or a folder, all or nothing.

    - `.npz`: the arrays `images`, (images, height, width) with channels last if there are several, in
      the declared range, and `labels`, as in the class list. `read_images` reads them back.
    - `.png`: all images side by side.
    - a folder: PNG files of 8 bits, numbered, in a sub-folder for each class. The lower end of the
      declared range is black, the upper end white. The folder must be empty or not exist yet.

    Raises:
        ValueError: If `path` names another kind of target.
        OSError: If the folder is not empty, or may not be written.
    """
    kind = target_kind(path, images.spec)
    if kind == ".png":
        save_grid(images, path)
    elif kind == ".npz":
        with atomic_path(path) as temporary:
            arrays = {"images": _in_range(images)}
            if images.labels is not None:
                arrays["labels"] = _classes(images.spec)[images.labels]
            np.savez(temporary, **arrays)  # pyright: ignore[reportArgumentType]
    else:
        with _new_folder(path) as temporary:
            _write_folder(images, temporary)


def save_grid(
    images: Any,
    path: str | os.PathLike[str],
    *,
    columns: int | None = None,
    gap: int = 2,
    mode: int = 0o666,
) -> None:
    """Write images side by side to a PNG file, all or nothing, row by row from the upper left.

    A grid of sampled images may be published; a grid of records may not.

    Args:
        images: An array (images, channels, height, width) or (images, height, width) of bytes or of
            numbers, which are clipped to [0, 1]; or `Images`.
        path: The file, ending in `.png`.
        columns: The number of images in a row; by default the grid is square.
        gap: The width of the white lines between images, in pixels.
        mode: The permissions of the file, which the umask lowers.

    Raises:
        ValueError: If there are no images, or they have another shape, or a NaN.
        TypeError: If they are of another type.
    """
    if not os.fspath(path).lower().endswith(".png"):
        raise ValueError("a grid is written as PNG. Give a path that ends in .png.")
    check.count(gap=gap, at_least=0)
    pixels = _bytes(images.pixels if isinstance(images, Images) else np.asarray(images))
    columns = math.ceil(math.sqrt(len(pixels))) if columns is None else columns
    check.count(columns=columns)
    write_atomic(path, png(_arranged(pixels, columns, gap)), mode=mode)


def png(pixels: np.ndarray) -> bytes:
    """A PNG file of one image: bytes of shape (height, width, 1 or 3)."""
    height, width, channels = pixels.shape
    head = struct.pack(">IIBBBBB", width, height, 8, _COLOR_TYPES[channels], 0, 0, 0)
    # each row starts with the number of its filter, where 0 stands for none
    rows = np.pad(pixels.reshape(height, width * channels), ((0, 0), (1, 0)))
    body = zlib.compress(rows.tobytes(), 9)
    chunks = ((b"IHDR", head), (b"IDAT", body), (b"IEND", b""))
    return _SIGNATURE + b"".join(_chunk(name, data) for name, data in chunks)


def _is_folder_name(name: str) -> bool:
    return not name.startswith(".") and not _NOT_IN_NAMES & set(name)


def _in_range(images: Images) -> np.ndarray:
    """Pixels in the declared range, channels last if there are several."""
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
    # whole numbers beyond every type of NumPy would be objects, and pickled
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
    """A temporary folder that takes the place of `path` if the block ends without an error."""
    target = Path(os.path.realpath(path))
    temporary = target.parent / f".{secrets.token_hex(8)}.tmp"
    temporary.mkdir()
    try:
        yield temporary
        if target.exists():
            target.rmdir()  # fails unless the folder is empty
        temporary.rename(target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _chunk(name: bytes, data: bytes) -> bytes:
    checksum = zlib.crc32(name + data)
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", checksum)


def _arranged(pixels: np.ndarray, columns: int, gap: int) -> np.ndarray:
    """A white picture (height, width, channels) with the images on it."""
    num_images, channels, height, width = pixels.shape
    columns = min(columns, num_images)
    rows = math.ceil(num_images / columns)
    shape = rows * (height + gap) - gap, columns * (width + gap) - gap, channels
    picture = np.full(shape, 255, np.uint8)
    for place, image in enumerate(pixels):
        top, left = place // columns * (height + gap), place % columns * (width + gap)
        picture[top : top + height, left : left + width] = np.moveaxis(image, 0, 2)
    return picture


def _bytes(images: np.ndarray) -> np.ndarray:
    """Images as bytes (images, channels, height, width)."""
    if images.ndim == 3:
        images = images[:, None]
    if images.ndim != 4 or images.shape[1] not in _COLOR_TYPES or 0 in images.shape:
        raise ValueError(
            "a grid takes at least one image, as (images, height, width) or (images, 1 or 3 "
            f"channels, height, width), got the shape {images.shape}."
        )
    if images.dtype == np.uint8:
        return images
    if images.dtype.kind != "f":
        raise TypeError(f"pixels must be bytes or numbers in [0, 1], got the type {images.dtype}.")
    if np.isnan(images).any():
        raise ValueError("images of a grid must not have pixels that are not numbers (NaN).")
    return np.rint(np.clip(images, 0, 1).astype(np.float64) * 255).astype(np.uint8)
