"""A table as numbers: a code for every cell, and a position where its column has a range."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int32, Shaped

from veilflow.tabular.columns import Column, Datetime, Numeric
from veilflow.tabular.facts import EPOCH

if TYPE_CHECKING:
    from veilflow.tabular.schema import Schema

Vocabularies = Mapping[str, Sequence[str]]
"""For each open column, the values that were discovered, in the order of their codes."""

Precision = type[np.float32] | type[np.float64]

_SINGLE_CELLS = 2**22
"""The most cells of a grid whose centers single precision keeps apart."""
_MAX_DIGITS = 15
"""The decimal digits that double precision always has."""
_MICROSECONDS = np.timedelta64(1, "us")


@dataclass(frozen=True, repr=False)
class EncodedRows:
    """Codes and positions of a table's cells, columns in the order of the schema.

    Its `repr` shows neither the rows nor how many there are.

    Attributes:
        codes: Which value a cell has. In a column with positions, 0 for a value and 1 for a missing
            cell.
        positions: Where in [0, 1) a value lies within its declared range; 0 in other columns. In
            double precision if some grid of the schema is too fine for single precision.
    """

    codes: Int32[np.ndarray, "n d"]
    positions: Float[np.ndarray, "n d"]

    def __post_init__(self) -> None:
        if self.codes.ndim != 2 or self.codes.shape != self.positions.shape:
            raise ValueError("codes and positions must have two dimensions and the same shape.")

    def __len__(self) -> int:
        return len(self.codes)

    def __repr__(self) -> str:
        return f"EncodedRows(columns={self.codes.shape[1]})"

    def take(self, rows: np.ndarray | slice) -> "EncodedRows":
        """The rows that a mask, indices or a slice select."""
        return EncodedRows(self.codes[rows], self.positions[rows])

    def only(self, columns: Sequence[int]) -> "EncodedRows":
        """The rows with these columns alone."""
        return EncodedRows(self.codes[:, columns], self.positions[:, columns])

    def replaced(self, other: "EncodedRows", where: np.ndarray) -> "EncodedRows":
        """These rows with the cells of another table where a mask says so."""
        return EncodedRows(
            np.where(where, other.codes, self.codes),
            np.where(where, other.positions, self.positions),
        )

    @staticmethod
    def concatenate(parts: "Iterable[EncodedRows]") -> "EncodedRows":
        """The rows of all parts, of which there must be one, in order.

        Each part is let go once it is copied: rows that come from an iterator are in memory once.
        """
        waiting = list(parts)
        del parts
        shape = sum(map(len, waiting)), waiting[0].codes.shape[1]
        codes = np.empty(shape, waiting[0].codes.dtype)
        positions = np.empty(shape, waiting[0].positions.dtype)
        end = shape[0]
        while waiting:
            part = waiting.pop()
            rows = slice(end - len(part), end)
            codes[rows], positions[rows] = part.codes, part.positions
            end = rows.start
        return EncodedRows(codes, positions)


def position_type(schema: "Schema") -> Precision:
    """The precision that the positions of a schema need."""
    cells = (column.num_cells or 0 for column in schema.columns.values())
    return np.float64 if max(cells, default=0) > _SINGLE_CELLS else np.float32


def to_positions(
    column: Column, values: Shaped[np.ndarray, " n"], dtype: Precision = np.float64
) -> Float[np.ndarray, " n"]:
    """The positions of numbers, or of microseconds since 1970, clipped to the declared range.

    On a grid of N values, the k-th value, counted from 0, lies at (k + 1/2) / N.
    """
    num_cells = column.num_cells
    if isinstance(column, Datetime):
        start, step = _microseconds(column)
        places = (values.astype(np.int64) - start) // step
    else:
        low, high = _bounds(column)
        values = np.clip(np.nan_to_num(values, nan=low, posinf=high, neginf=low), low, high)
        width = high - low if num_cells is None else _step(column)
        places = (values - low) / width
    if num_cells is not None:
        places = (np.clip(np.floor(places + 0.5), 0, num_cells - 1) + 0.5) / num_cells
    return np.minimum(places, below_one(dtype)).astype(dtype)


def lowest_position(column: Column) -> float:
    """The position of the lower end of a column's range."""
    return 0.5 / column.num_cells if column.num_cells else 0.0


def below_one(dtype: Precision) -> float:
    """The largest number below 1 in some precision."""
    return float(np.nextafter(dtype(1), dtype(0)))


def from_positions(column: Column, positions: Float[np.ndarray, " n"]) -> Shaped[np.ndarray, " n"]:
    """The value at each position: whole numbers, reals, or microseconds since 1970.

    Values lie within the declared range, whatever the positions.
    """
    positions = positions.astype(np.float64)
    if np.isnan(positions).any():
        raise ValueError("positions must be numbers, got NaN.")
    if column.num_cells is None:
        low, high = _bounds(column)
        values = np.clip(low + np.clip(positions, 0, 1) * (high - low), low, high)
        # rounding may have missed the ends of the range, and zero
        near = min(4 * np.spacing(max(abs(low), abs(high))), 1e-9 * (high - low))
        for exact in (low, high, *([0.0] if low < 0 < high else [])):
            values = np.where(np.abs(values - exact) <= near, exact, values)
        return values
    # clipped first: infinity has no integer
    last = column.num_cells - 1
    cells = np.floor(np.clip(positions * column.num_cells, 0, last)).astype(np.int64)
    if isinstance(column, Datetime):
        start, step = _microseconds(column)
        return start + cells * step
    assert isinstance(column, Numeric)
    low, high = _bounds(column)
    if column.integer:
        return int(low) + cells * int(_step(column))
    values = low + cells * _step(column)
    if column.digits <= _MAX_DIGITS:
        values = np.round(values, column.digits)
    return np.clip(values, low, high)


def _bounds(column: Column) -> tuple[float, float]:
    assert isinstance(column, Numeric)
    if column.low is None or column.high is None:
        raise ValueError("the column has no bounds.")
    return column.low, column.high


def _step(column: Column) -> float:
    assert isinstance(column, Numeric)
    assert column.step is not None
    return column.step


def _microseconds(column: Datetime) -> tuple[int, int]:
    """Start and step in microseconds, the start since 1970."""
    start = np.datetime64(column.start, "us") - np.datetime64(EPOCH, "us")
    return int(start // _MICROSECONDS), int(column.step.total_seconds()) * 1_000_000
