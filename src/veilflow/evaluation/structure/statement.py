"""Statements about the rows of a table, such as "start <= end", and the share of rows that keep them.

A statement that was found in real rows holds facts about them: it is as private as they are.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float, Int

from veilflow.evaluation._cells import column_array
from veilflow.tabular import cells as reading
from veilflow.tabular.columns import Boolean, Column, Datetime, Listed

if TYPE_CHECKING:
    import pandas as pd

Mask = Bool[np.ndarray, " rows"]
Numbers = Float[np.ndarray, " rows"]
Value = float | str

CLOSE = 1e-6
"""Numbers this close, relative to their size, are equal: positions are in single precision."""
_ROUND = 1e-4
"""Numbers this close to a multiple, in steps, are one."""
_SHOWN = 5
"""The most columns or values that a text lists."""


class Table:
    """The columns of a frame; each is read once, when it is asked for."""

    def __init__(self, frame: "pd.DataFrame") -> None:
        self.frame = frame
        self._numbers: dict[str, Numbers] = {}
        self._values: dict[str, tuple[list[Value], Int[np.ndarray, " rows"]]] = {}

    def __len__(self) -> int:
        return len(self.frame)

    def numbers(self, name: str, column: Column) -> Numbers:
        """The numbers of a column, not clipped; moments in seconds; NaN where there is none."""
        if name not in self._numbers:
            self._numbers[name] = _read_numbers(column_array(self.frame, name), column)
        return self._numbers[name]

    def values(self, name: str, column: Column) -> tuple[list[Value], Int[np.ndarray, " rows"]]:
        """The distinct values of a column, and the place of each row's value; -1 for a gap."""
        if name not in self._values:
            self._values[name] = self._distinct(name, column)
        return self._values[name]

    def missing(self, name: str, column: Column) -> Mask:
        """Which rows have no value in a column."""
        if is_number(column):
            return np.isnan(self.numbers(name, column))
        return self.values(name, column)[1] < 0

    def _distinct(self, name: str, column: Column) -> tuple[list[Value], np.ndarray]:
        if is_number(column):
            numbers = self.numbers(name, column)
            gaps = np.isnan(numbers)
            values, places = np.unique(np.where(gaps, 0.0, numbers), return_inverse=True)
            return values.tolist(), np.where(gaps, -1, places)
        words, places = reading.texts(column_array(self.frame, name))
        silent = np.append(reading.say_nothing(words), True)
        known: dict[Value, int] = {}
        ids = [known.setdefault(word, len(known)) for word in words.to_pylist()]
        return list(known), np.where(silent, -1, [*ids, -1])[places]


def is_number(column: Column) -> bool:
    """Whether cells of a column can be calculated with: numbers, moments, truth values, codes."""
    if isinstance(column, Listed):
        return isinstance(column.values[0], int)
    return column.has_position or isinstance(column, Boolean)


def _read_numbers(array: Any, column: Column) -> Numbers:
    if isinstance(column, Datetime):
        cells, scale = reading.moments(array), 1e6
    elif isinstance(column, Boolean):
        cells, scale = reading.read_column("", column, array, invalid="replace"), 1.0
    else:
        cells, scale = reading.numbers(array), 1.0
    values = np.where(cells.missing | cells.unreadable, np.nan, cells.values / scale)
    return np.where(np.isfinite(values), values, np.nan)


@dataclass(frozen=True, kw_only=True)
class Statement(ABC):
    """Something that holds in all or many rows.

    Attributes:
        columns: The names of the columns that it is about.
        declared: Their declarations, by which cells are read.
        share: Of the real rows that it speaks of, the share in which it holds.
        support: The share of the real rows that it speaks of, such as those without a gap.
    """

    columns: tuple[str, ...]
    declared: tuple[Column, ...] = field(repr=False)
    share: float = math.nan
    support: float = math.nan

    kind: ClassVar[str] = ""
    is_rule: ClassVar[bool] = True
    """Whether it is meant to hold in every row; otherwise synthetic rows should have its share."""

    @property
    @abstractmethod
    def text(self) -> str:
        """The statement for people. It names columns, and may quote values of real rows."""

    @abstractmethod
    def masks(self, table: Table) -> tuple[Mask, Mask]:
        """Which rows it speaks of, and in which rows it holds."""

    def numbers(self, table: Table, place: int) -> Numbers:
        """The numbers of one of the columns."""
        return table.numbers(self.columns[place], self.declared[place])

    def missing(self, table: Table) -> list[Mask]:
        """The gaps of each column."""
        pairs = zip(self.columns, self.declared, strict=True)
        return [table.missing(name, column) for name, column in pairs]


def measured(statement: Statement, table: Table) -> tuple[float, float]:
    """The share of the rows that a statement speaks of in which it holds, and their share of all.

    The first is NaN if it speaks of no row.
    """
    spoken, holds = statement.masks(table)
    count = np.count_nonzero(spoken)
    if not count:
        return math.nan, 0.0
    return float(np.count_nonzero(spoken & holds) / count), float(count / len(table))


def share_kept(statement: Statement, frame: "pd.DataFrame") -> float:
    """The share of rows in which a statement holds, of those that it speaks of. As private as they are.

    NaN if it speaks of no row: for example, if none has the gap that should imply another.
    """
    return measured(statement, Table(frame))[0]


def shares_kept(
    statements: "tuple[Statement, ...]", frame: "pd.DataFrame"
) -> list[tuple[float, float]]:
    """`share_kept` of many statements, each with the share of rows that it speaks of."""
    table = Table(frame)
    return [measured(statement, table) for statement in statements]


def same(x: Numbers, y: Numbers) -> Mask:
    """Where numbers are equal, up to the precision in which rows are kept; nowhere beside a gap."""
    size = np.maximum(np.abs(x), np.abs(y))
    # whole numbers are exact, and large ones may differ by little
    whole = (x == np.floor(x)) & (y == np.floor(y))
    return (x == y) | ~whole & (np.abs(x - y) <= CLOSE * size)


def listed(names: "tuple[str, ...] | list[str]", word: str = "and") -> str:
    """Names with commas and a last word between them; long lists are cut."""
    if len(names) > _SHOWN:
        return f"{', '.join(names[: _SHOWN - 1])} {word} {len(names) - _SHOWN + 1} more"
    *most, last = names
    return f"{', '.join(most)} {word} {last}" if most else last


def shown(value: Value) -> str:
    """A value for people."""
    return value if isinstance(value, str) else f"{value:.12g}"
