"""Tables to codes and positions by a declared schema, and back. No fact is read from the rows.

Every row is encoded by itself. Whether an *error* is raised does depend on the rows; where not even
that may be (a service that others watch), `invalid="replace"` makes encoding a map without errors, of
text files as well.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from veilflow._core import check
from veilflow.tabular import cells as reading
from veilflow.tabular.cells import Cells, WrongType
from veilflow.tabular.columns import (
    Boolean,
    Categorical,
    Column,
    Datetime,
    Numeric,
    OpenCategorical,
    Ordinal,
)
from veilflow.tabular.encoded import EncodedRows, Vocabularies, position_type
from veilflow.tabular.facts import OTHER
from veilflow.tabular.frames import open_table
from veilflow.tabular.positions import below_one, to_positions
from veilflow.tabular.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK = 65_536
"""Rows of a file that are in memory as text at a time."""


def encode(
    source: Any,
    schema: Schema,
    *,
    vocabularies: Vocabularies | None = None,
    extra: str = "error",
    invalid: str = "error",
) -> EncodedRows:
    """Encode a table: a pandas, polars or pyarrow frame, or a .csv, .tsv, .parquet or .arrow file.

    Numbers and moments out of range are moved to the nearer end of it. Cells of open columns that
    are not in the vocabulary become `OTHER`.

    Args:
        source: The table. Columns may come in any order.
        schema: The declared columns; no bounds may be unknown.
        vocabularies: For each open column the values that were discovered.
        extra: What to do about columns that are not in the schema: "error", or "ignore" them.
        invalid: What to do about cells that are missing where they must not be, in no closed list,
            or not readable: "error", or "replace" them by a missing cell where there may be one,
            else by the first value or the lower bound. Text files are then read line by line, so
            that no line is an error: see `open_csv`.

    Returns:
        The encoded rows, in their order.

    Raises:
        ValueError: If columns or cells are not as declared; names the column, never a cell.
        TypeError: If the source is of a kind that is not read.
        OSError: If there is no such file, or it may not be read.
    """
    parts = iter_encoded(
        source, schema, vocabularies=vocabularies, extra=extra, invalid=invalid, chunk=CHUNK
    )
    return joined([_no_rows(schema), *parts])


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

    Of a file about `chunk` rows are in memory at a time, however large it is. A frame is one block.
    """
    check.one_of(("error", "ignore"), extra=extra)
    check.one_of(("error", "replace"), invalid=invalid)
    check.count(chunk=chunk)
    _check_ready(schema, vocabularies or {})
    names, blocks = open_table(source, chunk=chunk, by_line=invalid == "replace")
    places = places_in(names, schema, extra)
    dtype = position_type(schema)
    for block in blocks:
        cells = [block(i) for i in places]
        yield encode_block(cells, schema.columns, vocabularies or {}, invalid, dtype)


def open_values(
    source: Any, schema: Schema, *, invalid: str = "error"
) -> dict[str, tuple[list[str], np.ndarray]]:
    """What the cells of the open columns say, read as `encode` reads them. Private, not released.

    For discovering which values many records share. Each open column gives its distinct values, and
    for each row the place of its value, or -1 for a row without one: missing, or `OTHER` itself.
    `invalid` is that of `encode`: what it says of lines of text holds here, too.
    """
    check.one_of(("error", "replace"), invalid=invalid)
    wanted = {n: c for n, c in schema.columns.items() if isinstance(c, OpenCategorical)}
    names, blocks = open_table(source, chunk=CHUNK, by_line=invalid == "replace")
    for name in wanted:
        _check_column(name, names)
    known: dict[str, dict[str, int]] = {name: {} for name in wanted}
    found: dict[str, list[np.ndarray]] = {name: [] for name in wanted}
    for block in blocks:
        for name in wanted:
            words, places = words_of(name, block(names.index(name)))
            silent = reading.say_nothing(words)
            votes = [
                -1 if word == OTHER or nothing else known[name].setdefault(word, len(known[name]))
                for word, nothing in zip(words.to_pylist(), silent, strict=True)
            ]
            found[name].append(np.array([*votes, -1], np.int64)[places])
    empty = np.zeros(0, np.int64)
    return {n: (list(known[n]), np.concatenate([empty, *found[n]])) for n in wanted}


def open_numbers(
    source: Any, schema: Schema, columns: Sequence[str], *, invalid: str = "error"
) -> dict[str, np.ndarray]:
    """The numbers in columns without bounds, NaN where there is none. Private, not released.

    For discovering their bounds, read as `encode` will read them with the same `invalid`.
    """
    check.one_of(("error", "replace"), invalid=invalid)
    names, blocks = open_table(source, chunk=CHUNK, by_line=invalid == "replace")
    for name in columns:
        _check_column(name, names)
    found: dict[str, list[np.ndarray]] = {name: [np.zeros(0)] for name in columns}
    for block in blocks:
        for name in columns:
            cells = read_cells(name, schema.columns[name], block(names.index(name)), ())
            silent = cells.missing | cells.unreadable
            found[name].append(np.where(silent, np.nan, cells.values))
    return {name: np.concatenate(parts) for name, parts in found.items()}


def words_of(name: str, array: "pa.Array") -> "tuple[pa.Array, np.ndarray]":
    """The distinct texts of a column, and the place of each cell's; see `cells.texts`."""
    try:
        return reading.texts(array)
    except WrongType as error:
        raise ValueError(_wrong_type(name, "text", error)) from None


def joined(parts: list[EncodedRows]) -> EncodedRows:
    """The rows of all parts; each part is let go once copied, so that rows are in memory once."""
    shape = sum(map(len, parts)), parts[0].codes.shape[1]
    codes, positions = np.empty(shape, np.int32), np.empty(shape, parts[0].positions.dtype)
    end = shape[0]
    while parts:
        part = parts.pop()
        start = end - len(part)
        codes[start:end], positions[start:end] = part.codes, part.positions
        end = start
    return EncodedRows(codes, positions)


def _no_rows(schema: Schema) -> EncodedRows:
    shape = 0, len(schema.columns)
    return EncodedRows(np.zeros(shape, np.int32), np.zeros(shape, position_type(schema)))


def encode_block(
    block: "list[pa.Array]",
    columns: Mapping[str, Column],
    vocabularies: Vocabularies,
    invalid: str,
    dtype: type[np.float32] | type[np.float64],
) -> EncodedRows:
    """Encode some rows.

    Args:
        block: Their cells, column by column.
        columns: What the columns are, in the same order.
        vocabularies: As for `encode`.
        invalid: As for `encode`.
        dtype: Of positions.
    """
    shape = len(block[0]), len(block)
    codes = np.zeros(shape, np.int32, order="F")
    positions = np.zeros(shape, dtype, order="F")
    for place, ((name, column), array) in enumerate(zip(columns.items(), block, strict=True)):
        found = read_cells(name, column, array, vocabularies.get(name, ()))
        gaps = gaps_of(name, column, found, invalid)
        instead = column.num_codes(vocabularies.get(name)) - 1 if column.nullable else 0
        if column.has_position:
            where = below_one(to_positions(column, found.values), dtype)
            lowest = 0 if column.nullable else below_one(lowest_position(column), dtype)
            positions[:, place] = np.where(gaps, lowest, where)
            codes[:, place] = np.where(gaps, instead, 0)
        else:
            codes[:, place] = np.where(gaps, instead, found.values)
    return EncodedRows(np.ascontiguousarray(codes), np.ascontiguousarray(positions))


def read_cells(name: str, column: Column, array: "pa.Array", vocabulary: Sequence[str]) -> Cells:
    """The cells of a column, read as what it is declared to be."""
    try:
        if isinstance(column, Numeric):
            return reading.numbers(array)
        if isinstance(column, Datetime):
            return reading.moments(array)
        if isinstance(column, Boolean):
            return reading.truths(array)
        if isinstance(column, Categorical | Ordinal):
            return reading.listed(array, column.values)
        found = reading.listed(array, (*vocabulary, OTHER))
    except WrongType as error:
        raise ValueError(_wrong_type(name, _NOUNS[column.kind], error)) from None
    # whatever is not in the vocabulary has a code of its own: the one after the vocabulary's
    values = np.where(found.unreadable, len(vocabulary), found.values)
    return Cells(values, found.missing, np.zeros_like(found.unreadable))


def gaps_of(name: str, column: Column, found: Cells, invalid: str) -> np.ndarray:
    """Where there is no value; raises where there must be one."""
    if invalid == "error":
        if found.unreadable.any():
            raise ValueError(f"column {name!r} {_UNREADABLE[column.kind]}")
        if not column.nullable and found.missing.any():
            raise ValueError(
                f"column {name!r} has missing cells, but is not declared nullable. Declare it so, "
                "or fill them by a public rule; they are not guessed from the data."
            )
    return found.missing | found.unreadable


def lowest_position(column: Column) -> np.ndarray:
    """Where a cell that is not readable is put, in a column that has no missing cells."""
    lowest = -np.inf if isinstance(column, Numeric) else np.iinfo(np.int64).min // 2
    return to_positions(column, np.array([lowest]))


def _check_ready(schema: Schema, vocabularies: Vocabularies) -> None:
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
            raise ValueError(f"there is a vocabulary for {name!r}, which is no open column.")
        if isinstance(values, str) or not all(isinstance(value, str) for value in values):
            raise TypeError(f"the vocabulary of {name!r} must be a list of texts.")
        if len(set(values)) < len(values) or OTHER in values:
            raise ValueError(
                f"the vocabulary of {name!r} must not hold {OTHER!r}, or a value twice."
            )


def places_in(names: tuple[str, ...], schema: Schema, extra: str) -> list[int]:
    """Where in the table the columns of the schema are."""
    if not set(names) & set(schema.names):
        # not quoted: without a header, the first line is a record
        raise ValueError(
            "the table has none of the columns of the schema. Does its first line name the columns, "
            "with commas, semicolons, tabs or bars between them?"
        )
    for name in schema.names:
        _check_column(name, names)
    strange = [name for name in names if name not in schema.columns]
    if strange and extra == "error":
        shown = ", ".join(map(repr, strange[:5])) + (", ..." if len(strange) > 5 else "")
        raise ValueError(
            f"the table has columns that are not in the schema: {shown}. Declare them, drop them, or "
            'pass extra="ignore" (--extra ignore).'
        )
    return [names.index(name) for name in schema.names]


def _check_column(name: str, names: tuple[str, ...]) -> None:
    if name not in names:
        raise ValueError(f"the table has no column {name!r}, which the schema declares.")


_NOUNS = {
    "numeric": "numbers",
    "datetime": "dates or times",
    "boolean": "truth values",
    "categorical": "listed values",
    "ordinal": "listed values",
    "open": "text",
}
_NOT_LISTED = (
    "has cells with none of its declared values. Add what is missing to the list if it is public, or "
    "declare an open column, whose values are discovered for a share of the budget."
)
_UNREADABLE = {
    "numeric": "has cells that are not numbers. Write them with a point and without separators of "
    "thousands or signs of money and percent, or declare another kind of column.",
    "datetime": "has cells that are not dates or times. Write them like 1990-01-31 or "
    "1990-01-31T12:00:00.",
    "boolean": "has cells that are neither true nor false. Write true and false, yes and no, or 1 "
    "and 0.",
    "categorical": _NOT_LISTED,
    "ordinal": _NOT_LISTED,
}


def _wrong_type(name: str, noun: str, error: WrongType) -> str:
    return (
        f"column {name!r} is declared to hold {noun}, but its type in the table is {error}. Change "
        "one of them."
    )
