"""Tables to codes and positions by a declared schema, and back. No fact is read from the rows.

Every row is encoded by itself. Whether an *error* is raised does depend on the rows; where not even
that is acceptable (a service that others watch), `invalid="replace"` makes encoding a map without
errors, of text files as well.
"""

import itertools
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from veilflow._core import check
from veilflow.tabular.cells import read_column
from veilflow.tabular.columns import Boolean, Column, Datetime, Listed, Numeric, OpenCategorical
from veilflow.tabular.derivation import (
    arrow_schema,
    cell_type,
    check_columns,
    full_table,
    open_core,
    read_values,
    to_cells,
)
from veilflow.tabular.encoded import (
    EncodedRows,
    Precision,
    Vocabularies,
    from_positions,
    lowest_position,
    position_type,
    to_positions,
)
from veilflow.tabular.facts import OTHER
from veilflow.tabular.frames import CHUNK, as_frame, library_of, open_table, to_library
from veilflow.tabular.gaps import with_gaps
from veilflow.tabular.schema import Schema
from veilflow.tabular.stream import write_tables
from veilflow.tabular.structure import sources


def encode(
    source: Any,
    schema: Schema,
    *,
    vocabularies: Vocabularies | None = None,
    extra: str = "error",
    invalid: str = "error",
) -> EncodedRows:
    """Encode a table: a pandas, polars or pyarrow frame, or a .csv, .tsv, .parquet or .arrow file.

    Numbers and moments out of range are moved to the nearer end of the range. Cells of open columns
    that are not in the vocabulary become `OTHER`.

    Args:
        source: The table. Columns may come in any order.
        schema: The declared columns; all bounds must be known.
        vocabularies: For each open column the values that were discovered.
        extra: What to do about columns that are not in the schema: "error", or "ignore" them.
        invalid: What to do about cells that are missing where they must not be, in no closed list,
            or unreadable: "error", or "replace" them by a missing cell in a nullable column, and by
            the first value or the lower bound in any other. Text files are then read line by line,
            so that no line is an error: see `open_csv`.

    Returns:
        The encoded rows, in their order.

    Raises:
        ValueError: If columns or cells are not as declared. The message names the column, never a
            cell.
        TypeError: If the source is of a kind that is not read.
        OSError: If there is no such file, or it may not be read.
    """
    blocks = iter_encoded(source, schema, vocabularies=vocabularies, extra=extra, invalid=invalid)
    first = no_rows(len(schema.core.columns), position_type(schema.core))
    return EncodedRows.concatenate(itertools.chain([first], blocks))


def iter_encoded(
    source: Any,
    schema: Schema,
    *,
    vocabularies: Vocabularies | None = None,
    extra: str = "error",
    invalid: str = "error",
    chunk: int = CHUNK,
) -> Iterator[EncodedRows]:
    """Encode a table as `encode` does, a block of rows at a time.

    About `chunk` rows of a file are in memory at a time, however large it is. A frame is one block.
    """
    check.one_of(("error", "ignore"), extra=extra)
    check.one_of(("error", "replace"), invalid=invalid)
    check.count(chunk=chunk)
    _check_ready(schema.core, vocabularies or {})
    core, words = schema.core, dict(vocabularies or {})
    names, blocks = open_core(source, schema, chunk=chunk, invalid=invalid, extra=extra)
    dtype = position_type(core)
    for block in blocks:
        own = [block(place) for place in range(len(names))]
        yield with_gaps(encode_block(own, core.columns, words, invalid, dtype), schema, words)


def encode_block(
    block: list[pa.Array],
    columns: Mapping[str, Column],
    vocabularies: Vocabularies,
    invalid: str,
    dtype: Precision,
) -> EncodedRows:
    """Encode some rows.

    Args:
        block: Their cells, column by column.
        columns: The declared columns, in the same order.
        vocabularies: See `encode`.
        invalid: See `encode`.
        dtype: The precision of positions.
    """
    shape = len(block[0]), len(block)
    codes = np.zeros(shape, np.int32, order="F")
    positions = np.zeros(shape, dtype, order="F")
    for place, ((name, column), array) in enumerate(zip(columns.items(), block, strict=True)):
        vocabulary = vocabularies.get(name)
        read = read_column(name, column, array, vocabulary=vocabulary or (), invalid=invalid)
        gaps = read.missing | read.unreadable
        replacement = column.num_codes(vocabulary) - 1 if column.nullable else 0
        if column.has_position:
            lowest = 0 if column.nullable else lowest_position(column)
            positions[:, place] = np.where(gaps, lowest, to_positions(column, read.values, dtype))
            codes[:, place] = np.where(gaps, replacement, 0)
        else:
            codes[:, place] = np.where(gaps, replacement, read.values)
    return EncodedRows(np.ascontiguousarray(codes), np.ascontiguousarray(positions))


def no_rows(num_columns: int, dtype: Precision) -> EncodedRows:
    """An encoded table without a row."""
    return EncodedRows(np.zeros((0, num_columns), np.int32), np.zeros((0, num_columns), dtype))


def decode(
    encoded: EncodedRows,
    schema: Schema,
    *,
    like: Any = "pandas",
    vocabularies: Vocabularies | None = None,
) -> Any:
    """Make a table of encoded rows. Whatever the positions, values lie within the declared ranges.

    Whole numbers come out as such, days as dates where the library has them, and nullable columns in
    a type that allows missing cells.

    Args:
        encoded: The rows.
        schema: The schema by which they were encoded.
        like: A frame whose library and order of columns to take, or "pandas", "polars", "pyarrow".
        vocabularies: Those with which open columns were encoded; other values come out as `OTHER`.

    Raises:
        ValueError: If codes are out of range, positions are NaN, or a vocabulary is missing.
    """
    table = to_table(encoded, schema, vocabularies=vocabularies)
    if isinstance(like, str):
        return to_library(table, like)
    frame = as_frame(like)
    if frame is None:
        raise TypeError(
            f"like must be a frame or the name of a library, got {type(like).__name__}."
        )
    order = [str(name) for name in frame.columns if str(name) in schema.columns]
    order += [name for name in schema.names if name not in order]
    return to_library(table.select(order), library_of(like))


def to_table(
    encoded: EncodedRows, schema: Schema, *, vocabularies: Vocabularies | None = None
) -> pa.Table:
    """The table of encoded rows in pyarrow, columns in the order of the schema."""
    core, words = schema.core, dict(vocabularies or {})
    if encoded.codes.shape[1] != len(core.columns):
        raise ValueError(
            f"encoded rows must have the {len(core.columns)} columns of the schema's core, got "
            f"{encoded.codes.shape[1]}."
        )
    return decoded(with_gaps(encoded, schema, words), schema, vocabularies=words)


def decoded(
    encoded: EncodedRows,
    schema: Schema,
    *,
    vocabularies: Vocabularies,
    names: Sequence[str] | None = None,
) -> pa.Table:
    """The table of rows that have all gaps that follow; of the columns `names` alone, if given."""
    needed = None if names is None else sources(names, schema.rules)
    table = core_table(encoded, schema, vocabularies=vocabularies, names=needed)
    return full_table(table, schema, names)


def core_table(
    encoded: EncodedRows,
    schema: Schema,
    *,
    vocabularies: Vocabularies,
    names: Collection[str] | None = None,
) -> pa.Table:
    """The table of encoded rows as the columns of the schema's core; of `names` alone, if given."""
    arrays = {}
    for place, (name, column) in enumerate(schema.core.columns.items()):
        if names is not None and name not in names:
            continue
        vocabulary = vocabularies.get(name)
        codes, kind = encoded.codes[:, place], cell_type(column)
        num_codes = column.num_codes(vocabulary)
        if codes.size and not (codes.min() >= 0 and codes.max() < num_codes):
            raise ValueError(f"codes of column {name!r} must be at least 0 and below {num_codes}.")
        missing = codes == num_codes - 1 if column.nullable else np.zeros(len(codes), bool)
        if column.has_position:
            values = from_positions(column, np.where(missing, 0, encoded.positions[:, place]))
            is_moment = isinstance(column, Datetime)
            values = pa.array(values, None if is_moment else kind, mask=missing)
            arrays[name] = values.cast(pa.timestamp("us")).cast(kind) if is_moment else values
        else:
            listed = pa.array(_values(column, vocabulary), kind)
            arrays[name] = listed.take(pa.array(codes, pa.int32(), mask=missing))
    return pa.table(arrays)


def clean_table(source: Any, schema: Schema) -> pa.Table:
    """The cells of a table as they are declared, each column by itself; numbers in full precision."""
    names, blocks = open_table(source, chunk=CHUNK)
    check_columns(schema.names, names)
    words = dict.fromkeys(schema.open, ())
    bare = {n: c for n, c in schema.columns.items() if not isinstance(c, Numeric)}
    tables = []
    for block in blocks:
        own = {name: block(names.index(name)) for name in schema.names}
        arrays = {
            name: to_cells(column, read_values(name, column, own[name], "error"))
            for name, column in schema.columns.items()
            if isinstance(column, Numeric)
        }
        if bare:
            rows = encode_block([own[name] for name in bare], bare, words, "error", np.float64)
            table = decoded(rows, Schema(bare), vocabularies=words)
            arrays |= {name: table.column(name) for name in bare}
        tables.append(pa.table({name: arrays[name] for name in schema.names}))
    return pa.concat_tables(tables)


def write_encoded(
    parts: Iterable[EncodedRows],
    path: str | os.PathLike[str],
    schema: Schema,
    *,
    vocabularies: Vocabularies | None = None,
    mode: int = 0o666,
) -> None:
    """Decode rows part by part into a .csv, .tsv, .parquet or .arrow file, all or nothing.

    Args:
        parts: Encoded rows; an iterator may draw them one by one, and none is kept.
        path: The file to write.
        schema: The schema by which they were encoded.
        vocabularies: Those with which open columns were encoded.
        mode: The permissions of the file, which the umask lowers.
    """
    tables = (to_table(part, schema, vocabularies=vocabularies) for part in parts)
    write_tables(tables, path, schema=arrow_schema(schema), mode=mode)


def _check_ready(schema: Schema, vocabularies: Vocabularies) -> None:
    """Raise unless the schema and the vocabularies together leave nothing open."""
    for name, column in schema.columns.items():
        if isinstance(column, Numeric) and column.low is None:
            raise ValueError(
                f"column {name!r} has no bounds. Declare them (Numeric(0, 120)), or discover them "
                "for a share of the budget. They are not read from the data."
            )
        if isinstance(column, OpenCategorical) and name not in vocabularies:
            raise ValueError(
                f"column {name!r} is open and has no vocabulary. Discover its values for a share of "
                "the budget, or declare a closed list."
            )
    for name, values in vocabularies.items():
        if not isinstance(schema.columns.get(name), OpenCategorical):
            raise ValueError(f"there is a vocabulary for {name!r}, which is not an open column.")
        if isinstance(values, str) or not all(isinstance(value, str) for value in values):
            raise TypeError(f"the vocabulary of {name!r} must be a list of texts.")
        if len(set(values)) < len(values) or OTHER in values:
            raise ValueError(
                f"the vocabulary of {name!r} must not hold {OTHER!r}, or a value twice."
            )


def _values(column: Column, vocabulary: Sequence[str] | None) -> Sequence[Any]:
    """The values of a column without positions, in the order of their codes."""
    if isinstance(column, Listed):
        return column.values
    return (False, True) if isinstance(column, Boolean) else (*(vocabulary or ()), OTHER)
