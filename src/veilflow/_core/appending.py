"""Pieces of files that are only ever appended to, and must survive a crash."""

import os
from pathlib import Path


def write_all(handle: int, data: bytes) -> None:
    """Write all of `data`, however little of it one call takes."""
    while data:
        data = data[os.write(handle, data) :]


def read_range(handle: int, start: int, end: int) -> bytes:
    """The bytes from `start` to `end`, or to where the file ends."""
    found = bytearray()
    while piece := os.pread(handle, end - start - len(found), start + len(found)):
        found += piece
    return bytes(found)


def flush_folder(path: Path) -> None:
    """Flush the folder of a new file, in which its name is, to the disk."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
