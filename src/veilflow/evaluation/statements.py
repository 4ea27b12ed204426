"""Statements about the rows of a table, such as "start <= end", and the share of rows that keep them.

A statement that was found in real rows holds facts about them: it is as private as they are.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
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

_CLOSE = 1e-6
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


@dataclass(frozen=True, kw_only=True)
class MissingTogether(Statement):
    """Several columns are empty in the same rows. It speaks of rows in which one of them is empty."""

    kind: ClassVar[str] = "gaps"

    @property
    def text(self) -> str:
        return f"{listed(self.columns)} are missing together"

    def masks(self, table: Table) -> tuple[Mask, Mask]:
        gaps = self.missing(table)
        return np.any(gaps, axis=0), np.all(gaps, axis=0)


@dataclass(frozen=True, kw_only=True)
class ImpliedGap(Statement):
    """The second column is empty wherever the first one is."""

    kind: ClassVar[str] = "gaps"

    @property
    def text(self) -> str:
        return f"{self.columns[1]} is missing wherever {self.columns[0]} is"

    def masks(self, table: Table) -> tuple[Mask, Mask]:
        first, second = self.missing(table)
        return first, second


@dataclass(frozen=True, kw_only=True)
class GapByValue(Statement):
    """The first column is empty where the second has certain values, and perhaps only there."""

    values: tuple[Value, ...] = field(repr=False)
    only: bool

    kind: ClassVar[str] = "gaps"

    @property
    def text(self) -> str:
        what = "exactly" if self.only else "wherever"
        values = listed([_shown(value) for value in self.values], "or")
        return f"{self.columns[0]} is missing {what} where {self.columns[1]} is {values}".replace(
            "wherever where", "wherever"
        )

    def masks(self, table: Table) -> tuple[Mask, Mask]:
        gaps = table.missing(self.columns[0], self.declared[0])
        inside = _among(table, self.columns[1], self.declared[1], self.values)
        spoken = inside | gaps if self.only else inside
        return spoken, gaps & inside


@dataclass(frozen=True, kw_only=True)
class Equal(Statement):
    """Two columns hold the same value where both have one."""

    kind: ClassVar[str] = "equal"

    @property
    def text(self) -> str:
        return f"{self.columns[0]} = {self.columns[1]}"

    def masks(self, table: Table) -> tuple[Mask, Mask]:
        if is_number(self.declared[0]):
            x, y = (self.numbers(table, place) for place in (0, 1))
            return ~np.isnan(x) & ~np.isnan(y), same(x, y)
        pairs = zip(self.columns, self.declared, strict=True)
        (words, x), (others, y) = (table.values(name, column) for name, column in pairs)
        known = {word: place for place, word in enumerate(words)}
        places = np.array([*(known.get(word, -2) for word in others), -1])
        return (x >= 0) & (y >= 0), x == places[y]


@dataclass(frozen=True, kw_only=True)
class Near(Statement):
    """Two numbers differ by at most a small amount."""

    tolerance: float

    kind: ClassVar[str] = "near"

    @property
    def text(self) -> str:
        return f"{self.columns[0]} and {self.columns[1]} differ by at most {self.tolerance:g}"

    def masks(self, table: Table) -> tuple[Mask, Mask]:
        x, y = (self.numbers(table, place) for place in (0, 1))
        allowed = self.tolerance * (1 + _CLOSE)
        return ~np.isnan(x) & ~np.isnan(y), np.abs(x - y) <= allowed


@dataclass(frozen=True, kw_only=True)
class Order(Statement):
    """One column never exceeds another."""

    kind: ClassVar[str] = "order"

    @property
    def text(self) -> str:
        return f"{self.columns[0]} <= {self.columns[1]}"

    def masks(self, table: Table) -> tuple[Mask, Mask]:
        x, y = (self.numbers(table, place) for place in (0, 1))
        return ~np.isnan(x) & ~np.isnan(y), x <= y


@dataclass(frozen=True, kw_only=True)
class Digits(Statement):
    """The first column is some digits of the second: `(x // floor) % keep`."""

    floor: int
    keep: int | None

    kind: ClassVar[str] = "function"

    @property
    def formula(self) -> str:
        """The function of the second column."""
        name, cut = self.columns[1], f"{self.columns[1]} // {self.floor}"
        if self.keep is None:
            return cut
        return f"{name} % {self.keep}" if self.floor == 1 else f"({cut}) % {self.keep}"

    @property
    def text(self) -> str:
        return f"{self.columns[0]} = {self.formula}"

    def masks(self, table: Table) -> tuple[Mask, Mask]:
        y, x = (self.numbers(table, place) for place in (0, 1))
        return ~np.isnan(x) & ~np.isnan(y), same(digits(x, self.floor, self.keep), y)


@dataclass(frozen=True, kw_only=True)
class Scaled(Statement):
    """The first column is the second, times a factor."""

    factor: float

    kind: ClassVar[str] = "function"

    @property
    def text(self) -> str:
        y, x = self.columns
        return (
            f"{y} = {x} / {1 / self.factor:g}"
            if self.factor < 1
            else f"{y} = {x} * {self.factor:g}"
        )

    def masks(self, table: Table) -> tuple[Mask, Mask]:
        y, x = (self.numbers(table, place) for place in (0, 1))
        return ~np.isnan(x) & ~np.isnan(y), same(x * self.factor, y)


@dataclass(frozen=True, kw_only=True)
class Part(Statement):
    """The first column is the year, the month, ... of the second."""

    part: str

    kind: ClassVar[str] = "function"

    @property
    def text(self) -> str:
        return f"{self.columns[0]} = {self.part} of {self.columns[1]}"

    def masks(self, table: Table) -> tuple[Mask, Mask]:
        y, x = (self.numbers(table, place) for place in (0, 1))
        return ~np.isnan(x) & ~np.isnan(y), same(PARTS[self.part](x), y)


@dataclass(frozen=True, kw_only=True)
class Total(Statement):
    """The first column is the sum of the others, each with a sign."""

    signs: tuple[int, ...]

    kind: ClassVar[str] = "sum"

    @property
    def text(self) -> str:
        pairs = zip(self.signs, self.columns[1:], strict=True)
        terms = " ".join(f"{'+' if sign > 0 else '-'} {name}" for sign, name in pairs)
        return f"{self.columns[0]} = {terms.removeprefix('+ ')}"

    def masks(self, table: Table) -> tuple[Mask, Mask]:
        parts = [self.numbers(table, place) for place in range(len(self.columns))]
        total = sum(sign * part for sign, part in zip(self.signs, parts[1:], strict=True))
        size = np.max(np.abs(parts), axis=0)
        return ~np.isnan(size), np.abs(total - parts[0]) <= _CLOSE * size


@dataclass(frozen=True, kw_only=True)
class Product(Statement):
    """The first column is the product of the two others."""

    kind: ClassVar[str] = "function"

    @property
    def text(self) -> str:
        return f"{self.columns[0]} = {self.columns[1]} * {self.columns[2]}"

    def masks(self, table: Table) -> tuple[Mask, Mask]:
        z, x, y = (self.numbers(table, place) for place in range(3))
        return ~np.isnan(x + y + z), same(x * y, z)


@dataclass(frozen=True, kw_only=True)
class Follows(Statement):
    """The first column follows from the second, by a list of values."""

    pairs: tuple[tuple[Value, Value], ...] = field(repr=False)
    """From each value of the second column to that of the first."""

    kind: ClassVar[str] = "lookup"

    @property
    def text(self) -> str:
        return f"{self.columns[0]} follows from {self.columns[1]}"

    def masks(self, table: Table) -> tuple[Mask, Mask]:
        values, y = table.values(self.columns[0], self.declared[0])
        keys, x = table.values(self.columns[1], self.declared[1])
        places, known = {value: place for place, value in enumerate(values)}, dict(self.pairs)
        # a value that is not in the list has nothing to follow from it, so it does not hold
        expected = np.array([*(places.get(known.get(key, ""), -2) for key in keys), -1])
        return (x >= 0) & (y >= 0), expected[x] == y


@dataclass(frozen=True, kw_only=True)
class Multiple(Statement):
    """Numbers other than 0 are multiples of a step, in all rows or more often than by chance."""

    step: float

    kind: ClassVar[str] = "round"

    @property
    def text(self) -> str:
        what = "whole number" if self.step == 1 else f"multiple of {self.step:,.6g}"
        return f"{self.columns[0]} is a {what}"

    def masks(self, table: Table) -> tuple[Mask, Mask]:
        x = self.numbers(table, 0)
        return ~np.isnan(x) & (x != 0), multiples(x, self.step)


@dataclass(frozen=True, kw_only=True)
class OftenMultiple(Multiple):
    """A share of the numbers are rounder than the others."""

    kind: ClassVar[str] = "round"
    is_rule: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class Spike(Statement):
    """One value is far more frequent than its neighbors."""

    value: float

    kind: ClassVar[str] = "spike"
    is_rule: ClassVar[bool] = False

    @property
    def text(self) -> str:
        return f"{self.columns[0]} is {_shown(self.value)}"

    def masks(self, table: Table) -> tuple[Mask, Mask]:
        x = self.numbers(table, 0)
        return ~np.isnan(x), same(x, np.full_like(x, self.value))


@dataclass(frozen=True, kw_only=True)
class Sparse(Statement):
    """Only few of the values that the range allows occur."""

    values: tuple[float, ...] = field(repr=False)

    kind: ClassVar[str] = "sparse"

    @property
    def text(self) -> str:
        name, count = self.columns[0], len(self.values)
        if count == 1:
            return f"{name} is always {_shown(self.values[0])}"
        return f"{name} is one of {count:,} values"

    def masks(self, table: Table) -> tuple[Mask, Mask]:
        x, values = self.numbers(table, 0), np.array(self.values)
        place = np.searchsorted(values, x).clip(1, max(1, len(values) - 1))
        near = same(x, values[place - 1]) | same(x, values[np.minimum(place, len(values) - 1)])
        return ~np.isnan(x), near


@dataclass(frozen=True, kw_only=True)
class Format(Statement):
    """Whole numbers are written like a clock time (hhmm) or a day (yyyymmdd)."""

    form: str

    kind: ClassVar[str] = "format"

    @property
    def text(self) -> str:
        return f"{self.columns[0]} is {FORMS[self.form][0]}"

    def masks(self, table: Table) -> tuple[Mask, Mask]:
        x = self.numbers(table, 0)
        return ~np.isnan(x), FORMS[self.form][1](x)


def same(x: Numbers, y: Numbers) -> Mask:
    """Where numbers are equal, up to the precision in which rows are kept; nowhere beside a gap."""
    size = np.maximum(np.abs(x), np.abs(y))
    # whole numbers are exact, and large ones may differ by little
    whole = (x == np.floor(x)) & (y == np.floor(y))
    return (x == y) | ~whole & (np.abs(x - y) <= _CLOSE * size)


def multiples(x: Numbers, step: float) -> Mask:
    """Which numbers are multiples of a step."""
    times = x / step
    return np.abs(times - np.round(times)) <= _ROUND


def digits(x: Numbers, floor: int, keep: int | None) -> Numbers:
    """Some digits of whole numbers: `(x // floor) % keep`."""
    cut = np.floor(x / floor) if floor > 1 else x
    return cut if keep is None else cut % keep


def listed(names: "tuple[str, ...] | list[str]", word: str = "and") -> str:
    """Names with commas and a last word between them; long lists are cut."""
    if len(names) > _SHOWN:
        return f"{', '.join(names[: _SHOWN - 1])} {word} {len(names) - _SHOWN + 1} more"
    *most, last = names
    return f"{', '.join(most)} {word} {last}" if most else last


def _shown(value: Value) -> str:
    return f"{value:.12g}" if isinstance(value, float) else value


def _among(table: Table, name: str, column: Column, values: tuple[Value, ...]) -> Mask:
    known, places = table.values(name, column)
    chosen = set(values)
    return np.array([*(value in chosen for value in known), False])[places]


def _days(seconds: Numbers, unit: str) -> Any:
    """Moments as NumPy has them, in some unit, as whole numbers since 1970."""
    filled = np.nan_to_num(seconds).astype("datetime64[s]").astype(f"datetime64[{unit}]")
    return filled.astype(np.int64)


def _part(of: Callable[[Numbers], Any]) -> Callable[[Numbers], Numbers]:
    return lambda x: np.where(np.isnan(x), np.nan, of(x).astype(np.float64))


PARTS: dict[str, Callable[[Numbers], Numbers]] = {
    "year": _part(lambda x: _days(x, "Y") + 1970),
    "month": _part(lambda x: _days(x, "M") % 12 + 1),
    "day of the month": _part(
        lambda x: (
            _days(x, "D")
            - np.nan_to_num(x)
            .astype("datetime64[s]")
            .astype("datetime64[M]")
            .astype("datetime64[D]")
            .astype(np.int64)
            + 1
        )
    ),
    "weekday (Monday is 0)": _part(lambda x: (_days(x, "D") + 3) % 7),
    "hour": _part(lambda x: _days(x, "h") % 24),
    "minute": _part(lambda x: _days(x, "m") % 60),
}
"""Parts of a moment, from seconds since 1970."""

FORMS: dict[str, tuple[str, Callable[[Numbers], Mask]]] = {
    "clock": (
        "a time of day, hhmm",
        lambda x: (x == np.floor(x)) & (x >= 0) & (x < 2400) & (x % 100 < 60),
    ),
    "day": (
        "a day, yyyymmdd",
        lambda x: (
            (x == np.floor(x)) & (np.abs(x // 100 % 100 - 6.5) < 6) & (np.abs(x % 100 - 16) < 16)
        ),
    ),
}
"""Ways of writing times as whole numbers, in words and as a test."""
