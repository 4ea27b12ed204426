"""Rows of numbers from files, frames and arrays, and back into files.

Errors name the file, the column and the kind of problem. They never show a cell or say which row it
is in: a message ends up in logs and tickets, where a record does not belong.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from veilflow.tabular.frames import as_frame, readable
from veilflow.tabular.stream import check_names, file_format, write_chunks
from veilflow.tabular.text import read_csv

_CHUNK = 65_536
"""Rows turned into text, or into a part of a binary file, at a time."""
_HEADER = "does the first line name the columns?"


@dataclass(frozen=True, repr=False)
class Rows:
    """Finite numbers, one row per record, and the names of the columns where there are any.

    Shows neither the rows nor how many there are.
    """

    values: Float[np.ndarray, "n d"]
    columns: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.columns is not None and len(self.columns) != self.values.shape[1]:
            raise ValueError(
                f"columns must name all {self.values.shape[1]} columns, got {len(self.columns)}."
            )

    def __repr__(self) -> str:
        return f"Rows(columns={self.columns or self.values.shape[1]})"

    def select(self, columns: Sequence[str]) -> "Rows":
        """Only these columns, in this order; rows without names must have exactly as many."""
        check_names(columns)
        if self.columns is None:
            return Rows(self.values, tuple(columns))
        _check_present(columns, self.columns)
        places = [self.columns.index(name) for name in columns]
        return Rows(self.values[:, places], tuple(columns))


def read_rows(source: Any, *, columns: Sequence[str] | None = None) -> Rows:
    """Read rows of numbers from a file, a frame or an array.

    Files are told apart by their suffix: .csv and .tsv (UTF-8; separated by commas, semicolons,
    tabs or bars; a first line of numbers only is a row, not a header), .parquet, .arrow and
    .feather, .npz (one array, or one called "values" with optional "columns") and .npy. Frames may
    be pandas, polars or pyarrow. Truth values of frames and arrays count as 0 and 1.

    Args:
        source: A path, a frame, or a two-dimensional array of numbers.
        columns: Read only these columns, in this order; others may then hold anything. A source
            without column names must have exactly as many, and they are taken in this order.

    Returns:
        The rows in double precision; every number is finite.

    Raises:
        ValueError: If a column is not numeric, or has missing or infinite cells, or the source is
            not a table at all. Names the column, never a cell.
        TypeError: If the source is of a kind that is not read.
        OSError: If there is no such file, or it may not be read.
    """
    if isinstance(source, Rows):
        return source if columns is None else source.select(columns)
    if columns is not None:
        check_names(columns)
    if isinstance(source, str | os.PathLike):
        return _read_file(Path(source), columns)
    frame = as_frame(source)
    if frame is not None:
        return _from_frame(frame, columns)
    return _from_array(source, columns)


def write_rows(
    rows: Rows | Float[np.ndarray, "n d"],
    path: str | os.PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    mode: int = 0o666,
) -> None:
    """Write rows to a file, all or nothing, in the format its suffix names (see `read_rows`).

    An existing file is replaced. Text is written a block of rows at a time, with as many digits as
    it takes to read the same numbers back.

    Args:
        rows: The rows, with or without column names.
        path: The file to write.
        columns: Names to use instead of those of `rows`. Where a format needs names and there are
            none, columns are called x1, x2, ...
        mode: Who may read the file; the umask lowers it.
    """
    if not isinstance(rows, Rows):
        rows = Rows(_two_dimensional(rows))
    if columns is not None:
        rows = Rows(rows.values, tuple(columns))
    values = rows.values
    chunks = (values[start : start + _CHUNK] for start in range(0, len(values), _CHUNK))
    num_rows, dim = values.shape
    write_chunks(chunks, path, num_rows=num_rows, dim=dim, columns=rows.columns, mode=mode)


def _read_file(path: Path, columns: Sequence[str] | None) -> Rows:
    kind = file_format(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder. Give a file.")
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}.")
    if kind == "csv":
        table, named = read_csv(path)
        rows = _from_frame(as_frame(table), columns if named else None)
        if named:
            return rows
        rows = Rows(rows.values)
        return rows if columns is None else rows.select(columns)
    if kind in ("npz", "npy"):
        return _read_numpy(path, columns)
    return _from_frame(as_frame(_read_arrow(path, kind, columns)), columns)


def _read_arrow(path: Path, kind: str, columns: Sequence[str] | None) -> Any:
    import pyarrow as pa
    from pyarrow import ipc, parquet

    with readable(path, kind):
        if kind == "parquet":
            with parquet.ParquetFile(path) as file:
                present = [name for name in columns or () if name in file.schema_arrow.names]
                return file.read(columns=present or None)
        with pa.OSFile(str(path)) as file:
            try:
                table = ipc.open_file(file).read_all()
            except pa.ArrowInvalid:  # the other of Arrow's two layouts
                file.seek(0)
                table = ipc.open_stream(file).read_all()
            table.validate(full=True)  # a damaged file would else be read beyond its end
            return table


def _read_numpy(path: Path, columns: Sequence[str] | None) -> Rows:
    with open(path, "rb") as file:
        try:
            loaded: Any = np.load(file, allow_pickle=False)
            arrays = {} if isinstance(loaded, np.ndarray) else {k: loaded[k] for k in loaded.files}
            names = arrays.pop("columns", None) if "values" in arrays else None
            # damaged text of NumPy raises when it becomes Python's
            names = None if names is None else tuple(str(name) for name in np.atleast_1d(names))
        except Exception:  # NumPy lets many kinds of error out of a damaged file
            raise ValueError(
                f"{path.name} is not a readable NumPy file of plain numbers: damaged, foreign, or "
                "holding Python objects."
            ) from None
    if isinstance(loaded, np.ndarray):
        return _from_array(loaded, columns)
    if len(arrays) != 1:
        raise ValueError(
            f"{path.name} holds {len(arrays)} arrays, but one is read. Keep one, or call it "
            "'values' and the column names 'columns'."
        )
    rows = _from_array(next(iter(arrays.values())), None)
    if names is not None:
        rows = Rows(rows.values, names)
    return rows if columns is None else rows.select(columns)


def _from_frame(frame: Any, columns: Sequence[str] | None) -> Rows:
    names = tuple(str(name) for name in frame.columns)
    check_names(names)
    if columns is not None:
        _check_present(columns, names)
    wanted = names if columns is None else tuple(columns)
    values = np.empty((len(frame), len(wanted)))
    for place, name in enumerate(wanted):
        values[:, place] = _numbers(frame[:, names.index(name)], name)
    return Rows(values, wanted)


def _numbers(series: Any, name: str) -> np.ndarray:
    """One column as finite doubles, or an error that names it."""
    import narwhals as nw

    if not (series.dtype.is_numeric() or series.dtype == nw.Boolean):
        raise ValueError(
            f"column {name!r} is not numeric. Drop it, choose the columns to read, or turn it into "
            "numbers by a public rule."
        )
    if series.null_count() > 0:
        raise ValueError(_missing(repr(name)))
    numbers = np.asarray(series.to_numpy()).astype(np.float64)
    _check_finite(numbers, repr(name))
    return numbers


def _from_array(source: Any, columns: Sequence[str] | None) -> Rows:
    values = _two_dimensional(source)
    for place in range(values.shape[1]):
        _check_finite(values[:, place], f"{place + 1} of {values.shape[1]}")
    rows = Rows(values)
    return rows if columns is None else rows.select(columns)


def _two_dimensional(source: Any) -> np.ndarray:
    if not hasattr(source, "__array__") and not isinstance(source, list | tuple):
        raise TypeError(
            f"rows must be a path, a pandas, polars or pyarrow table, or an array, got "
            f"{type(source).__name__}."
        )
    try:
        array = np.asarray(source)
    except ValueError:
        raise ValueError("rows must all have the same number of columns.") from None
    if array.dtype.kind not in "biuf":
        raise TypeError(f"rows must be real numbers, got an array of type {array.dtype}.")
    if array.ndim != 2:
        hint = " For one feature use values.reshape(-1, 1)." if array.ndim == 1 else ""
        raise ValueError(f"rows must have 2 dimensions, got {array.ndim}.{hint}")
    if array.shape[1] == 0:
        raise ValueError("rows must have at least one column, got 0.")
    return array.astype(np.float64)


def _check_finite(numbers: np.ndarray, column: str) -> None:
    if np.isnan(numbers).any():
        raise ValueError(_missing(column))
    if np.isinf(numbers).any():
        raise ValueError(
            f"column {column} has cells that are infinite or too large. Replace them by a public "
            "rule, or drop the column."
        )


def _missing(column: str) -> str:
    return (
        f"column {column} has missing cells. Fill them by a public rule, or drop the column; they "
        "are not guessed from the data."
    )


def _check_present(columns: Sequence[str], names: Sequence[str]) -> None:
    for name in columns:
        if name not in names:
            known = ", ".join(map(repr, names))
            # not quoted if none is as asked for: without a header, the first line is a record
            hint = f"there are {known}." if set(columns) & set(names) else _HEADER
            raise ValueError(f"there is no column {name!r}; {hint}")
