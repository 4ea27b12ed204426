"""Rows of numbers from files, frames and arrays, and back into files.

Every cell is read by itself, as in tables (`cells.numbers`). Errors name the file, the column and the
kind of problem. They never show a cell or say which row it is in: a message ends up in logs and
tickets, where a record does not belong.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from veilflow._core import check
from veilflow.tabular import arrays
from veilflow.tabular import cells as reading
from veilflow.tabular.cells import Cells
from veilflow.tabular.frames import CHUNK, as_frame, readable, series_cells, whole
from veilflow.tabular.stream import check_names, file_format, write_chunks
from veilflow.tabular.text import open_csv
from veilflow.tabular.words import WrongType


@dataclass(frozen=True, repr=False)
class Rows:
    """Numbers, one row per record, and the names of the columns where there are any.

    They are finite, unless `read_rows` was told to keep others. Shows neither the rows nor how many
    there are.
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
        check_present(columns, self.columns)
        places = [self.columns.index(name) for name in columns]
        return Rows(self.values[:, places], tuple(columns))


def read_rows(source: Any, *, columns: Sequence[str] | None = None, invalid: str = "error") -> Rows:
    """Read rows of numbers from a file, a frame or an array.

    Files are told apart by their suffix: .csv and .tsv (UTF-8; separated by commas, semicolons,
    tabs or bars; a first line of numbers only is a row, not a header), .parquet, .arrow and
    .feather, .npz (one array, or one called "values" with optional "columns") and .npy. Frames may
    be pandas, polars or pyarrow. Truth values count as 0 and 1, text as the number that it writes.

    Args:
        source: A path, a frame, or a two-dimensional array of numbers.
        columns: Read only these columns, in this order; others may then hold anything. A source
            without column names must have exactly as many, and they are taken in this order.
        invalid: What to do about cells that are no finite number: "error", or "keep" them as NaN or
            infinity, for a caller who replaces them by a public rule (`Domain.finite`). Text files
            are then read line by line, so that no line is an error: see `open_csv`.

    Returns:
        The rows in double precision; every number is finite, unless others are kept.

    Raises:
        ValueError: If a column is not numeric, or has missing or infinite cells, or the source is
            not a table at all. Names the column, never a cell.
        TypeError: If the source is of a kind that is not read.
        OSError: If there is no such file, or it may not be read.
    """
    check.one_of(("error", "keep"), invalid=invalid)
    if isinstance(source, Rows):
        rows = source if columns is None else source.select(columns)
        return rows if invalid == "keep" else _from_array(rows.values, rows.columns, invalid)
    if columns is not None:
        check_names(columns)
    if isinstance(source, str | os.PathLike):
        return _read_file(Path(source), columns, invalid)
    frame = as_frame(source)
    if frame is not None:
        return _from_frame(frame, columns, invalid)
    return _from_array(source, columns, invalid)


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
        cells = _two_dimensional(rows)
        if cells.unreadable.any():
            raise TypeError("rows must be real numbers.")
        rows = Rows(cells.values)
    if columns is not None:
        rows = Rows(rows.values, tuple(columns))
    values = rows.values
    chunks = (values[start : start + CHUNK] for start in range(0, len(values), CHUNK))
    num_rows, dim = values.shape
    write_chunks(chunks, path, num_rows=num_rows, dim=dim, columns=rows.columns, mode=mode)


def _read_file(path: Path, columns: Sequence[str] | None, invalid: str) -> Rows:
    kind = file_format(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder. Give a file.")
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}.")
    if kind == "csv":
        return _read_csv(path, columns, invalid)
    if kind in ("npz", "npy"):
        return _read_numpy(path, columns, invalid)
    return _from_frame(as_frame(_read_arrow(path, kind, columns)), columns, invalid)


def _read_csv(path: Path, columns: Sequence[str] | None, invalid: str) -> Rows:
    names, named, tables = open_csv(path, chunk=CHUNK, by_line=invalid == "keep")
    wanted = tuple(names) if columns is None or not named else tuple(columns)
    check_present(wanted, names)
    places = [names.index(name) for name in wanted]
    # a name from the first line may be a cell: it is said only where the caller said it first
    asked = columns is not None and named
    labels = [repr(names[i]) if asked else f"{i + 1} of {len(names)}" for i in places]
    parts = [np.empty((0, len(wanted)))]
    for table in tables:
        block = np.empty((len(table), len(wanted)))
        for j, place in enumerate(places):
            cells = reading.numbers(whole(table.column(place)))
            block[:, j] = _checked(cells, labels[j], invalid)
        parts.append(block)
    values = np.concatenate(parts)
    if named:
        return Rows(values, wanted)
    return Rows(values) if columns is None else Rows(values).select(columns)


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


def _read_numpy(path: Path, columns: Sequence[str] | None, invalid: str) -> Rows:
    with open(path, "rb") as file:
        try:
            loaded: Any = np.load(file, allow_pickle=False)
            found = {} if isinstance(loaded, np.ndarray) else {k: loaded[k] for k in loaded.files}
            names = found.pop("columns", None) if "values" in found else None
            # damaged text of NumPy raises when it becomes Python's
            names = None if names is None else tuple(str(name) for name in np.atleast_1d(names))
        except Exception:  # NumPy lets many kinds of error out of a damaged file
            raise ValueError(
                f"{path.name} is not a readable NumPy file of plain numbers: damaged, foreign, or "
                "holding Python objects."
            ) from None
    if isinstance(loaded, np.ndarray):
        return _from_array(loaded, columns, invalid)
    if len(found) != 1:
        raise ValueError(
            f"{path.name} holds {len(found)} arrays, but one is read. Keep one, or call it "
            "'values' and the column names 'columns'."
        )
    rows = _from_array(next(iter(found.values())), None, invalid)
    if names is not None:
        rows = Rows(rows.values, names)
    return rows if columns is None else rows.select(columns)


def _from_frame(frame: Any, columns: Sequence[str] | None, invalid: str) -> Rows:
    names = tuple(str(name) for name in frame.columns)
    check_names(names)
    wanted = names if columns is None else tuple(columns)
    check_present(wanted, names)
    values = np.empty((len(frame), len(wanted)))
    for place, name in enumerate(wanted):
        try:
            cells = reading.numbers(series_cells(frame[:, names.index(name)]))
        except WrongType:
            raise ValueError(_not_numeric(repr(name))) from None
        values[:, place] = _checked(cells, repr(name), invalid)
    return Rows(values, wanted)


def _from_array(source: Any, columns: Sequence[str] | None, invalid: str) -> Rows:
    cells = _two_dimensional(source)
    dim = cells.values.shape[1]
    values = np.empty(cells.values.shape)
    for j in range(dim):
        column = Cells(*(part[:, j] for part in cells))
        values[:, j] = _checked(column, f"{j + 1} of {dim}", invalid)
    rows = Rows(values)
    return rows if columns is None else rows.select(columns)


def _two_dimensional(source: Any) -> Cells:
    if not hasattr(source, "__array__") and not isinstance(source, list | tuple):
        raise TypeError(
            f"rows must be a path, a pandas, polars or pyarrow table, or an array, got "
            f"{type(source).__name__}."
        )
    array = arrays.as_array(source)
    if array.ndim == 1 and array.dtype == object and isinstance(source, list | tuple):
        raise ValueError("rows must all have the same number of columns.")
    if array.ndim != 2:
        hint = " For one feature use values.reshape(-1, 1)." if array.ndim == 1 else ""
        raise ValueError(f"rows must have 2 dimensions, got {array.ndim}.{hint}")
    if array.shape[1] == 0:
        raise ValueError("rows must have at least one column, got 0.")
    return arrays.numbers(array)


def _checked(cells: Cells, column: str, invalid: str) -> np.ndarray:
    """One column as finite doubles, or an error that names it; or as any doubles, if they are kept."""
    if invalid == "keep":
        return arrays.or_nan(cells)
    if cells.unreadable.any():
        raise ValueError(_not_numeric(column))
    if cells.missing.any():
        raise ValueError(_missing(column))
    if np.isinf(cells.values).any():
        raise ValueError(
            f"column {column} has cells that are infinite or too large. Replace them by a public "
            "rule, or drop the column."
        )
    return cells.values


def _not_numeric(column: str) -> str:
    return (
        f"column {column} is not numeric. Drop it, choose the columns to read, or turn it into "
        "numbers by a public rule."
    )


def _missing(column: str) -> str:
    return (
        f"column {column} has missing cells. Fill them by a public rule, or drop the column; they "
        "are not guessed from the data."
    )


def check_present(columns: Sequence[str], names: Sequence[str]) -> None:
    """Raise unless a table with columns of these names has all that are asked for.

    Those it has are not shown: without a header, the first line of a file is a record.
    """
    for name in columns:
        if name not in names:
            raise ValueError(
                f"there is no column {name!r} in the table. Does its first line name the columns, and "
                "is the name spelled as there?"
            )
