"""Rows of numbers from files, frames and arrays, and back into files.

Every cell is read by itself, as in tables (`cells.numbers`). Errors name the file, the column and the
kind of problem. They never quote a cell or tell its row: messages end up in logs and tickets, where a
record does not belong.
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
from veilflow.tabular.frames import (
    CHUNK,
    Blocks,
    as_frame,
    blocks_of,
    existing_format,
    open_table,
)
from veilflow.tabular.stream import check_names, write_chunks
from veilflow.tabular.text import encoding_of, open_csv
from veilflow.tabular.words import WrongType


@dataclass(frozen=True, repr=False)
class Rows:
    """Numbers, one row per record, and the names of the columns if they have any.

    All numbers are finite, unless `read_rows` kept others. The `repr` shows neither the rows nor how
    many there are.
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
        """These columns, in this order; rows without names must have exactly as many columns."""
        check_names(columns)
        if self.columns is None:
            return Rows(self.values, tuple(columns))
        check_present(columns, self.columns)
        places = [self.columns.index(name) for name in columns]
        return Rows(self.values[:, places], tuple(columns))


def read_rows(source: Any, *, columns: Sequence[str] | None = None, invalid: str = "error") -> Rows:
    """Read rows of numbers from a file, a frame or an array.

    The suffix of a file names its format: .csv and .tsv (UTF-8; separated by commas, semicolons,
    tabs or bars; a first line of numbers only is a row, not a header), .parquet, .arrow and
    .feather, .npz (one array, or one called "values" with optional "columns") and .npy. Frames may
    be pandas, polars or pyarrow. Truth values count as 0 and 1, and text of a number as that number.

    Args:
        source: A path, a frame, or a two-dimensional array of numbers.
        columns: Read only these columns, in this order; others may hold anything. A source without
            column names must have exactly as many columns, which get these names.
        invalid: What to do about cells that are not finite numbers: "error", or "keep" them as NaN
            or infinity, for a caller who replaces them by a public rule (`Domain.finite`). Text
            files are then read line by line, so that no line is an error: see `open_csv`.

    Returns:
        The rows in double precision. All numbers are finite, unless others are kept.

    Raises:
        ValueError: If a column is not numeric, or has missing or infinite cells, or the source is
            not a table at all. The message names the column, never a cell.
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
        return _read_file(Path(source), columns, invalid, encoding_of(source))
    if as_frame(source) is not None:
        return _from_table(open_table(source, chunk=CHUNK), columns, invalid)
    return _from_array(source, columns, invalid)


def write_rows(
    rows: Rows | Float[np.ndarray, "n d"],
    path: str | os.PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    mode: int = 0o666,
) -> None:
    """Write rows to a file, all or nothing, in the format that its suffix names (see `read_rows`).

    An existing file is replaced. Text is written a block of rows at a time, with as many digits as
    are needed to read the same numbers back.

    Args:
        rows: The rows, with or without column names.
        path: The file to write.
        columns: Names to use instead of those of `rows`. Where a format needs names and there are
            none, columns are named x1, x2, ...
        mode: The permissions of the file, which the umask lowers.
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


def _read_file(path: Path, columns: Sequence[str] | None, invalid: str, encoding: str) -> Rows:
    kind = existing_format(path)
    if kind in ("npz", "npy"):
        return _read_numpy(path, columns, invalid)
    if kind != "csv":
        return _from_table(open_table(path, chunk=CHUNK, columns=columns), columns, invalid)
    names, named, tables = open_csv(path, chunk=CHUNK, by_line=invalid == "keep", encoding=encoding)
    # a name from the first line may be a cell: it is quoted only if the caller has named it
    table = Blocks(tuple(names), blocks_of(tables))
    if named:
        return _from_table(table, columns, invalid, quote=columns is not None)
    rows = Rows(_from_table(table, None, invalid, quote=False).values)
    return rows if columns is None else rows.select(columns)


def _from_table(
    table: Blocks, columns: Sequence[str] | None, invalid: str, *, quote: bool = True
) -> Rows:
    """The numbers of a table; messages quote the names of columns, or else count them."""
    names = table.names
    wanted = names if columns is None else tuple(columns)
    check_present(wanted, names)
    places = [names.index(name) for name in wanted]
    parts = []
    for block in table.blocks:
        values = np.empty(0)
        for j, place in enumerate(places):
            label = repr(names[place]) if quote else f"{place + 1} of {len(names)}"
            try:
                cells = reading.numbers(block(place))
            except WrongType:
                raise ValueError(_not_numeric(label)) from None
            values = np.empty((len(cells.values), len(places))) if j == 0 else values
            values[:, j] = _checked(cells, label, invalid)
        parts.append(values)
    if len(parts) != 1:
        parts = [np.concatenate([np.empty((0, len(places))), *parts])]
    return Rows(parts[0], wanted)


def _read_numpy(path: Path, columns: Sequence[str] | None, invalid: str) -> Rows:
    with open(path, "rb") as file:
        try:
            loaded: Any = np.load(file, allow_pickle=False)
            is_array = isinstance(loaded, np.ndarray)
            members = {"": loaded} if is_array else {k: loaded[k] for k in loaded.files}
            names = members.pop("columns", None) if "values" in members else None
            # damaged text of NumPy raises when it becomes Python's
            names = None if names is None else tuple(str(name) for name in np.atleast_1d(names))
        except Exception:  # NumPy lets many kinds of error out of a damaged file
            raise ValueError(
                f"{path.name} is not a readable NumPy file of plain numbers: damaged, foreign, or "
                "holding Python objects."
            ) from None
    if len(members) != 1:
        raise ValueError(
            f"{path.name} holds {len(members)} arrays, but one is read. Keep one, or call it "
            "'values' and the column names 'columns'."
        )
    rows = _from_array(next(iter(members.values())), None, invalid)
    if names is not None:
        rows = Rows(rows.values, names)
    return rows if columns is None else rows.select(columns)


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
    """One column as doubles, which must be finite unless others are kept; errors name the column."""
    if invalid == "keep":
        return arrays.or_nan(cells)
    if cells.unreadable.any():
        raise ValueError(_not_numeric(column))
    if cells.missing.any():
        raise ValueError(
            f"column {column} has missing cells. Fill them by a public rule, or drop the column; they "
            "are not guessed from the data."
        )
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


def check_present(columns: Sequence[str], names: Sequence[str]) -> None:
    """Raise unless all wanted columns are among the names of a table.

    The message does not quote these names: without a header, the first line of a file is a record.
    """
    for name in columns:
        if name not in names:
            raise ValueError(
                f"there is no column {name!r} in the table. Does its first line name the columns, and "
                "is the name spelled as there?"
            )
