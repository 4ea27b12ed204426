"""Codes and positions back to tables: frames of any library, and files."""

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from veilflow.tabular.columns import (
    Boolean,
    Categorical,
    Column,
    Datetime,
    Numeric,
    Ordinal,
)
from veilflow.tabular.encoded import EncodedRows, Vocabularies
from veilflow.tabular.facts import OTHER
from veilflow.tabular.frames import as_frame, library_of, to_library
from veilflow.tabular.positions import from_positions
from veilflow.tabular.schema import Schema
from veilflow.tabular.stream import write_tables

if TYPE_CHECKING:
    import pyarrow as pa


def decode(
    encoded: EncodedRows,
    schema: Schema,
    *,
    like: Any = "pandas",
    vocabularies: Vocabularies | None = None,
) -> Any:
    """Make a table of encoded rows. Whatever the positions, values are within the declared ranges.

    Whole numbers come out as such, days as dates where the library has them, and columns that may
    have gaps in a type that may.

    Args:
        encoded: The rows.
        schema: What they were encoded by.
        like: A frame whose library and order of columns to take, or "pandas", "polars", "pyarrow".
        vocabularies: What open columns were encoded with; other values come out as `OTHER`.

    Returns:
        A frame of the library that `like` says.

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
) -> "pa.Table":
    """The table of encoded rows in pyarrow, columns in the order of the schema."""
    import pyarrow as pa

    if encoded.codes.shape[1] != len(schema.columns):
        raise ValueError(
            f"encoded rows must have the {len(schema.columns)} columns of the schema, got "
            f"{encoded.codes.shape[1]}."
        )
    arrays = []
    for place, (name, column) in enumerate(schema.columns.items()):
        vocabulary = (vocabularies or {}).get(name)
        codes = encoded.codes[:, place]
        num_codes = column.num_codes(vocabulary)
        if codes.size and not (codes.min() >= 0 and codes.max() < num_codes):
            raise ValueError(f"codes of column {name!r} must be at least 0 and below {num_codes}.")
        missing = codes == num_codes - 1 if column.nullable else np.zeros(len(codes), bool)
        arrays.append(_array(column, codes, encoded.positions[:, place], missing, vocabulary))
    return pa.table(arrays, schema=arrow_schema(schema))


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
        parts: Encoded rows; may be drawn one by one, and are not kept.
        path: The file to write.
        schema: What they were encoded by.
        vocabularies: What open columns were encoded with.
        mode: Who may read the file; the umask lowers it.
    """
    tables = (to_table(part, schema, vocabularies=vocabularies) for part in parts)
    write_tables(tables, path, schema=arrow_schema(schema), mode=mode)


def arrow_schema(schema: Schema) -> "pa.Schema":
    """The types in which a table of this schema is made."""
    import pyarrow as pa

    return pa.schema(
        [pa.field(name, _type(c), nullable=c.nullable) for name, c in schema.columns.items()]
    )


def _type(column: Column) -> Any:
    import pyarrow as pa

    if isinstance(column, Numeric):
        return pa.int64() if column.integer else pa.float64()
    if isinstance(column, Datetime):
        return pa.date32() if column.resolution == "day" else pa.timestamp("us")
    if isinstance(column, Boolean):
        return pa.bool_()
    if isinstance(column, Categorical | Ordinal) and isinstance(column.values[0], int):
        return pa.int64()
    return pa.string()


def _array(
    column: Column,
    codes: np.ndarray,
    positions: np.ndarray,
    missing: np.ndarray,
    vocabulary: Sequence[str] | None,
) -> "pa.Array":
    import pyarrow as pa

    kind = _type(column)
    if column.has_position:
        values = from_positions(column, np.where(missing, 0, positions))
        if isinstance(column, Datetime):
            return pa.array(values, mask=missing).cast(pa.timestamp("us")).cast(kind)
        return pa.array(values, kind, mask=missing)
    if isinstance(column, Categorical | Ordinal):
        words: Sequence[Any] = column.values
    else:
        words = (False, True) if isinstance(column, Boolean) else (*(vocabulary or ()), OTHER)
    return pa.array(words, kind).take(pa.array(codes, pa.int32(), mask=missing))
