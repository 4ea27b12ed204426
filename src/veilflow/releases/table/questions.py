"""Questions about two columns of a table, each answered by every row for itself.

A question divides the rows into a few groups. `GapsOf` says which of two cells are missing,
`RelationOf` which relations hold between two numbers. What can be asked is a public library of
expressions.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from veilflow.tabular.columns import Column, Datetime
from veilflow.tabular.encoded import EncodedRows, from_positions
from veilflow.tabular.evaluation import evaluate
from veilflow.tabular.expressions import parse
from veilflow.tabular.number_columns import Clock, ListedNumeric, from_places

_TENS = tuple(10**k for k in range(1, 7))
_UNITS = (7, 12, 24, 60, 3600)
"""Days, months, hours, minutes and seconds of something larger."""
SAME = "x"
"""The expression of a column that equals the other."""
OF_NUMBERS = (
    SAME,
    *(f"x {sign} {size}" for size in (*_TENS, *_UNITS) for sign in ("//", "/", "*")),
    "x + 1",
    "x - 1",
    "1 - x",
    "100 - x",
)
"""What one number may be of another, x, and grows or falls with it."""
OF_MOMENTS = ("year(x)",)
"""What a number may be of a moment, x, and grows with it."""
WHEELS_OF_NUMBERS = {
    **{f"x % {size}": (0, size - 1) for size in (*_TENS, *_UNITS)},
    "x // 60 % 60": (0, 59),
    "x // 100 % 100": (0, 99),
}
"""What a number may be of another one and comes around, from where to where."""
WHEELS_OF_MOMENTS = {
    "month(x)": (1, 12),
    "day(x)": (1, 31),
    "hour(x)": (0, 23),
    "minute(x)": (0, 59),
    "weekday(x)": (0, 6),
}
"""What a number may be of a moment and comes around."""
_PRECISION = 2.0**-21
"""Numbers are encoded in single precision: relative to the range, they are this exact."""
_MICROSECONDS = 1e6


def expressions_of(column: Column) -> tuple[str, ...]:
    """What may be computed from a column and grows or falls with it."""
    return OF_MOMENTS if isinstance(column, Datetime) else OF_NUMBERS


def wheels_of(column: Column) -> dict[str, tuple[int, int]]:
    """What may be computed from a column and comes around."""
    return WHEELS_OF_MOMENTS if isinstance(column, Datetime) else WHEELS_OF_NUMBERS


def computed(expression: str, numbers: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """An expression of the library; NaN where the number is."""
    return evaluate(parse(expression), {"x": numbers}, len(numbers))


def numbers_of(
    column: Column, positions: Float[np.ndarray, " n"], *, written: Column
) -> Float[np.ndarray, " n"]:
    """The numbers at these positions of a column, as expressions see them: moments are seconds.

    Args:
        column: The column as it is learned.
        positions: The positions.
        written: The column as it is written: a clock time, for example.
    """
    values = from_positions(column, positions)
    if isinstance(column, Datetime):
        return values / _MICROSECONDS
    values = values.astype(np.float64)
    return from_places(written, values) if isinstance(written, Clock | ListedNumeric) else values


def tolerance(column: Any, target: Any, expression: str) -> float:
    """How far a number may be from what an expression says and still be that number.

    Half a step of its grid, because what is computed is rounded to the grid as well.
    """
    if target.step is not None:
        return 0.5 * target.step * (1 + 1e-9)
    ends = np.array([target.low, target.high, target.high - target.low])
    if not isinstance(column, Datetime):
        said = computed(expression, np.array([column.low, column.high], np.float64))
        ends = np.append(ends, np.nan_to_num(said))
    return float(_PRECISION * np.abs(ends).max())


@dataclass(frozen=True)
class Cells:
    """Encoded rows of known columns, whose cells are decoded once for all questions."""

    rows: EncodedRows
    columns: tuple[Column, ...]
    """As they are learned."""
    written: tuple[Column, ...]
    """As they are written."""
    sizes: tuple[int, ...]
    """The number of codes of each column."""

    def missing(self, j: int) -> Bool[np.ndarray, " rows"]:
        """Where the cell of column j is missing."""
        if not self.columns[j].nullable:
            return np.zeros(len(self.rows), bool)
        last = 1 if self.columns[j].has_position else self.sizes[j] - 1
        return self.rows.codes[:, j] == last

    def numbers(self, j: int) -> Float[np.ndarray, " rows"]:
        """The numbers of column j, NaN where they are missing."""
        if j not in self._numbers:
            positions = self.rows.positions[:, j]
            values = numbers_of(self.columns[j], positions, written=self.written[j])
            self._numbers[j] = np.where(self.missing(j), np.nan, values)
        return self._numbers[j]

    @cached_property
    def _numbers(self) -> dict[int, np.ndarray]:
        return {}


@dataclass(frozen=True)
class GapsOf:
    """Which of two cells are missing: neither, only the first, only the second, or both.

    Attributes:
        first: The place of a nullable column.
        second: The place of another one.
    """

    first: int
    second: int

    num_answers = 4

    @property
    def columns(self) -> tuple[int, int]:
        """The places of the two columns."""
        return self.first, self.second

    def answers(self, cells: Cells) -> Int[np.ndarray, " rows"]:
        """The answer of every row."""
        return cells.missing(self.first) + 2 * cells.missing(self.second)


@dataclass(frozen=True)
class RelationOf:
    """What one number is of another one.

    The first four answers are those of `GapsOf`, of which the first means that no relation holds. Then
    there is one for each set of expressions that hold, and one for each distance, if none of them does.

    Attributes:
        column: The place of the column that may follow from the other.
        of: The place of the other one.
        expressions: What the column may be: at most three from the library.
        withins: How far it may be from the other one, increasing.
    """

    column: int
    of: int
    expressions: tuple[str, ...]
    withins: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if len(self.expressions) > MOST_EXPRESSIONS or len(self.withins) > MOST_WITHINS:
            raise ValueError(
                f"expressions must be at most {MOST_EXPRESSIONS}, withins {MOST_WITHINS}."
            )

    @property
    def columns(self) -> tuple[int, int]:
        """The places of the two columns."""
        return self.column, self.of

    @property
    def num_answers(self) -> int:
        """The number of answers."""
        return 4 + self._num_sets + len(self.withins)

    @property
    def _num_sets(self) -> int:
        return 2 ** len(self.expressions) - 1

    def answers(self, cells: Cells) -> Int[np.ndarray, " rows"]:
        """The answer of every row."""
        own, other = cells.numbers(self.column), cells.numbers(self.of)
        target, source = cells.written[self.column], cells.written[self.of]
        present = ~np.isnan(own) & ~np.isnan(other)
        held = np.zeros(len(own), np.int64)
        for i, expression in enumerate(self.expressions):
            off = np.abs(own - computed(expression, other))  # NaN is no agreement
            held += (off <= tolerance(source, target, expression)).astype(np.int64) << i
        apart = np.searchsorted(self.withins, np.abs(own - other))
        near = np.where(apart < len(self.withins), 4 + self._num_sets + apart, 0)
        gaps = cells.missing(self.column) + 2 * cells.missing(self.of)
        return np.where(present, np.where(held > 0, 3 + held, near), gaps)

    def said_by(self, expression: str) -> Bool[np.ndarray, " answers"]:
        """The answers of rows in which an expression holds, or both cells are missing."""
        bit = 1 << self.expressions.index(expression)
        answers = np.arange(self.num_answers)
        held = (answers > 3) & (answers <= 3 + self._num_sets) & ((answers - 3) & bit > 0)
        return held | (answers == 3)

    def within(self, distance: float) -> Bool[np.ndarray, " answers"]:
        """The answers of rows whose numbers are no farther apart, or whose cell may be missing."""
        answers = np.arange(self.num_answers)
        first = 4 + self._num_sets
        near = (answers >= first) & (answers <= first + self.withins.index(distance))
        same = self.said_by(SAME) if SAME in self.expressions else answers == 3
        return near | same | (answers == 1)


MOST_EXPRESSIONS, MOST_WITHINS = 3, 8
MOST_ANSWERS = 4 + 2**MOST_EXPRESSIONS - 1 + MOST_WITHINS
"""The largest number of answers of a question."""

Question = GapsOf | RelationOf
