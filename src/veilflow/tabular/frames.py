"""Tables of any library or file as columns of pyarrow, a block of rows at a time; and back."""

import contextlib
import importlib.util
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import ipc, parquet

from veilflow.tabular.cells import texts
from veilflow.tabular.stream import check_names, file_format
from veilflow.tabular.text import encoding_of, open_csv
from veilflow.tabular.words import WrongType, number_word, object_cells

LIBRARIES = ("pandas", "polars", "pyarrow")
"""The libraries whose frames are read and made."""

CHUNK = 65_536
"""Rows of a file that are in memory as text at a time."""

_BUFFER = 2**20

Block = Callable[[int], pa.Array]
"""Some rows of a table: from the place of a column to its cells, which are converted when asked for."""


class Blocks(NamedTuple):
    """The names of a table's columns, and its rows in blocks."""

    names: tuple[str, ...]
    blocks: Iterator[Block]


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
    """The name of the library that made a frame; pandas for files."""
    frame = None if isinstance(source, str | os.PathLike) else as_frame(source)
    name = "pandas" if frame is None else frame.implementation.value
    return name if name in LIBRARIES else "pandas"


def open_table(
    source: Any, *, chunk: int, by_line: bool = False, columns: Sequence[str] | None = None
) -> Blocks:
    """Open a file or a frame for reading; a file is never in memory as a whole.

    Args:
        source: A path, or a pandas, polars or pyarrow table.
        chunk: Rows of a block of a file. A frame is one block.
        by_line: Whether to read every line of text by itself: see `open_csv`.
        columns: Of a Parquet file, read only these columns where it has them.

    Raises:
        ValueError: If the source is no table, or columns have no names or share one.
        TypeError: If the source is of a kind that is not read.
        OSError: If there is no such file, or it may not be read.
    """
    if isinstance(source, str | os.PathLike):
        table = _open_file(Path(source), chunk, by_line, columns, encoding_of(source))
    else:
        frame = as_frame(source)
        if frame is None:
            lazy = " Call its collect() first." if hasattr(source, "collect") else ""
            raise TypeError(
                "a table must be a path, or a pandas, polars or pyarrow table, got "
                f"{type(source).__name__}.{lazy}"
            )
        names = tuple(str(name) for name in frame.columns)
        table = Blocks(names, iter([lambda place: series_cells(frame[:, place])]))
    check_names(table.names)
    return table


def to_library(table: pa.Table, library: str) -> Any:
    """A table as a frame of one of `LIBRARIES`; nullable columns get a type that allows gaps."""
    if library not in LIBRARIES:
        raise ValueError(f"like must be a frame or one of {', '.join(LIBRARIES)}, got {library!r}.")
    if library == "pyarrow":
        return table
    if library == "polars":
        import narwhals as nw

        if importlib.util.find_spec("polars") is None:
            raise ImportError(
                "like='polars' needs polars, which is not installed: pip install polars. Or ask for "
                "'pandas' or 'pyarrow'."
            )
        return nw.from_arrow(table, backend="polars").to_native()
    import pandas as pd

    types = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
    columns = {}
    for field, cells in zip(table.schema, table.columns, strict=True):
        cells = cells.cast(pa.timestamp("us")) if pa.types.is_date(field.type) else cells
        columns[field.name] = cells.to_pandas(types_mapper=types.get if field.nullable else None)
    return pd.DataFrame(columns, index=pd.RangeIndex(len(table)))


def label_column(source: Any, name: str, *, invalid: str = "error") -> list[str]:
    """The label of each row of a table, as text; "" where there is none.

    Args:
        source: A file or frame, as for `encode`.
        name: The column of labels, which must be there.
        invalid: As for `encode`: with "replace", lines of text are read one by one.
    """
    table = open_table(source, chunk=CHUNK, by_line=invalid == "replace")
    place = table.names.index(name)
    labels: list[str] = []
    for block in table.blocks:
        try:
            words, places = texts(block(place))
        except WrongType as error:
            raise ValueError(f"column {name!r} has the type {error}, which no label has.") from None
        listed = [*words.to_pylist(), ""]  # the last for cells that are not there: place -1
        labels += [listed[i] for i in places.tolist()]
    return labels


def label_word(label: Any) -> str:
    """A label as a person would write it: 1, not 1.0."""
    return (number_word(label) or "") if isinstance(label, float) else str(label).strip()


def series_cells(series: Any) -> pa.Array:
    """A column of a frame as one array of pyarrow; cells of mixed types become text."""
    import pandas as pd

    native = series.to_native()
    if isinstance(native, pd.Series) and native.dtype == object:
        return object_cells(native)
    try:
        return one_array(series.to_arrow())
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return object_cells(native)


def one_array(cells: Any) -> pa.Array:
    """Cells as one array, in a type whose texts may exceed 2 GiB together."""
    if pa.types.is_string(cells.type) or pa.types.is_string_view(cells.type):
        cells = cells.cast(pa.large_string())
    if not isinstance(cells, pa.ChunkedArray):
        return cells
    if cells.num_chunks == 1:
        return cells.chunk(0)
    if pa.types.is_dictionary(cells.type):
        cells = cells.unify_dictionaries()
    return pa.concat_arrays(cells.chunks) if cells.num_chunks else pa.array([], cells.type)


def existing_format(path: Path) -> str:
    """The format of a file that must exist; see `file_format`."""
    kind = file_format(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder. Give a file.")
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}.")
    return kind


def blocks_of(tables: Iterable[pa.Table | pa.RecordBatch]) -> Iterator[Block]:
    """Tables of pyarrow as blocks of rows."""
    return (lambda place, table=table: one_array(table.column(place)) for table in tables)


def _open_file(
    path: Path, chunk: int, by_line: bool, columns: Sequence[str] | None, encoding: str
) -> Blocks:
    if file_format(path) in ("npz", "npy"):
        raise ValueError(f"{path.name} holds an array. Give a .csv, .tsv, .parquet or .arrow file.")
    kind = existing_format(path)
    if kind == "csv":
        names, named, tables = open_csv(path, chunk=chunk, by_line=by_line, encoding=encoding)
        if not named:
            raise ValueError(
                f"{path.name} has no header line. Add one that names every column as in the schema."
            )
    else:
        tables = _batches(path, kind, chunk, columns)
        names = next(tables).schema.names  # the first batch is empty, and there for the names alone
    return Blocks(tuple(names), blocks_of(tables))


def _batches(
    path: Path, kind: str, chunk: int, columns: Sequence[str] | None
) -> Iterator[pa.RecordBatch]:
    """An empty batch, and then the rows of a Parquet or Arrow file, at most `chunk` at a time."""
    with readable(path, kind):
        if kind == "parquet":
            # by default all row groups are fetched at once, ahead of the first batch
            with parquet.ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER) as file:
                schema = file.schema_arrow
                present = [name for name in columns or () if name in schema.names] or None
                if present:
                    schema = pa.schema([schema.field(name) for name in present])
                yield pa.RecordBatch.from_pylist([], schema=schema)
                for batch in file.iter_batches(batch_size=chunk, columns=present):
                    yield batch.select(schema.names) if present else batch
            return
        with pa.memory_map(str(path)) as file:
            for batch in _ipc_batches(file, ipc):
                batch.validate(full=True)  # or a damaged file would be read beyond its end
                for start in range(0, max(1, len(batch)), chunk):
                    yield batch.slice(start, chunk)


@contextlib.contextmanager
def readable(path: Path, kind: str) -> Iterator[None]:
    """Turn whatever goes wrong in reading a Parquet or Arrow file into one clear error."""
    try:
        yield
    except (pa.ArrowException, ValueError, OSError) as error:
        if isinstance(error, PermissionError):
            raise
        raise ValueError(
            f"{path.name} is not a readable {kind} file: damaged, or of another format."
        ) from None


def _ipc_batches(file: Any, ipc: Any) -> Iterator[pa.RecordBatch]:
    try:
        reader = ipc.open_file(file)
        batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
    except pa.ArrowInvalid:  # the other of Arrow's two layouts
        file.seek(0)
        reader = batches = ipc.open_stream(file)
    yield pa.RecordBatch.from_pylist([], schema=reader.schema)
    yield from batches
