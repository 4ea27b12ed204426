"""Small generated image files for the tests of this folder."""

import gzip
import struct
from pathlib import Path

import numpy as np
from PIL import Image

TYPES = {"u1": 0x08, "i1": 0x09, "i2": 0x0B, "i4": 0x0C, "f4": 0x0D, "f8": 0x0E}


def some_bytes(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def write_idx(path: Path, array: np.ndarray) -> Path:
    code = TYPES[array.dtype.str[1:]]
    head = bytes([0, 0, code, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    data = head + array.astype(array.dtype.newbyteorder(">")).tobytes()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def write_image(path: Path, pixels: np.ndarray, **settings) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **settings)
    return path


def write_csv(path: Path, rows: list[tuple[str, str]], header: str = "file,label") -> Path:
    text = "\n".join([header, *(",".join(row) for row in rows)]) + "\n"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    return path
