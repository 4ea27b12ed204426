"""Finished runs on disk: what was measured once is not measured again, and never mixed up.

A run is one small JSON file, and an NPZ file beside it where figures need arrays. It is found by its
name and its settings, of which the file name holds a hash, and it says how it was measured: by which
commit and which versions, on what and when. It is never changed; to measure again, delete it. The JSON
file is written last and whole, so a run that was interrupted is a run that never was.
"""

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.provenance import commit, machine, today, versions, write_bytes, write_json

from reproductions.tasks import Finished

MEASURED = ("src", "reproductions", ":!reproductions/*/results.json", ":!reproductions/*/figures")
"""What a commit has to hold for its runs to be those of the commit."""


@dataclass(frozen=True)
class Run:
    """A finished run, and how it was measured.

    Attributes:
        settings: Everything that decides the result beside the code.
        result: What was measured, as plain JSON.
        seconds: How long it took.
        device: What it ran on.
        commit: The code it ran, with a plus sign where that was not committed.
        versions: Versions of the libraries; None where they were not recorded.
        date: The day it was finished; None where it was not recorded.
        arrays: For figures.
    """

    settings: dict[str, Any]
    result: dict[str, Any]
    seconds: float
    device: str
    commit: str
    versions: dict[str, str] | None = None
    date: str | None = None
    arrays: dict[str, np.ndarray] = field(default_factory=dict, repr=False)

    @classmethod
    def now(cls, settings: Mapping[str, Any], done: Finished) -> "Run":
        """A run that was finished here, just now."""
        return cls(
            settings=dict(settings),
            result=done.result,
            seconds=done.seconds,
            device=machine(),
            commit=commit(*MEASURED),
            versions=versions(),
            date=today(),
            arrays=done.arrays,
        )


@dataclass(frozen=True)
class Cache:
    """The finished runs in a folder, which need not exist yet."""

    folder: Path

    def find(self, name: str, settings: Mapping[str, Any]) -> Run | None:
        """The finished run of this name and these settings, or None.

        Raises:
            ValueError: The file is damaged, or is of other settings than its name says.
        """
        path = self._path(name, settings)
        if not path.exists():
            return None
        try:
            stored = json.loads(path.read_text("utf-8"))
            if stored["settings"] != dict(settings):
                raise ValueError("its settings are not those of its name")
            return Run(
                settings=stored["settings"],
                result=stored["result"],
                seconds=stored["seconds"],
                device=stored["device"],
                commit=stored["commit"],
                # older runs did not say
                versions=stored.get("versions"),
                date=stored.get("date"),
                arrays=_arrays(path.with_suffix(".npz")),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path.name} does not hold a finished run ({error}). Delete it to run it again."
            ) from error

    def store(self, name: str, run: Run) -> bool:
        """Keep a finished run, unless another process has finished it before: that one stays.

        Returns:
            Whether it was kept.
        """
        path = self._path(name, run.settings)
        if path.exists():
            return False
        stored = {**vars(run)}
        if arrays := stored.pop("arrays"):
            packed = io.BytesIO()
            np.savez_compressed(packed, allow_pickle=False, **arrays)
            write_bytes(path.with_suffix(".npz"), packed.getvalue())
        write_json(path, stored)
        return True

    def _path(self, name: str, settings: Mapping[str, Any]) -> Path:
        text = json.dumps(settings, sort_keys=True, allow_nan=False)
        return self.folder / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:10]}.json"


def _arrays(path: Path) -> dict[str, np.ndarray]:
    if not path.exists():
        return {}
    with np.load(path, allow_pickle=False) as found:
        return {name: found[name] for name in found.files}
