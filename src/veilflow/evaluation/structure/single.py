"""Statements about one column: steps, spikes, few values, times as whole numbers."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from veilflow.evaluation.structure.statement import Mask, Numbers, Statement, Table, same, shown

_ROUND = 1e-4
"""Numbers this close to a multiple, in steps, are one."""


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
        return f"{self.columns[0]} is {shown(self.value)}"

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
            return f"{name} is always {shown(self.values[0])}"
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


def multiples(x: Numbers, step: float) -> Mask:
    """Which numbers are multiples of a step."""
    times = x / step
    return np.abs(times - np.round(times)) <= _ROUND


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
