"""Writing rows to a file chunk by chunk, all or nothing; and the formats that suffixes name."""

import contextlib
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float
from pyarrow import ipc, parquet

from veilflow._core import check
from veilflow._core.store import atomic_path
from veilflow.tabular.text import csv_writer

_SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".npz": "npz",
    ".npy": "npy",
}

Chunk = Float[np.ndarray, "n d"]
Write = Callable[[Chunk], Any]


def file_format(path: str | os.PathLike[str]) -> str:
    """The format that a file's suffix names: csv, parquet, arrow, npz or npy."""
    path = Path(path)
    kind = _SUFFIXES.get(path.suffix.lower())
    if kind is None:
        raise ValueError(
            f"the suffix of {path.name} must be one of {', '.join(_SUFFIXES)}, got "
            f"{path.suffix or 'none'!r}."
        )
    return kind


def write_chunks(
    chunks: Iterable[Chunk],
    path: str | os.PathLike[str],
    *,
    num_rows: int,
    dim: int,
    columns: Sequence[str] | None = None,
    mode: int = 0o666,
) -> None:
    """Write rows to a file as they come, in the format that its suffix names (see `read_rows`).

    Numbers keep double precision, and one chunk at a time is in memory. An existing file is replaced
    once the last row is on the disk; an error or an interrupt before leaves it as it was, and makes
    no new file. A chunk becomes a row group in Parquet and a record batch in Arrow, so chunks of
    some ten thousand rows read best.

    Args:
        chunks: Arrays of rows; an iterator may draw them one by one.
        path: The file to write.
        num_rows: The number of rows in all chunks.
        dim: The number of columns.
        columns: Their names. Where a format needs names and there are none: x1, x2, ...
        mode: The permissions of the file, which the umask lowers.

    Raises:
        ValueError: If the suffix is unknown, names are missing or occur twice, or the chunks do not
            hold `num_rows` rows of `dim` numbers.
        OSError: If the file cannot be written.
    """
    kind = file_format(path)
    check.count(num_rows=num_rows, at_least=0)
    names = tuple(f"x{i + 1}" for i in range(dim)) if columns is None else tuple(columns)
    check_names(names)
    if len(names) != dim:
        raise ValueError(f"columns must name all {dim} columns, got {len(names)}.")
    with atomic_path(path, mode=mode) as temporary:
        done = 0
        with _writer(temporary, kind, names, num_rows, named=columns is not None) as write:
            for chunk in chunks:
                _check_chunk(chunk, dim)
                done += len(chunk)
                if done > num_rows:
                    break
                write(chunk)
        if done != num_rows:
            # the rows may be private, and so may their number
            than = "more" if done > num_rows else "fewer"
            raise ValueError(f"chunks must hold num_rows rows in all, got {than}.")


def write_tables(
    tables: Iterable[pa.Table],
    path: str | os.PathLike[str],
    *,
    schema: pa.Schema,
    mode: int = 0o666,
) -> None:
    """Write tables one after the other into one file as they come, all or nothing.

    The suffix names the format: .csv, .tsv, .parquet or .arrow. Text has moments to the second.

    Args:
        tables: Tables of pyarrow; an iterator may draw them one by one.
        path: The file to write.
        schema: The columns and types of all tables.
        mode: The permissions of the file, which the umask lowers.
    """
    kind = file_format(path)
    if kind in ("npz", "npy"):
        raise ValueError("a table of mixed columns is written as .csv, .tsv, .parquet or .arrow.")
    check_names(schema.names)
    schema = _for_text(schema) if kind == "csv" else schema
    with (
        atomic_path(path, mode=mode) as temporary,
        _table_writer(temporary, kind, schema) as writer,
    ):
        for table in tables:
            writer.write_table(table.cast(schema))


def check_names(names: Sequence[str]) -> None:
    """Raise unless every column has a name of its own."""
    if isinstance(names, str):
        raise TypeError("columns must be a list of names, got one string.")
    if len(names) == 0:
        raise ValueError("there must be at least one column.")
    seen: set[str] = set()
    for place, name in enumerate(names):
        if not name:
            raise ValueError(f"column {place + 1} of {len(names)} has no name. Give it one.")
        if name in seen:
            raise ValueError(f"the column name {name!r} occurs twice. Rename one of them.")
        seen.add(name)


def _check_chunk(chunk: Chunk, dim: int) -> None:
    if chunk.ndim != 2:
        raise ValueError(f"chunks must have 2 dimensions, got {chunk.ndim}.")
    if chunk.shape[1] != dim:
        raise ValueError(f"chunks must have {dim} columns, got {chunk.shape[1]}.")


@contextlib.contextmanager
def _writer(
    path: Path, kind: str, names: tuple[str, ...], num_rows: int, *, named: bool
) -> Iterator[Write]:
    """A function that writes a chunk of rows to a new file."""
    shape = int(num_rows), len(names)
    if kind == "npy":
        with open(path, "wb") as file:
            yield _npy_body(file, shape)
        return
    if kind == "npz":
        with zipfile.ZipFile(path, "w") as archive:
            if named:
                with archive.open("columns.npy", "w") as member:
                    np.save(member, np.array(names))
            with archive.open("values.npy", "w", force_zip64=True) as member:
                yield _npy_body(member, shape)
        return

    schema = pa.schema([(name, pa.float64()) for name in names])
    with _table_writer(path, kind, schema) as writer:
        yield lambda chunk: writer.write_batch(
            pa.record_batch(list(np.ascontiguousarray(chunk.T, np.float64)), schema=schema)
        )


def _table_writer(path: Path, kind: str, schema: pa.Schema) -> Any:
    if kind == "csv":
        delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
        return csv_writer(path, schema, delimiter=delimiter)
    if kind == "parquet":
        # real numbers hardly repeat: a dictionary of them would be wasted work
        repeating: Any = [field.name for field in schema if not pa.types.is_floating(field.type)]
        return parquet.ParquetWriter(str(path), schema, use_dictionary=repeating)
    return ipc.new_file(str(path), schema, options=ipc.IpcWriteOptions(compression="lz4"))


def _for_text(schema: pa.Schema) -> pa.Schema:
    """The types in which a table is written as text: moments to the second."""
    return pa.schema(
        [
            field.with_type(pa.timestamp("s")) if pa.types.is_timestamp(field.type) else field
            for field in schema
        ]
    )


def _npy_body(file: Any, shape: tuple[int, int]) -> Write:
    """Write the header of a NumPy file; returns a function that writes its rows."""
    np.lib.format.write_array_header_1_0(
        file, {"shape": shape, "fortran_order": False, "descr": "<f8"}
    )
    return lambda chunk: file.write(np.ascontiguousarray(chunk, "<f8").tobytes())
