"""The columns of a table as their owner declares them: kind, range or list, and missing cells.

A declaration is a public fact: it comes from a questionnaire, a code book or a law, never from the
rows. A draft that was read from rows lists the names of its facts in `unconfirmed`, and its `repr`
shows none of them until a person has confirmed them. The kind is one of these facts: a single odd
cell turns a column of numbers into one of text.
"""

import datetime as dt
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields
from decimal import Decimal
from typing import Any, ClassVar

from veilflow._core import check
from veilflow._core.fields import convert, flag, optional, positive
from veilflow.tabular.facts import EXACT, moment, value_list

MAX_CELLS = 2**48
"""The finest grid: its cells stay apart in double precision with room to spare."""

_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}


@dataclass(frozen=True, kw_only=True, repr=False)
class Column(ABC):
    """A declared column, of one of the kinds below.

    A cell is encoded as a code and a position. In a column that `has_position`, a value has code 0
    and a position in [0, 1); elsewhere the code says which value it is, and the position is 0. The
    last code of a nullable column is a missing cell.

    Attributes:
        nullable: Whether cells may be missing.
        unconfirmed: The names of facts that were read from data and that nobody has confirmed.
    """

    nullable: bool = False
    unconfirmed: tuple[str, ...] = ()

    kind: ClassVar[str] = ""
    facts: ClassVar[tuple[str, ...]] = ("kind", "nullable")
    settings: ClassVar[tuple[str, ...]] = ()
    """What else is declared: it belongs to the kind, and is confirmed with it."""
    has_position: ClassVar[bool] = False

    def __post_init__(self) -> None:
        convert(self, nullable=flag)
        if isinstance(self.unconfirmed, str):
            raise TypeError("unconfirmed must be a list of names, got one string.")
        for name in self.unconfirmed:
            if name not in self.facts:
                words = ", ".join(self.facts)
                raise ValueError(
                    f"unconfirmed must name facts of a {self.kind} column ({words}), got {name!r}."
                )
        _set(self, unconfirmed=tuple(fact for fact in self.facts if fact in self.unconfirmed))

    @property
    def confirmed(self) -> bool:
        """Whether every fact is declared public."""
        return not self.unconfirmed

    @property
    def num_cells(self) -> int | None:
        """The number of values on the column's grid; None without a grid or with unknown bounds."""
        return None

    def num_codes(self, vocabulary: Sequence[str] | None = None) -> int:
        """The number of codes, given the values that were discovered if the column is open."""
        return self._num_values(vocabulary) + self.nullable

    @abstractmethod
    def _num_values(self, vocabulary: Sequence[str] | None) -> int:
        """The number of codes besides that of a missing cell."""

    def __repr__(self) -> str:
        """The constructor call that makes the column, with `?` for what is not public."""
        if "kind" in self.unconfirmed:
            return "Column(?)"  # which facts a column has would tell its kind
        known, parts = {field.name: field for field in fields(self)}, []
        for name in (*self.facts[1:-1], *self.settings, "nullable"):
            if name not in known:
                continue
            value = getattr(self, name)
            text = "?" if name in self.unconfirmed else _text(value)
            if not known[name].kw_only:
                parts.append(text)
            elif name in self.unconfirmed or value != known[name].default:
                parts.append(f"{name}={text}")
        return f"{type(self).__name__}({', '.join(parts)})"


@dataclass(frozen=True, repr=False)
class Numeric(Column):
    """Numbers between two public bounds; values outside are moved to the nearer bound.

    Args:
        low: The smallest value; None if it is unknown and must be discovered, for a price.
        high: The largest value, inclusive; None if `low` is.
        integer: Whether values are whole numbers.
        resolution: The step between neighboring values, counted from `low`: 0.01 for cents.
        decimal: The decimal mark in text, "." or ","; with ",", points may group thousands where there
            is a comma: 1.234,50.
        spikes: A number whose multiples are frequent: 10000 for loans, 12 for dozens. Multiples of 5,
            10, 50, 100 and so on are noticed without it. Needs a grid.
        nullable: Whether cells may be missing.
        unconfirmed: See `Column`.
    """

    low: float | None = None
    high: float | None = None
    _: KW_ONLY
    integer: bool = False
    resolution: float | None = None
    decimal: str = "."
    spikes: float | None = None

    kind: ClassVar[str] = "numeric"
    settings: ClassVar[tuple[str, ...]] = ("decimal", "spikes")
    facts: ClassVar[tuple[str, ...]] = ("kind", "low", "high", "integer", "resolution", "nullable")
    has_position: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        convert(self, integer=flag, resolution=optional(positive), spikes=optional(positive))
        check.one_of((".", ","), decimal=self.decimal)
        if (self.low is None) != (self.high is None):
            raise ValueError("low and high must both be given, or both be None (discovered, paid).")
        convert(self, low=optional(self._plain), high=optional(self._plain))
        convert(self, resolution=optional(self._plain), spikes=optional(self._plain))
        self._check_spikes()
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

    def _check_spikes(self) -> None:
        """Raise unless multiples of the declared unit lie on the grid."""
        if self.spikes is None:
            return
        if self.step is None:
            raise ValueError(
                "spikes needs a grid. Declare integer=True, or a resolution such as 0.01."
            )
        at = self.spikes / self.step
        if round(at) < 2 or abs(at - round(at)) > 1e-6 * at:
            raise ValueError(
                f"spikes must be a multiple of the step {self.step} and larger than it, got "
                f"{self.spikes}."
            )
        if self.low is not None and abs(self.low / self.step - round(self.low / self.step)) > 1e-6:
            raise ValueError(
                f"with spikes, low must be a multiple of the step {self.step}, got {self.low}."
            )

    def _plain(self, name: str, value: Any) -> float:
        """A bound or step as int or float, whatever type of number it came as."""
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
        """The number of decimals of a value on the grid."""
        parts = (Decimal(repr(x)).as_tuple().exponent for x in (self.low, self.step) if x)
        return max((-int(exponent) for exponent in parts), default=0)

    def _num_values(self, vocabulary: Sequence[str] | None) -> int:
        return 1


@dataclass(frozen=True, repr=False, init=False)
class Listed(Column):
    """A column whose values are declared one by one."""

    values: tuple[str, ...] | tuple[int, ...]

    facts: ClassVar[tuple[str, ...]] = ("kind", "values", "nullable")

    def __init__(
        self, *values: str | int, nullable: bool = False, unconfirmed: Sequence[str] = ()
    ) -> None:
        _set(self, values=value_list(values), nullable=nullable, unconfirmed=unconfirmed)
        self.__post_init__()

    def _num_values(self, vocabulary: Sequence[str] | None) -> int:
        return len(self.values)


class Categorical(Listed):
    """A closed list of values without an order, all text or all whole numbers.

    Any other cell is an error. For lists that nobody knows in full, see `OpenCategorical`.

    Args:
        values: The values, each once.
        nullable: Whether cells may be missing.
        unconfirmed: See `Column`.
    """

    kind = "categorical"


class Ordinal(Listed):
    """A closed list of values in their order, all text or all whole numbers.

    Args:
        values: The values, each once, the lowest first.
        nullable: Whether cells may be missing.
        unconfirmed: See `Column`.
    """

    kind = "ordinal"


@dataclass(frozen=True, repr=False, kw_only=True)
class OpenCategorical(Column):
    """Text whose values are not known: values that many records share are discovered, for a price.

    All others become `OTHER`, whose code follows those of the discovered values.

    Args:
        max_values: The maximal number of values to discover.
        nullable: Whether cells may be missing.
        unconfirmed: See `Column`.
    """

    max_values: int = 1000

    kind: ClassVar[str] = "open"
    settings: ClassVar[tuple[str, ...]] = ("max_values",)

    def __post_init__(self) -> None:
        super().__post_init__()
        check.count(max_values=self.max_values)

    def _num_values(self, vocabulary: Sequence[str] | None) -> int:
        if vocabulary is None:
            raise ValueError(
                "the codes of an open column depend on its discovered values. Give its vocabulary."
            )
        return len(vocabulary) + 1


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
    """Moments on a grid between two public ones; moments outside are moved to the nearer end.

    Moments have no time zone; those that come with one are converted to UTC.

    Args:
        start: The earliest moment, as a datetime, a date or text such as "1990-01-31T12:00".
        end: The latest moment, inclusive; a date means the whole day.
        resolution: "second", "minute", "hour" or "day".
        format: How text is written, as for `datetime.strptime`: "%d.%m.%Y" for 31.01.1990. Cells like
            1990-01-31 are read in any case.
        nullable: Whether cells may be missing.
        unconfirmed: See `Column`.
    """

    start: dt.datetime
    end: dt.datetime
    _: KW_ONLY
    resolution: str = "second"
    format: str | None = None

    kind: ClassVar[str] = "datetime"
    settings: ClassVar[tuple[str, ...]] = ("format",)
    facts: ClassVar[tuple[str, ...]] = ("kind", "start", "end", "resolution", "nullable")
    has_position: ClassVar[bool] = True

    def __init__(
        self,
        start: dt.date | str,
        end: dt.date | str,
        *,
        resolution: str = "second",
        format: str | None = None,
        nullable: bool = False,
        unconfirmed: Sequence[str] = (),
    ) -> None:
        if format is not None and not (isinstance(format, str) and "%" in format):
            raise ValueError("format must be written like %d.%m.%Y, as for datetime.strptime.")
        check.one_of(tuple(_SECONDS), resolution=resolution)
        step = dt.timedelta(seconds=_SECONDS[resolution])
        _set(self, start=moment("start", start, step), end=moment("end", end, step))
        _set(self, resolution=resolution, format=format)
        _set(self, nullable=nullable, unconfirmed=unconfirmed)
        self.__post_init__()
        if self.start > self.end:
            raise ValueError("start must not be after end.")

    @property
    def step(self) -> dt.timedelta:
        """The time between neighboring values."""
        return dt.timedelta(seconds=_SECONDS[self.resolution])

    @property
    def num_cells(self) -> int:
        return (self.end - self.start) // self.step + 1

    def _num_values(self, vocabulary: Sequence[str] | None) -> int:
        return 1


def _set(column: Column, **facts: Any) -> None:
    """Set facts of a frozen column while it is made."""
    for name, value in facts.items():
        object.__setattr__(column, name, value)


def _text(value: Any) -> str:
    """A fact as it is written in a constructor call; long lists are cut."""
    if isinstance(value, tuple):
        more = [f"... {len(value) - 8} more"] if len(value) > 8 else []
        return ", ".join([*map(repr, value[:8]), *more])
    return repr(str(value) if isinstance(value, dt.datetime) else value)
