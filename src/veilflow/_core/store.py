"""Atomic writes, and the zip file in which a model is saved.

A `*.veil` file is a zip of exactly four members: three JSON documents and one safetensors file of
arrays. Reading it parses and checks; it never runs any code. Whatever is wrong with the file is
reported as an `ArtifactError`. The same contents give the same bytes, on any machine and on any day.
"""

import contextlib
import json
import math
import os
import secrets
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from veilflow._core.errors import ArtifactError

FORMAT = "veilflow-model"
FORMAT_VERSION = 1

_MIB = 2**20
# Far above anything veilflow writes, and so small that a hostile file cannot exhaust a machine.
_LIMITS = {
    "manifest.json": 4 * _MIB,
    "ledger.json": 64 * _MIB,
    "schema.json": 64 * _MIB,
    "arrays.safetensors": 16 * 1024 * _MIB,
}
_MAX_RATIO = 200  # unpacked over packed size, for members above one MiB
_STAMP = (1980, 1, 1, 0, 0, 0)  # the zip epoch: files do not tell when they were written
_DTYPES = frozenset(
    ["bool", "float16", "float32", "float64"]
    + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)
_PROBLEMS = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    LookupError,
    NotImplementedError,
    OSError,
    OverflowError,
    RuntimeError,
    ValueError,
)
_AGAIN = "Copy it again from its source, or fit and save the model again."


@dataclass(frozen=True)
class Contents:
    """The parsed contents of a `*.veil` file: three JSON objects and named arrays."""

    manifest: Mapping[str, Any]
    ledger: Mapping[str, Any]
    schema: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray]


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike[str], *, mode: int = 0o666) -> Iterator[Path]:
    """A temporary file beside `path` that replaces it if the block ends without an error.

    The file is flushed to disk before it is moved, so a crash leaves the old file or the new one,
    never a part of one. An error in the block removes the temporary file and leaves `path` as it was.
    Links are followed; a path that is a folder or a device is refused. The umask narrows `mode`, as
    for any new file; pass 0o600 for files that only the user may read. A file that replaces another
    one is not readable by anyone who could not read the old one.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise OSError(f"{os.fspath(path)} is not a regular file. Choose another name to write to.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the folder of {os.fspath(path)} does not exist. Create it first.")
    if target.exists():
        mode &= target.stat().st_mode | 0o600
    # The suffix stays at the end, because some writers choose a format by it.
    temporary = target.parent / f".{secrets.token_hex(8)}.tmp{target.suffix}"
    # Not created by tempfile, whose files nobody else can read.
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
    try:
        yield temporary
        _flush(temporary, os.O_RDWR)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    with contextlib.suppress(OSError):  # not every system can flush a folder
        _flush(target.parent, os.O_RDONLY)


def write_atomic(path: str | os.PathLike[str], data: bytes, *, mode: int = 0o666) -> None:
    """Write `data` to `path` atomically, replacing what is there; the umask narrows `mode`."""
    with atomic_path(path, mode=mode) as temporary:
        temporary.write_bytes(data)


def write_veil(path: str | os.PathLike[str], contents: Contents) -> None:
    """Write one `*.veil` file atomically, replacing what is there.

    Raises:
        ArtifactError: A document is not plain JSON, or an array has a type that is not supported.
            Nothing is written.
    """
    from safetensors.numpy import save

    header = {"format": FORMAT, "format_version": FORMAT_VERSION}
    members = {
        "manifest.json": _dump("manifest.json", {**contents.manifest, **header}),
        "ledger.json": _dump("ledger.json", contents.ledger),
        "schema.json": _dump("schema.json", contents.schema),
        "arrays.safetensors": save({k: _storable(k, v) for k, v in contents.arrays.items()}),
    }
    for name, data in members.items():
        if len(data) > _LIMITS[name]:
            raise ArtifactError(
                f"{name} would take {len(data)} bytes; {_LIMITS[name]} is the most."
            )
    with atomic_path(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name, data in members.items():
            info = zipfile.ZipInfo(name, _STAMP)
            # Stored: parameters hardly shrink, and deflate's bytes differ between zlib versions.
            info.compress_type = zipfile.ZIP_STORED
            info.create_system = 3
            info.external_attr = (stat.S_IFREG | 0o644) << 16
            archive.writestr(info, data)


def read_veil(path: str | os.PathLike[str]) -> Contents:
    """Read one `*.veil` file and check its form. This runs no code from the file.

    Raises:
        ArtifactError: The file is damaged, suspicious, or not written by this version of veilflow.
        OSError: The file does not exist or may not be read.
    """
    with open(path, "rb") as file:
        if file.read(4) != b"PK\x03\x04":
            raise ArtifactError(
                "this is not a veilflow model file: it does not start as a zip file does. "
                "Give a *.veil file that save() wrote."
            )
        try:
            with zipfile.ZipFile(file) as archive:
                members = _members(archive)
        except ArtifactError:
            raise
        except _PROBLEMS as error:
            kind = type(error).__name__
            raise ArtifactError(
                f"the model file is truncated or damaged ({kind}). {_AGAIN}"
            ) from None
    manifest = parse_json(members["manifest.json"], what="manifest.json")
    _check_version(manifest)
    return Contents(
        manifest={k: v for k, v in manifest.items() if k not in ("format", "format_version")},
        ledger=parse_json(members["ledger.json"], what="ledger.json"),
        schema=parse_json(members["schema.json"], what="schema.json"),
        arrays=_arrays(members["arrays.safetensors"]),
    )


def parse_json(data: bytes, *, what: str) -> dict[str, Any]:
    """One JSON object of finite numbers and unique names; `what` names it in errors."""
    try:
        value = json.loads(
            data.decode("utf-8"),
            parse_constant=_refuse_constant,
            parse_float=_finite,
            object_pairs_hook=_unique,
        )
        # The parser accepts a lone surrogate, which would fail later, wherever it is printed.
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except RecursionError:
        raise ArtifactError(f"{what} is nested too deeply: not written by veilflow.") from None
    except ValueError as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else type(error).__name__
        if isinstance(error, _Refused):
            reason = str(error)
        raise ArtifactError(f"{what} is not valid JSON ({reason}). {_AGAIN}") from None
    if not isinstance(value, dict):
        raise ArtifactError(f"{what} must hold a JSON object, not a {type(value).__name__}.")
    return value


class _Refused(ValueError):
    """JSON that Python's parser accepts but that is refused here."""


def _refuse_constant(name: str) -> float:
    raise _Refused(f"{name} is not allowed")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _Refused("a number is too large")
    return number


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        raise _Refused("a name occurs twice in one object")
    return unique


def _members(archive: zipfile.ZipFile) -> dict[str, bytes]:
    """The bytes of the four members, after all checks that are possible before reading them."""
    infos = archive.infolist()
    if sorted(info.filename for info in infos) != sorted(_LIMITS):
        raise ArtifactError(
            f"a veilflow model file holds exactly {', '.join(_LIMITS)}; this zip file holds "
            "something else. Give a *.veil file that save() wrote."
        )
    if archive.comment:
        raise ArtifactError(f"the model file carries a comment: veilflow writes none. {_AGAIN}")
    for info in infos:
        if info.flag_bits & 0x1:
            raise ArtifactError(f"{info.filename} is encrypted. Unpack and zip it again without.")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ArtifactError(
                f"{info.filename} is packed by a method veilflow does not read. Zip it again, "
                "stored or deflated."
            )
        limit = _LIMITS[info.filename]
        if info.file_size > limit:
            raise ArtifactError(
                f"{info.filename} claims {info.file_size} bytes; {limit} is the most. Not loaded."
            )
        if info.file_size > _MIB and info.file_size > _MAX_RATIO * info.compress_size:
            raise ArtifactError(
                f"{info.filename} unpacks to more than {_MAX_RATIO} times its size, as a zip bomb "
                "does. Not loaded; if the file is yours, zip it again stored."
            )
    return {info.filename: _member(archive, info) for info in infos}


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """One member, read no further than its declared size; reading to the end checks its CRC."""
    with archive.open(info) as member:
        data = member.read(info.file_size + 1)
    if len(data) != info.file_size:
        raise ArtifactError(f"{info.filename} is not as long as the file says. {_AGAIN}")
    return data


def _check_version(manifest: Mapping[str, Any]) -> None:
    version = manifest.get("format_version")
    if manifest.get("format") != FORMAT or type(version) is not int or version < 1:
        raise ArtifactError(
            f"manifest.json names no {FORMAT} format version: not written by veilflow."
        )
    if version > FORMAT_VERSION:
        raise ArtifactError(
            f"the model file has format version {version}; this veilflow reads up to "
            f"{FORMAT_VERSION}. Install a newer veilflow."
        )


def _arrays(data: bytes) -> dict[str, np.ndarray]:
    from safetensors.numpy import load

    try:
        arrays = load(data)
    except Exception as error:  # the parser of another library may raise anything
        kind = type(error).__name__
        raise ArtifactError(f"arrays.safetensors cannot be read ({kind}). {_AGAIN}") from None
    for name, array in arrays.items():
        if array.dtype.name not in _DTYPES:
            raise ArtifactError(f"array {name[:80]!r} has a type veilflow never writes.")
        array.flags.writeable = False
    return arrays


def _storable(name: str, array: Any) -> np.ndarray:
    """A contiguous copy in native byte order, because safetensors ignores strides."""
    array = np.asarray(array)
    if array.dtype.name not in _DTYPES:
        raise ArtifactError(f"array {name!r} has the type {array.dtype}, which is not stored.")
    return np.array(array, dtype=array.dtype.newbyteorder("="), order="C", copy=True)


def _dump(name: str, document: Mapping[str, Any]) -> bytes:
    try:
        text = json.dumps(document, allow_nan=False, sort_keys=True, indent=1, ensure_ascii=False)
        return text.encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise ArtifactError(f"{name} cannot be written as JSON: {error}") from error


def _flush(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
