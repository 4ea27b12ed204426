"""Finished runs on disk: what was measured once is not measured again, and never mixed up.

A run is one small JSON file, and an NPZ file beside it where figures need arrays. Its name holds a
hash of its settings, its content a hash of the code that made it; a run of other code counts where that
is known to give the same numbers (`equivalent.py`). The JSON file is written last and whole, so a run
that was interrupted is a run that never was.
"""

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.provenance import commit, machine, write_bytes, write_json

from reproductions.equivalent import same_numbers

MEASURED = ("src", "reproductions", ":!reproductions/*/results.json", ":!reproductions/*/figures")
"""What a commit has to hold for its runs to be those of the commit."""


@dataclass(frozen=True)
class Run:
    """A finished run as it was stored."""

    settings: dict[str, Any]
    result: dict[str, Any]
    seconds: float
    device: str
    commit: str
    code: str
    arrays: dict[str, np.ndarray] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, kw_only=True)
class Cache:
    """The finished runs in a folder.

    Args:
        folder: Where they are; it need not exist yet.
        code: The fingerprint of the code that would make the runs now.
        any_code: Take runs that any code made. Their records say so.
    """

    folder: Path
    code: str
    any_code: bool = False

    def find(self, name: str, settings: Mapping[str, Any]) -> Run | None:
        """The finished run of these settings, or None.

        Raises:
            ValueError: The file is damaged, or is of other settings than its name says.
        """
        path = self._path(name, settings)
        if not path.exists():
            return None
        try:
            stored = json.loads(path.read_text("utf-8"))
            same_code = stored["code"] == self.code
            if not (self.any_code or stored["code"] in same_numbers(self.code)):
                return None
            if stored["settings"] != dict(settings):
                raise ValueError("its settings are not those of its name")
            ran = commit(*MEASURED) if same_code and stored["commit"] == "unknown" else None
            return Run(
                settings=stored["settings"],
                result=stored["result"],
                seconds=stored["seconds"],
                device=stored["device"],
                commit=ran or stored["commit"],  # a machine without git may have run this code
                code=stored["code"],
                arrays=_arrays(path.with_suffix(".npz")),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path.name} does not hold a finished run ({error}). Delete it to run it again."
            ) from error

    def stale(self, name: str, settings: Mapping[str, Any]) -> bool:
        """Whether the run is finished, but other code made it."""
        return not self.any_code and self._path(name, settings).exists()

    def store(
        self,
        name: str,
        settings: Mapping[str, Any],
        result: Mapping[str, Any],
        *,
        seconds: float,
        arrays: Mapping[str, np.ndarray],
    ) -> None:
        """Keep a finished run of here and now."""
        path = self._path(name, settings)
        if arrays:
            packed, named = io.BytesIO(), {**arrays}
            np.savez_compressed(packed, allow_pickle=False, **named)  # type: ignore[arg-type]
            write_bytes(path.with_suffix(".npz"), packed.getvalue())
        stored = {
            "settings": dict(settings),
            "result": dict(result),
            "seconds": seconds,
            "device": machine(),
            "commit": commit(*MEASURED),
            "code": self.code,
        }
        write_json(path, stored)

    def _path(self, name: str, settings: Mapping[str, Any]) -> Path:
        text = json.dumps(settings, sort_keys=True, allow_nan=False)
        return self.folder / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:10]}.json"


def _arrays(path: Path) -> dict[str, np.ndarray]:
    if not path.exists():
        return {}
    with np.load(path, allow_pickle=False) as found:
        return {name: found[name] for name in found.files}
