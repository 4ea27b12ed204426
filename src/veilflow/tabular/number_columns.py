"""Numbers that are written in another way than they are learned: clock times, and listed numbers.

Each is learned as a whole number, its place: minutes since midnight, or the index in the list. The map
between numbers and places is a public fact of the declaration, applied cell by cell.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from veilflow._core import check
from veilflow.tabular.columns import (
    Boolean,
    Categorical,
    Column,
    Datetime,
    Numeric,
    OpenCategorical,
    Ordinal,
)
from veilflow.tabular.encoded import from_positions, to_positions

Values = Float[np.ndarray, " rows"]
"""Numbers; NaN where they are missing."""

WIDEST = 2.0**60
"""Bounds that are discovered are at most this."""
_LAST_CLOCK = 2400
"""Midnight at the end of a day."""


@dataclass(frozen=True, repr=False, init=False)
class Clock(Numeric):
    """Times of day as whole numbers hhmm, whose minutes are below 60: 0, 930, 2359.

    Learned as minutes since midnight. Minutes of 60 and above are moved to 59, and times out of range
    to the nearer bound.

    Args:
        low: The earliest time.
        high: The latest time, at most 2400.
        nullable: Whether cells may be missing.
        unconfirmed: See `Column`.
    """

    kind: ClassVar[str] = "clock"
    facts: ClassVar[tuple[str, ...]] = ("kind", "low", "high", "nullable")

    def __init__(
        self,
        low: int = 0,
        high: int = 2359,
        *,
        nullable: bool = False,
        unconfirmed: Sequence[str] = (),
    ) -> None:
        check.whole(low=low, high=high)
        for name, value in (("low", low), ("high", high)):
            if not 0 <= value <= _LAST_CLOCK or value % 100 > 59:
                raise ValueError(
                    f"{name} must be a time hhmm from 0 to {_LAST_CLOCK}, got {value}."
                )
        _set(self, low=low, high=high, nullable=nullable, unconfirmed=unconfirmed, integer=True)
        self.__post_init__()


@dataclass(frozen=True, repr=False, init=False)
class ListedNumeric(Numeric):
    """Numbers of which only some occur: codes, denominations, sizes.

    Learned as places in the sorted list, in bins like other numbers, where `Ordinal` learns each value
    by itself. Other numbers are moved to the nearest value of the list.

    Args:
        values: The numbers, each once.
        nullable: Whether cells may be missing.
        unconfirmed: See `Column`.
    """

    values: tuple[float, ...] = ()

    kind: ClassVar[str] = "listed"
    facts: ClassVar[tuple[str, ...]] = ("kind", "values", "nullable")

    def __init__(
        self, *values: float, nullable: bool = False, unconfirmed: Sequence[str] = ()
    ) -> None:
        if not values or isinstance(values[0], list | tuple):
            raise TypeError("values must be passed one by one: ListedNumeric(1, 5), or *values.")
        check.finite(**{f"value {place + 1}": value for place, value in enumerate(values)})
        numbers = tuple(sorted(float(value) for value in values))
        if len(set(numbers)) < len(numbers):
            raise ValueError("values must not occur twice.")
        whole = all(number.is_integer() for number in numbers)
        listed = tuple(int(number) for number in numbers) if whole else numbers
        _set(self, values=listed, low=listed[0], high=listed[-1], integer=whole)
        _set(self, nullable=nullable, unconfirmed=unconfirmed)
        self.__post_init__()

    @property
    def num_cells(self) -> int:
        return len(self.values)


KINDS: dict[str, type[Column]] = {
    kind.kind: kind
    for kind in (
        Numeric,
        Categorical,
        Ordinal,
        OpenCategorical,
        Boolean,
        Datetime,
        Clock,
        ListedNumeric,
    )
}
"""The kinds of columns by the word that files use for them."""


def learned(column: Column) -> Column:
    """The column as it is learned: that of the places, for numbers that are written in another way."""
    if isinstance(column, Clock):
        low, high = (int(place) for place in to_places(column, np.array([column.low, column.high])))
        return Numeric(low, high, integer=True, nullable=column.nullable)
    if isinstance(column, ListedNumeric):
        return Numeric(0, len(column.values) - 1, integer=True, nullable=column.nullable)
    return column


def to_places(column: Numeric, values: Values) -> Values:
    """The place of each number; NaN for NaN."""
    if isinstance(column, Clock):
        assert column.low is not None
        assert column.high is not None
        times = np.floor(np.clip(values, column.low, column.high) + 0.5)
        return times // 100 * 60 + np.minimum(times % 100, 59)
    assert isinstance(column, ListedNumeric)
    numbers = np.array(column.values, np.float64)
    borders = numbers[:-1] + np.diff(numbers) / 2
    return np.where(np.isnan(values), np.nan, np.searchsorted(borders, values, side="left"))


def from_places(column: Numeric, places: Values) -> Values:
    """The number at each place; NaN for NaN."""
    if isinstance(column, Clock):
        return places // 60 * 100 + places % 60
    assert isinstance(column, ListedNumeric)
    gaps = np.isnan(places)
    index = np.where(gaps, 0, places).astype(np.int64)
    return np.where(gaps, np.nan, np.array(column.values, np.float64)[index])


def moved(column: Numeric, values: Values) -> Values:
    """Numbers moved to the nearest one that a column can hold; NaN for NaN."""
    if isinstance(column, Clock | ListedNumeric):
        return from_places(column, to_places(column, values))
    if column.low is None or column.high is None:
        return np.clip(values, -WIDEST, WIDEST)
    if column.num_cells is None:
        return np.clip(values, column.low, column.high)
    gaps = np.isnan(values)
    on_grid: Any = from_positions(column, to_positions(column, np.where(gaps, column.low, values)))
    return np.where(gaps, np.nan, on_grid)


def _set(column: Column, **facts: Any) -> None:
    """Set facts of a frozen column while it is made."""
    for name, value in facts.items():
        object.__setattr__(column, name, value)
