"""What a column of a table is, as its owner declares it: kinds, ranges, lists, gaps.

A declaration is a public fact: it comes from a questionnaire, a code book or a law, never from the
rows. A draft that was read from rows carries the names of its facts in `unconfirmed`, and shows
none of them, until a person has confirmed them. The kind is one of these facts: a single odd cell
turns a column of numbers into one of text.
"""

import datetime as dt
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields
from decimal import Decimal
from typing import Any, ClassVar

from veilflow._core import check
from veilflow.tabular.facts import EXACT, moment, value_list

MAX_CELLS = 2**48
"""The finest grid: its cells stay apart in double precision with room to spare."""

_WORDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}


@dataclass(frozen=True, kw_only=True, repr=False)
class Column(ABC):
    """A declared column; one of the kinds below.

    A cell is a code and a position. Where `has_position`, code 0 is a value at a position in
    [0, 1); elsewhere the code says which value, and the position is 0. In a nullable column the
    last code is a missing cell.

    Attributes:
        nullable: Whether cells may be missing.
        unconfirmed: Names of the facts that were read from data and that nobody has confirmed.
    """

    nullable: bool = False
    unconfirmed: tuple[str, ...] = ()

    kind: ClassVar[str] = ""
    facts: ClassVar[tuple[str, ...]] = ("kind", "nullable")
    has_position: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not isinstance(self.nullable, bool):
            raise TypeError(f"nullable must be True or False, got {self.nullable!r}.")
        if isinstance(self.unconfirmed, str):
            raise TypeError("unconfirmed must be a list of names, got one string.")
        strange = [name for name in self.unconfirmed if name not in self.facts]
        if strange:
            words = ", ".join(self.facts)
            raise ValueError(
                f"unconfirmed must name facts of a {self.kind} column ({words}), got {strange[0]!r}."
            )
        ordered = tuple(name for name in self.facts if name in self.unconfirmed)
        object.__setattr__(self, "unconfirmed", ordered)

    @property
    def confirmed(self) -> bool:
        """Whether every fact is declared public."""
        return not self.unconfirmed

    @property
    def num_cells(self) -> int | None:
        """How many values the column's grid has; None if it has no grid or its range is unknown."""
        return None

    def num_codes(self, vocabulary: Sequence[str] | None = None) -> int:
        """How many codes there are; `vocabulary` is what was discovered of an open list."""
        return self._num_values(vocabulary) + self.nullable

    @abstractmethod
    def _num_values(self, vocabulary: Sequence[str] | None) -> int:
        """How many codes there are besides that of a missing cell."""

    def __repr__(self) -> str:
        return _show(self, [], [f for f in fields(self) if f.name != "unconfirmed"])


@dataclass(frozen=True, repr=False)
class Numeric(Column):
    """Numbers between two public bounds; what lies outside is moved to the nearer one.

    Args:
        low: The smallest value; None if it is not known and has to be discovered, for a price.
        high: The largest value, itself allowed; None with `low`.
        integer: Whether values are whole numbers.
        resolution: The step between neighboring values, counted from `low`: 0.01 for cents.
        nullable: Whether cells may be missing.
        unconfirmed: See `Column`.
    """

    low: float | None = None
    high: float | None = None
    _: KW_ONLY
    integer: bool = False
    resolution: float | None = None

    kind: ClassVar[str] = "numeric"
    facts: ClassVar[tuple[str, ...]] = ("kind", "low", "high", "integer", "resolution", "nullable")
    has_position: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.integer, bool):
            raise TypeError(f"integer must be True or False, got {self.integer!r}.")
        if self.resolution is not None:
            check.positive(resolution=self.resolution)
        if (self.low is None) != (self.high is None):
            raise ValueError("low and high must both be given, or both be None (discovered, paid).")
        for name in ("low", "high", "resolution"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, self._plain(name))
        if self.low is None or self.high is None:
            return
        if self.low > self.high or (self.low == self.high and self.step is None):
            raise ValueError(f"low must be below high, got low={self.low}, high={self.high}.")
        if not math.isfinite(self.high - self.low):
            raise ValueError("the range from low to high is too wide for double precision.")
        if self.num_cells is not None and self.num_cells > MAX_CELLS:
            raise ValueError(
                "the range has too many steps to tell them apart. Choose a larger resolution, or "
                "none."
            )

    def _plain(self, name: str) -> float:
        """A bound or step as int or float, whatever number type it came as."""
        value: Any = getattr(self, name)
        check.finite(**{name: value})
        if not self.integer:
            return float(value)
        if float(value) != math.floor(value) or abs(value) > EXACT:
            raise ValueError(
                f"{name} of an integer column must be a whole number of at most 2^53, got {value}."
            )
        return int(value)

    @property
    def step(self) -> float | None:
        """The distance between neighboring values, if they lie on a grid."""
        return self.resolution or (1 if self.integer else None)

    @property
    def num_cells(self) -> int | None:
        if self.low is None or self.high is None or self.step is None:
            return None
        # a hundredth of a step: decimal steps are not exact in binary
        return math.floor((self.high - self.low) / self.step + 0.01) + 1

    @property
    def digits(self) -> int:
        """Decimals that a value on the grid has."""
        parts = (Decimal(repr(x)).as_tuple().exponent for x in (self.low, self.step) if x)
        return max((-int(exponent) for exponent in parts), default=0)

    def _num_values(self, vocabulary: Sequence[str] | None) -> int:
        return 1

    def __repr__(self) -> str:
        return _show(self, ["low", "high"], ["integer", "resolution", "nullable"])


@dataclass(frozen=True, repr=False, init=False)
class _Listed(Column):
    """A column whose values are declared one by one."""

    values: tuple[str, ...] | tuple[int, ...]

    facts: ClassVar[tuple[str, ...]] = ("kind", "values", "nullable")

    def __init__(
        self, *values: str | int, nullable: bool = False, unconfirmed: Sequence[str] = ()
    ) -> None:
        object.__setattr__(self, "values", value_list(values))
        object.__setattr__(self, "nullable", nullable)
        object.__setattr__(self, "unconfirmed", unconfirmed)
        self.__post_init__()

    def _num_values(self, vocabulary: Sequence[str] | None) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        if "values" in self.unconfirmed:
            return _show(self, ["values"], ["nullable"])
        shown = [repr(value) for value in self.values[:8]]
        shown += [f"... {len(self.values) - 8} more"] if len(self.values) > 8 else []
        return _show(self, [], ["nullable"], shown)


class Categorical(_Listed):
    """A closed list of values without an order, all text or all whole numbers.

    A cell that is none of them is an error: see `OpenCategorical` for lists nobody knows in full.

    Args:
        values: The values, each once.
        nullable: Whether cells may be missing.
        unconfirmed: See `Column`.
    """

    kind = "categorical"


class Ordinal(_Listed):
    """A closed list of values in their order, all text or all whole numbers.

    Args:
        values: The values, each once, the lowest first.
        nullable: Whether cells may be missing.
        unconfirmed: See `Column`.
    """

    kind = "ordinal"


@dataclass(frozen=True, repr=False, kw_only=True)
class OpenCategorical(Column):
    """Text whose values are not known: those of many records are discovered, and paid for.

    All others become `OTHER`. Its code is the one after those of the discovered values.

    Args:
        max_values: The most values to discover.
        nullable: Whether cells may be missing.
        unconfirmed: See `Column`.
    """

    max_values: int = 1000

    kind: ClassVar[str] = "open"

    def __post_init__(self) -> None:
        super().__post_init__()
        check.count(max_values=self.max_values)

    def _num_values(self, vocabulary: Sequence[str] | None) -> int:
        if vocabulary is None:
            raise ValueError(
                "an open column has as many codes as values were discovered. Give its vocabulary."
            )
        return len(vocabulary) + 1

    def __repr__(self) -> str:
        return _show(self, [], ["max_values", "nullable"])


@dataclass(frozen=True, repr=False)
class Boolean(Column):
    """True or false.

    Args:
        nullable: Whether cells may be missing.
        unconfirmed: See `Column`. The fact `values` is that there are only two.
    """

    kind: ClassVar[str] = "boolean"
    facts: ClassVar[tuple[str, ...]] = ("kind", "values", "nullable")

    def _num_values(self, vocabulary: Sequence[str] | None) -> int:
        return 2


@dataclass(frozen=True, repr=False)
class Datetime(Column):
    """Moments between two public ones, on a grid; what lies outside is moved to the nearer end.

    Moments have no time zone; those that come with one are taken in UTC.

    Args:
        start: The earliest, as a datetime, a date or text such as "1990-01-31T12:00".
        end: The latest, itself allowed; a date means the whole day.
        resolution: "second", "minute", "hour" or "day".
        nullable: Whether cells may be missing.
        unconfirmed: See `Column`.
    """

    start: dt.datetime
    end: dt.datetime
    _: KW_ONLY
    resolution: str = "second"

    kind: ClassVar[str] = "datetime"
    facts: ClassVar[tuple[str, ...]] = ("kind", "start", "end", "resolution", "nullable")
    has_position: ClassVar[bool] = True

    def __init__(
        self,
        start: dt.date | str,
        end: dt.date | str,
        *,
        resolution: str = "second",
        nullable: bool = False,
        unconfirmed: Sequence[str] = (),
    ) -> None:
        check.one_of(tuple(_WORDS), resolution=resolution)
        step = dt.timedelta(seconds=_WORDS[resolution])
        object.__setattr__(self, "start", moment(start, step, start=start))
        object.__setattr__(self, "end", moment(end, step, end=end))
        object.__setattr__(self, "resolution", resolution)
        object.__setattr__(self, "nullable", nullable)
        object.__setattr__(self, "unconfirmed", unconfirmed)
        self.__post_init__()
        if self.start > self.end:
            raise ValueError("start must not be after end.")

    @property
    def step(self) -> dt.timedelta:
        """The time between neighboring values."""
        return dt.timedelta(seconds=_WORDS[self.resolution])

    @property
    def num_cells(self) -> int:
        return (self.end - self.start) // self.step + 1

    def _num_values(self, vocabulary: Sequence[str] | None) -> int:
        return 1

    def __repr__(self) -> str:
        return _show(self, ["start", "end"], ["resolution", "nullable"])


KINDS: dict[str, type[Column]] = {
    kind.kind: kind for kind in (Numeric, Categorical, Ordinal, OpenCategorical, Boolean, Datetime)
}
"""The kinds of columns by the word that files use for them."""


class _Hidden:
    def __repr__(self) -> str:
        return "?"


def _show(
    column: Column, positional: list[str], keywords: list[Any], shown: Sequence[str] = ()
) -> str:
    """The constructor call that makes a column, with `?` for what is not public."""
    if "kind" in column.unconfirmed:
        return "Column(?)"  # which facts a column has would tell its kind
    parts = list(shown)
    defaults = {f.name: f.default for f in fields(column)}
    for name in positional:
        value = getattr(column, name)
        text = str(value) if isinstance(value, dt.datetime) else value
        parts.append(repr(_Hidden() if name in column.unconfirmed else text))
    for keyword in keywords:
        name = keyword if isinstance(keyword, str) else keyword.name
        value = getattr(column, name)
        if name in column.unconfirmed:
            parts.append(f"{name}=?")
        elif value != defaults[name]:
            parts.append(f"{name}={value!r}")
    return f"{type(column).__name__}({', '.join(parts)})"
