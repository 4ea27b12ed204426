"""The names of the arrays in an NPZ file, without reading the arrays."""

import zipfile
from pathlib import Path


def npz_names(path: Path) -> frozenset[str]:
    """The names of the arrays in an NPZ file; none if it is damaged or is not such a file."""
    if path.suffix.lower() != ".npz" or not path.is_file() or not zipfile.is_zipfile(path):
        return frozenset()
    try:
        with zipfile.ZipFile(path) as opened:
            members = opened.namelist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError):  # reading the file will report it
        return frozenset()
    return frozenset(name.removesuffix(".npy") for name in members if name.endswith(".npy"))
