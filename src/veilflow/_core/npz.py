"""What arrays an NPZ file has, without reading any of them."""

import zipfile
from pathlib import Path


def npz_names(path: Path) -> frozenset[str]:
    """The names of the arrays in an NPZ file; none where it is no such file, or is damaged."""
    if path.suffix.lower() != ".npz" or not path.is_file() or not zipfile.is_zipfile(path):
        return frozenset()
    try:
        with zipfile.ZipFile(path) as opened:
            members = opened.namelist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError):  # whoever reads it says so
        return frozenset()
    return frozenset(name.removesuffix(".npy") for name in members if name.endswith(".npy"))
