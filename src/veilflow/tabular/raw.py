"""A table read once by a schema that leaves values or bounds open.

Columns that the schema declares in full are encoded as they are read. Of an open list the words are
kept, and of an open range the numbers, until a discovery has closed them: then `encoded` gives the
very rows that `encode` would. All of it is as private as the table.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Float64, Int32, Int64, Shaped

from veilflow._core import check
from veilflow.tabular.cells import Cells, say_nothing
from veilflow.tabular.columns import Column, Numeric, OpenCategorical
from veilflow.tabular.encoded import EncodedRows, Vocabularies, position_type
from veilflow.tabular.encoding import (
    CHUNK,
    encode_block,
    gaps_of,
    joined,
    lowest_position,
    places_in,
    read_cells,
    words_of,
)
from veilflow.tabular.facts import OTHER
from veilflow.tabular.frames import open_table
from veilflow.tabular.positions import below_one, to_positions
from veilflow.tabular.schema import Schema

_OTHER, _MISSING = -1, -2
"""Places of cells that hold `OTHER` itself, and of missing ones."""


class RawRows(NamedTuple):
    """The cells of a table; shows neither the rows nor how many there are.

    Attributes:
        codes: As in `EncodedRows`, of the columns that are declared in full.
        positions: Likewise; in double precision if bounds are open, since what precision they need is
            known with the bounds.
        numbers: Of each open range the number of every row, NaN for none.
        places: Of each open list the place of every row's word in `words`.
        words: Of each open list its distinct words, in the order in which they occur.
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
            return EncodedRows(self.codes, self.positions)
        shape, dtype = (len(self.codes), len(schema.columns)), position_type(schema)
        codes, positions = np.zeros(shape, np.int32), np.zeros(shape, dtype)
        closed = 0
        for j, (name, column) in enumerate(schema.columns.items()):
            if name in self.numbers:
                numbers = self.numbers[name]
                gaps = np.isnan(numbers)
                lowest = 0 if column.nullable else lowest_position(column)
                where = np.where(gaps, lowest, to_positions(column, numbers))
                codes[:, j], positions[:, j] = gaps & column.nullable, below_one(where, dtype)
            elif name in self.places:
                codes[:, j] = self._codes(name, column, vocabularies[name])
            else:
                codes[:, j] = self.codes[:, closed]
                positions[:, j] = below_one(self.positions[:, closed], dtype)
                closed += 1
        return EncodedRows(codes, positions)

    def _codes(self, name: str, column: Column, vocabulary: Any) -> Int64[np.ndarray, " rows"]:
        """Codes of an open list: whatever is not in the vocabulary has the one after it."""
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
        extra: As for `encode`.
        invalid: As for `encode`.

    Raises:
        ValueError: If columns or cells are not as declared; names the column, never a cell.
        TypeError: If the source is of a kind that is not read.
        OSError: If there is no such file, or it may not be read.
    """
    check.one_of(("error", "ignore"), extra=extra)
    check.one_of(("error", "replace"), invalid=invalid)
    ranges = [n for n in schema.open if isinstance(schema.columns[n], Numeric)]
    lists = [n for n in schema.open if isinstance(schema.columns[n], OpenCategorical)]
    closed = {n: column for n, column in schema.columns.items() if n not in schema.open}
    dtype = np.float64 if ranges else position_type(schema)
    names, blocks = open_table(source, chunk=CHUNK, by_line=invalid == "replace")
    at = dict(zip(schema.names, places_in(names, schema, extra), strict=True))
    known: dict[str, dict[str, int]] = {name: {} for name in lists}
    none = np.zeros((0, len(closed)))
    parts = [(EncodedRows(none.astype(np.int32), none.astype(dtype)), _no(ranges), _no(lists))]
    for block in blocks:
        numbers = {n: _numbers(n, schema.columns[n], block(at[n]), invalid) for n in ranges}
        places = {n: _places(n, schema.columns[n], block(at[n]), known[n], invalid) for n in lists}
        if closed:
            rows = encode_block([block(at[n]) for n in closed], closed, {}, invalid, dtype)
        else:
            num_rows = len(next(iter([*numbers.values(), *places.values()])))
            rows = EncodedRows(np.zeros((num_rows, 0), np.int32), np.zeros((num_rows, 0), dtype))
        parts.append((rows, numbers, places))
    encoded = joined([rows for rows, _, _ in parts])
    return RawRows(
        codes=encoded.codes,
        positions=encoded.positions,
        numbers={n: np.concatenate([numbers[n] for _, numbers, _ in parts]) for n in ranges},
        places={
            n: np.concatenate([places[n] for _, _, places in parts]).astype(np.int64) for n in lists
        },
        words={n: np.array([*known[n], None], object)[:-1] for n in lists},
    )


def _no(names: list[str]) -> dict[str, np.ndarray]:
    return {name: np.zeros(0) for name in names}


def _numbers(name: str, column: Column, array: Any, invalid: str) -> np.ndarray:
    cells = read_cells(name, column, array, ())
    return np.where(gaps_of(name, column, cells, invalid), np.nan, cells.values)


def _places(
    name: str, column: Column, array: Any, known: dict[str, int], invalid: str
) -> np.ndarray:
    """Places of the words of a block; words that are new are added to `known`."""
    words, places = words_of(name, array)
    found = [
        _MISSING if nothing else _OTHER if word == OTHER else known.setdefault(word, len(known))
        for word, nothing in zip(words.to_pylist(), say_nothing(words), strict=True)
    ]
    found = np.array([*found, _MISSING], np.int64)[places]
    silent = found == _MISSING
    gaps_of(name, column, Cells(found, silent, np.zeros_like(silent)), invalid)
    return found
