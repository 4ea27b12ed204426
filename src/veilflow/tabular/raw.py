"""A table read once, by a schema that leaves values or bounds open.

Columns that the schema declares in full are encoded as they are read. Of an open list the words are
kept, and of an open range the numbers, until a discovery has closed them: then `encoded` gives the
very rows that `encode` would. All of it is as private as the table.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Float64, Int32, Int64, Shaped

from veilflow._core import check
from veilflow.tabular.cells import check_missing, read_column, say_nothing, texts, wrong_type
from veilflow.tabular.codec import encode_block, no_rows
from veilflow.tabular.columns import Column, Numeric, OpenCategorical
from veilflow.tabular.derivation import check_columns, open_core
from veilflow.tabular.encoded import (
    EncodedRows,
    Vocabularies,
    below_one,
    lowest_position,
    position_type,
    to_positions,
)
from veilflow.tabular.facts import OTHER
from veilflow.tabular.frames import CHUNK, open_table
from veilflow.tabular.gaps import with_gaps
from veilflow.tabular.schema import Schema
from veilflow.tabular.words import WrongType

_OTHER, _MISSING = -1, -2
"""Places of cells that hold `OTHER` itself, and of missing cells."""


class RawRows(NamedTuple):
    """The cells of a table. Its `repr` shows neither the rows nor how many there are.

    Attributes:
        codes: The codes of the columns that are declared in full; see `EncodedRows`.
        positions: Their positions; in double precision if bounds are open, since the precision that a
            schema needs is known with its bounds.
        numbers: For each open range the number of every row, NaN for none.
        places: For each open list the place of every row's word in `words`.
        words: For each open list its distinct words, in the order in which they occur.
    """

    codes: Int32[np.ndarray, "rows closed"]
    positions: Float[np.ndarray, "rows closed"]
    numbers: dict[str, Float64[np.ndarray, " rows"]]
    places: dict[str, Int64[np.ndarray, " rows"]]
    words: dict[str, Shaped[np.ndarray, " words"]]

    def said(self, name: str) -> Shaped[np.ndarray, " rows"]:
        """The word of each row in an open list; None for a row without one, or with `OTHER`."""
        words = np.array([*self.words[name], None], object)
        return words[np.maximum(self.places[name], -1)]

    def encoded(self, schema: Schema, vocabularies: Vocabularies) -> EncodedRows:
        """The rows by the schema with what was discovered, each encoded by itself."""
        if not self.numbers and not self.places:
            return with_gaps(EncodedRows(self.codes, self.positions), schema, vocabularies)
        core = schema.core
        shape, dtype = (len(self.codes), len(core.columns)), position_type(core)
        codes, positions = np.zeros(shape, np.int32), np.zeros(shape, dtype)
        closed = 0
        for j, (name, column) in enumerate(core.columns.items()):
            if name in self.numbers:
                numbers = self.numbers[name]
                gaps = np.isnan(numbers)
                lowest = 0 if column.nullable else lowest_position(column)
                codes[:, j] = gaps & column.nullable
                positions[:, j] = np.where(gaps, lowest, to_positions(column, numbers, dtype))
            elif name in self.places:
                codes[:, j] = self._codes(name, column, vocabularies[name])
            else:
                codes[:, j] = self.codes[:, closed]
                positions[:, j] = np.minimum(self.positions[:, closed], below_one(dtype))
                closed += 1
        return with_gaps(EncodedRows(codes, positions), schema, vocabularies)

    def _codes(self, name: str, column: Column, vocabulary: Any) -> Int64[np.ndarray, " rows"]:
        """Codes of an open list: whatever is not in the vocabulary has the code after it."""
        known = {word: code for code, word in enumerate(vocabulary)}
        other, missing = len(known), len(known) + 1 if column.nullable else 0
        codes = [known.get(word, other) for word in self.words[name]]
        return np.array([*codes, missing, other], np.int64)[self.places[name]]

    def __repr__(self) -> str:
        return f"RawRows(columns={self.codes.shape[1] + len(self.numbers) + len(self.places)})"


def read_raw(
    source: Any, schema: Schema, *, extra: str = "error", invalid: str = "error"
) -> RawRows:
    """Read a table once: a pandas, polars or pyarrow frame, or a .csv, .tsv, .parquet or .arrow file.

    Args:
        source: The table. Columns may come in any order.
        schema: The declared columns.
        extra: See `encode`.
        invalid: See `encode`.

    Raises:
        ValueError: If columns or cells are not as declared. The message names the column, never a
            cell.
        TypeError: If the source is of a kind that is not read.
        OSError: If there is no such file, or it may not be read.
    """
    check.one_of(("error", "ignore"), extra=extra)
    check.one_of(("error", "replace"), invalid=invalid)
    core = schema.core
    opened = {name: core.columns[name] for name in core.open}
    closed = {name: column for name, column in core.columns.items() if name not in opened}
    numbers = {n: [np.zeros(0)] for n, column in opened.items() if isinstance(column, Numeric)}
    places = {name: [np.zeros(0, np.int64)] for name in opened if name not in numbers}
    known: dict[str, dict[str, int]] = {name: {} for name in places}
    dtype = np.float64 if numbers else position_type(core)
    names, blocks = open_core(source, schema, chunk=CHUNK, invalid=invalid, extra=extra)
    at = {name: place for place, name in enumerate(names)}
    rows = [no_rows(len(closed), dtype)]
    for block in blocks:
        for name, parts in numbers.items():
            parts.append(_numbers(name, opened[name], block(at[name]), invalid))
        for name, parts in places.items():
            parts.append(_places(name, opened[name], block(at[name]), known[name], invalid))
        if closed:
            rows.append(encode_block([block(at[n]) for n in closed], closed, {}, invalid, dtype))
        else:
            shape = len(next(iter({**numbers, **places}.values()))[-1]), 0
            rows.append(EncodedRows(np.zeros(shape, np.int32), np.zeros(shape, dtype)))
    # drained, so that rows are in memory once
    encoded = EncodedRows.concatenate(rows.pop(0) for _ in range(len(rows)))
    return RawRows(
        codes=encoded.codes,
        positions=encoded.positions,
        numbers={name: np.concatenate(parts) for name, parts in numbers.items()},
        places={name: np.concatenate(parts) for name, parts in places.items()},
        words={name: np.array([*words, None], object)[:-1] for name, words in known.items()},
    )


def open_values(
    source: Any, schema: Schema, *, invalid: str = "error"
) -> dict[str, tuple[list[str], Int64[np.ndarray, " rows"]]]:
    """The words in the open lists of a table, read as `encode` reads them. Private, not released.

    Each open list gives its distinct words, and for each row the place of its word, or -1 for a row
    without one: missing, or `OTHER` itself. `invalid="replace"` reads lines of text one by one.
    """
    check.one_of(("error", "replace"), invalid=invalid)
    lists = {n: c for n, c in schema.columns.items() if isinstance(c, OpenCategorical)}
    names, blocks = open_table(source, chunk=CHUNK, by_line=invalid == "replace")
    check_columns(lists, names)
    known: dict[str, dict[str, int]] = {name: {} for name in lists}
    places = {name: [np.zeros(0, np.int64)] for name in lists}
    for block in blocks:
        for name, column in lists.items():
            array = block(names.index(name))
            places[name].append(_places(name, column, array, known[name], "replace"))
    return {n: (list(known[n]), np.concatenate(places[n]).clip(min=-1)) for n in lists}


def open_numbers(
    source: Any, schema: Schema, columns: Sequence[str], *, invalid: str = "error"
) -> dict[str, Float64[np.ndarray, " rows"]]:
    """The numbers in some columns, NaN where there is none. Private, not released.

    They are not clipped to any bounds. `invalid="replace"` reads lines of text one by one.
    """
    check.one_of(("error", "replace"), invalid=invalid)
    names, blocks = open_table(source, chunk=CHUNK, by_line=invalid == "replace")
    check_columns(columns, names)
    numbers = {name: [np.zeros(0)] for name in columns}
    for block in blocks:
        for name, parts in numbers.items():
            array = block(names.index(name))
            parts.append(_numbers(name, schema.columns[name], array, "replace"))
    return {name: np.concatenate(parts) for name, parts in numbers.items()}


def core_numbers(
    source: Any, schema: Schema, columns: Sequence[str]
) -> dict[str, Float64[np.ndarray, " rows"]]:
    """The numbers in some columns of the schema's core, as `open_numbers` gives those of a table."""
    names, blocks = open_core(source, schema, chunk=CHUNK)
    numbers = {name: [np.zeros(0)] for name in columns}
    for block in blocks:
        for name, parts in numbers.items():
            column = schema.core.columns[name]
            parts.append(_numbers(name, column, block(names.index(name)), "replace"))
    return {name: np.concatenate(parts) for name, parts in numbers.items()}


def _numbers(name: str, column: Column, array: Any, invalid: str) -> np.ndarray:
    cells = read_column(name, column, array, invalid=invalid)
    return np.where(cells.missing | cells.unreadable, np.nan, cells.values)


def _places(
    name: str, column: Column, array: Any, known: dict[str, int], invalid: str
) -> np.ndarray:
    """Places of the words of a block; new words are added to `known`."""
    try:
        words, places = texts(array)
    except WrongType as error:
        raise wrong_type(name, column, error) from None
    votes = [
        _MISSING if nothing else _OTHER if word == OTHER else known.setdefault(word, len(known))
        for word, nothing in zip(words.to_pylist(), say_nothing(words), strict=True)
    ]
    places = np.array([*votes, _MISSING], np.int64)[places]
    if invalid == "error":
        check_missing(name, column, bool((places == _MISSING).any()))
    return places
