"""Many images in one PNG file, without any library of pictures."""

import math
import os
import struct
import zlib
from typing import Any

import numpy as np

from veilflow._core import check
from veilflow._core.store import write_atomic
from veilflow.images.image_set import Images

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_COLOR_TYPES = {1: 0, 3: 2}


def save_grid(
    images: Any,
    path: str | os.PathLike[str],
    *,
    columns: int | None = None,
    gap: int = 2,
    mode: int = 0o666,
) -> None:
    """Write images side by side to a PNG file, all or nothing, row by row from the upper left.

    A grid shows what it is given. Of sampled images it may be published; of records it may not.

    Args:
        images: Of shape (images, channels, height, width) or (images, height, width): bytes, or numbers
            in [0, 1], those beyond moved to the nearer end. Or `Images`.
        path: The file, ending in `.png`.
        columns: How many images stand in a row; as many as make a square unless given.
        gap: Pixels of white between images.
        mode: Who may read the file; the umask lowers it.

    Raises:
        ValueError: If there are no images, or they are not of such a shape, or have a NaN.
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
    # each row starts with the number of its filter: 0, none
    rows = np.pad(pixels.reshape(height, width * channels), ((0, 0), (1, 0)))
    body = zlib.compress(rows.tobytes(), 9)
    chunks = ((b"IHDR", head), (b"IDAT", body), (b"IEND", b""))
    return _SIGNATURE + b"".join(_chunk(name, data) for name, data in chunks)


def _chunk(name: bytes, data: bytes) -> bytes:
    checksum = zlib.crc32(name + data)
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", checksum)


def _arranged(pixels: np.ndarray, columns: int, gap: int) -> np.ndarray:
    """One white picture (height, width, channels) with the images on it."""
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
        raise ValueError("images of a grid must not have pixels that are no numbers (NaN).")
    return np.rint(np.clip(images, 0, 1).astype(np.float64) * 255).astype(np.uint8)
