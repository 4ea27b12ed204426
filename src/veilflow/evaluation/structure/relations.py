"""Statements about several columns: gaps, equality, order, functions, sums and lists."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from veilflow.evaluation.structure.statement import (
    CLOSE,
    Mask,
    Numbers,
    Statement,
    Table,
    Value,
    is_number,
    listed,
    same,
    shown,
)
from veilflow.tabular.columns import Column


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
        values = listed([shown(value) for value in self.values], "or")
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
        allowed = self.tolerance * (1 + CLOSE)
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
        return ~np.isnan(size), np.abs(total - parts[0]) <= CLOSE * size


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


def digits(x: Numbers, floor: int, keep: int | None) -> Numbers:
    """Some digits of whole numbers: `(x // floor) % keep`."""
    cut = np.floor(x / floor) if floor > 1 else x
    return cut if keep is None else cut % keep


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
