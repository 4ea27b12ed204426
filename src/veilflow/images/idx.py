"""IDX files, the format in which MNIST is distributed, packed by gzip or not."""

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np

_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_GZIP = b"\x1f\x8b"
_MAX_RATIO = 1100  # more than deflate can reach: a file that claims more is damaged
_AGAIN = "Copy it again from its source."


def is_idx(path: Path) -> bool:
    """Whether a file is named as IDX files are."""
    name = path.name.lower().removesuffix(".gz")
    return name.endswith((".idx", "-ubyte", ".ubyte"))


def read_idx(path: Path) -> np.ndarray:
    """The array of an IDX file.

    Raises:
        ValueError: If the file is damaged, truncated or not an IDX file. The message names the file,
            and no number.
        OSError: If there is no such file, or it may not be read.
    """
    size = path.stat().st_size
    with open(path, "rb") as raw:
        packed = raw.read(2) == _GZIP
        raw.seek(0)
        try:
            if not packed:
                return _read(raw, size, path)
            with gzip.open(raw, "rb") as file:
                return _read(file, size * _MAX_RATIO, path)
        except (EOFError, gzip.BadGzipFile, zlib.error):
            raise ValueError(f"{path.name} is damaged or truncated. {_AGAIN}") from None


def _read(file: Any, most: int, path: Path) -> np.ndarray:
    head = file.read(4)
    if len(head) < 4 or head[:2] != b"\0\0" or head[2] not in _TYPES or not head[3]:
        raise ValueError(f"{path.name} is not an IDX file. {_AGAIN}")
    sizes = file.read(4 * head[3])
    if len(sizes) < 4 * head[3]:
        raise ValueError(f"{path.name} is truncated. {_AGAIN}")
    kind = np.dtype(_TYPES[head[2]])
    shape = struct.unpack(f">{head[3]}I", sizes)
    truncated = ValueError(f"{path.name} is truncated: its header claims more. {_AGAIN}")
    # before memory is allocated for what the header claims
    if math.prod(shape) * kind.itemsize > most:
        raise truncated
    array = np.empty(shape, kind)
    if _fill(file, array) < array.nbytes:
        raise truncated
    if file.read(1):
        raise ValueError(f"{path.name} holds more than its header claims. {_AGAIN}")
    return array.astype(kind.newbyteorder("="), copy=False)


def _fill(file: Any, array: np.ndarray) -> int:
    """Read the bytes of the array; returns how many there were."""
    if not array.size:
        return 0
    target = array.reshape(-1).view(np.uint8).data
    done = 0
    while done < len(target):
        read = file.readinto(target[done:])
        if not read:
            break
        done += read
    return done
