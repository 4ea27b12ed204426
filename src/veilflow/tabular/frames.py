"""Tables of any library and file, a block of rows at a time, as columns of pyarrow; and back."""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from veilflow.tabular.objects import object_cells
from veilflow.tabular.stream import check_names, file_format
from veilflow.tabular.text import open_csv

if TYPE_CHECKING:
    import pyarrow as pa

LIBRARIES = ("pandas", "polars", "pyarrow")
"""Whose frames are read and made."""

_BUFFER = 2**20


class Blocks(NamedTuple):
    """The names of a table's columns, and for each block of rows what gives the cells of the i-th."""

    names: tuple[str, ...]
    blocks: "Iterator[Callable[[int], pa.Array]]"


def as_frame(source: Any) -> Any:
    """A narwhals frame over a pandas, polars or pyarrow table; None for anything else."""
    import narwhals as nw
    from narwhals.exceptions import DuplicateError

    try:
        frame = nw.from_native(source, eager_only=True, pass_through=True)
    except DuplicateError:
        raise ValueError("a column name occurs twice. Rename one of the columns.") from None
    return frame if isinstance(frame, nw.DataFrame) else None


def library_of(source: Any) -> str:
    """The library whose frames are of the source's kind; pandas for files."""
    frame = None if isinstance(source, str | os.PathLike) else as_frame(source)
    name = "pandas" if frame is None else frame.implementation.value
    return name if name in LIBRARIES else "pandas"


def open_table(source: Any, *, chunk: int, by_line: bool = False) -> Blocks:
    """Open a file or a frame for reading; a file is never in memory as a whole.

    Args:
        source: A path, or a pandas, polars or pyarrow table.
        chunk: Rows of a block of a file.
        by_line: Of text: see `open_csv`.

    Raises:
        ValueError: If the source is no table, or columns have no names or share one.
        TypeError: If the source is of a kind that is not read.
        OSError: If there is no such file, or it may not be read.
    """
    if isinstance(source, str | os.PathLike):
        found = _open_file(Path(source), chunk, by_line=by_line)
    else:
        frame = as_frame(source)
        if frame is None:
            lazy = " Call its collect() first." if hasattr(source, "collect") else ""
            raise TypeError(
                "a table must be a path, or a pandas, polars or pyarrow table, got "
                f"{type(source).__name__}.{lazy}"
            )
        names = tuple(str(name) for name in frame.columns)
        found = Blocks(names, iter([lambda place: series_cells(frame[:, place])]))
    check_names(found.names)
    return found


def to_library(table: "pa.Table", library: str) -> Any:
    """A table as a frame of one of `LIBRARIES`; columns that may have gaps get a type that may."""
    if library not in LIBRARIES:
        raise ValueError(f"like must be a frame or one of {', '.join(LIBRARIES)}, got {library!r}.")
    if library == "pyarrow":
        return table
    if library == "polars":
        import narwhals as nw

        return nw.from_arrow(table, backend="polars").to_native()
    import pandas as pd

    columns = {field.name: _series(table.column(i), field) for i, field in enumerate(table.schema)}
    return pd.DataFrame(columns, index=pd.RangeIndex(len(table)))


def _series(cells: "pa.ChunkedArray", field: "pa.Field") -> Any:
    """One column for pandas: of a nullable type if the field is, whether or not there are gaps."""
    import pandas as pd
    import pyarrow as pa

    if pa.types.is_date(field.type):
        return cells.cast(pa.timestamp("us")).to_pandas()
    if field.nullable and pa.types.is_int64(field.type):
        return pd.Series(cells.to_pandas(types_mapper=lambda _: pd.Int64Dtype()))
    if field.nullable and pa.types.is_boolean(field.type):
        return pd.Series(cells.to_pandas(types_mapper=lambda _: pd.BooleanDtype()))
    return cells.to_pandas()


def series_cells(series: Any) -> "pa.Array":
    """A column of a frame as one array of pyarrow; cells of many types as their text."""
    import pandas as pd
    import pyarrow as pa

    native = series.to_native()
    if isinstance(native, pd.Series) and native.dtype == object:
        return object_cells(native)
    try:
        return whole(series.to_arrow())
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return object_cells(native)


def whole(cells: Any) -> "pa.Array":
    """One array, whose texts may be longer than 2 GiB together."""
    import pyarrow as pa

    if pa.types.is_string(cells.type) or pa.types.is_string_view(cells.type):
        cells = cells.cast(pa.large_string())
    if not isinstance(cells, pa.ChunkedArray):
        return cells
    if cells.num_chunks == 1:
        return cells.chunk(0)
    if pa.types.is_dictionary(cells.type):
        cells = cells.unify_dictionaries()
    return pa.concat_arrays(cells.chunks) if cells.num_chunks else pa.array([], cells.type)


def _open_file(path: Path, chunk: int, *, by_line: bool) -> Blocks:
    kind = file_format(path)
    if kind in ("npz", "npy"):
        raise ValueError(f"{path.name} holds an array. Give a .csv, .tsv, .parquet or .arrow file.")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder. Give a file.")
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}.")
    if kind == "csv":
        names, named, tables = open_csv(path, chunk=chunk, by_line=by_line)
        if not named:
            raise ValueError(
                f"{path.name} has no header line. Add one that names every column as in the schema."
            )
        return Blocks(tuple(names), map(_columns_of, tables))
    batches = _batches(path, kind, chunk)
    # the first batch, which may be empty, is there for the names alone
    names = tuple(next(batches).schema.names)
    return Blocks(names, map(_columns_of, batches))


def _columns_of(batch: "pa.Table | pa.RecordBatch") -> "Callable[[int], pa.Array]":
    return lambda place: whole(batch.column(place))


def _batches(path: Path, kind: str, chunk: int) -> "Iterator[pa.RecordBatch]":
    """An empty batch, and then the rows of a Parquet or Arrow file, at most `chunk` at a time."""
    import pyarrow as pa
    from pyarrow import ipc, parquet

    with readable(path, kind):
        if kind == "parquet":
            # by default all row groups are fetched at once, ahead of the first batch
            with parquet.ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER) as file:
                yield pa.RecordBatch.from_pylist([], schema=file.schema_arrow)
                yield from file.iter_batches(batch_size=chunk)
            return
        with pa.memory_map(str(path)) as file:
            for batch in _ipc_batches(file, ipc):
                batch.validate(full=True)  # a damaged file would else be read beyond its end
                for start in range(0, max(1, len(batch)), chunk):
                    yield batch.slice(start, chunk)


@contextlib.contextmanager
def readable(path: Path, kind: str) -> "Iterator[None]":
    """Whatever goes wrong in reading a Parquet or Arrow file becomes one clear error."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, ValueError, OSError) as error:
        if isinstance(error, PermissionError):
            raise
        raise ValueError(
            f"{path.name} is not a readable {kind} file: damaged, or of another format."
        ) from None


def _ipc_batches(file: Any, ipc: Any) -> "Iterator[pa.RecordBatch]":
    import pyarrow as pa

    try:
        reader = ipc.open_file(file)
        batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
    except pa.ArrowInvalid:  # the other of Arrow's two layouts
        file.seek(0)
        reader = batches = ipc.open_stream(file)
    yield pa.RecordBatch.from_pylist([], schema=reader.schema)
    yield from batches
