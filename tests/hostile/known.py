"""Holes that are known and not closed yet, by loader: what a hunt may come upon there.

Each has a test in `test_known_holes.py` that fails as long as the hole is open, and fails the other way
once it is closed, so that its line here goes away with it.
"""

import re

KNOWN: dict[str, tuple[str, ...]] = {
    "model file, within": ("RuntimeError at ",),
    "schema, TOML": ("RecursionError at ", "OverflowError at ", "TypeError at constraints.py"),
    "schema, JSON": ("OverflowError at ", "TypeError at constraints.py"),
    "Arrow, numbers": ("the process died",),
    "Arrow, table": ("the process died",),
    "NPZ, numbers": ("SystemError at io.py",),
    "NPZ, images": ("OSError at zipfile.py",),
    "checkpoint": ("OverflowError at checkpoint.py",),
}


def unknown(name: str, crashes: list[str]) -> list[str]:
    """The crashes of a loader that are none of the known ones."""
    patterns = KNOWN.get(name, ())
    return [crash for crash in crashes if not any(re.search(p, crash) for p in patterns)]
