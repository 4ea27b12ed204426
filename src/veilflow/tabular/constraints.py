"""What holds in every row of a table, declared as public facts.

Some say how cells *follow* from others: `Derived`, `Near` and the two rules about gaps. Decoding makes
every row hold them (`structure.py`, `derivation.py`, `gaps.py`). The others *exclude* rows: `AtMost`,
`Between` and `Allowed`. Drawn rows that violate them are dropped (`satisfaction.py`). Bounds and lists
need no constraint: no decoded value is outside of them.

Fields are plain texts and numbers. What they mean for a table is checked by its schema
(`constraint_checks.py`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from veilflow._core import check
from veilflow.tabular.expressions import names_in, parse, quoted

Value = str | int | bool | None
"""A value of a listed or boolean column; None is a missing cell."""


@dataclass(frozen=True)
class AtMost:
    """One column never exceeds another where both have a value: `AtMost("start", "end")`.

    Args:
        low: The name of a numeric or datetime column.
        high: The name of another column of that kind.
    """

    low: str
    high: str

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it compares."""
        return self.low, self.high

    def __post_init__(self) -> None:
        _names(self, "low", "high")
        if self.low == self.high:
            raise ValueError(f"AtMost must compare two columns, got {self.low!r} twice.")


@dataclass(frozen=True)
class Between:
    """A number lies between two others, both inclusive, wherever they have values.

    Args:
        column: The name of a numeric column.
        low: The name of another numeric column, or a number.
        high: Likewise.
    """

    column: str
    low: str | float
    high: str | float

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it compares."""
        return (self.column, *(end for end in (self.low, self.high) if isinstance(end, str)))

    def __post_init__(self) -> None:
        _names(self, "column")
        for field in ("low", "high"):
            end = getattr(self, field)
            if isinstance(end, str):
                _names(self, field)
            else:
                object.__setattr__(self, field, _number(field, end))
        if len(set(self.columns)) < len(self.columns):
            raise ValueError("Between must not name a column twice.")
        if (
            not isinstance(self.low, str)
            and not isinstance(self.high, str)
            and self.low > self.high
        ):
            raise ValueError(f"low must be at most high, got low={self.low}, high={self.high}.")


@dataclass(frozen=True, init=False)
class Allowed:
    """Only these combinations of values occur; None stands for a missing cell.

    Args:
        columns: The names of categorical, ordinal or boolean columns.
        rows: The combinations, each with one value per column.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]

    def __init__(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        if isinstance(columns, str):
            raise TypeError("columns must be a list of names, got one string.")
        object.__setattr__(self, "columns", tuple(columns))
        object.__setattr__(self, "rows", tuple(tuple(row) for row in rows))
        if len(set(self.columns)) < len(self.columns) or not self.columns:
            raise ValueError("columns must name at least one column, and none twice.")
        if not self.rows:
            raise ValueError("rows must hold at least one combination.")
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError("rows must each have one value for every column.")


@dataclass(frozen=True)
class Derived:
    """A column that is computed from others: `Derived("birth_year", "birth_date // 10000")`.

    It is not learned, costs nothing and holds in every row. The expression has the arithmetic of Python
    (`+ - * / // %`, comparisons, parentheses), the functions `min`, `max`, `abs`, `round`, `floor` and
    `ceil`, and for columns of dates `year`, `month`, `day`, `hour`, `minute`, `weekday`, `days` and
    `seconds`. Names that are not Python names are quoted: `"gross pay" - tax`. An expression that is
    one name copies that column, whatever its kind. Where an operand is missing, or something is divided
    by zero, the cell is missing.

    Args:
        column: The name of the column, which is declared as if it were not derived.
        expression: The expression.
    """

    column: str
    expression: str

    @property
    def columns(self) -> tuple[str, ...]:
        """The column, and those that it is computed from."""
        return (self.column, *names_in(parse(self.expression)))

    def __post_init__(self) -> None:
        _names(self, "column")
        if not isinstance(self.expression, str):
            raise TypeError(f"expression must be text, got {type(self.expression).__name__}.")
        if len(set(self.columns)) < len(self.columns):
            raise ValueError(f"column {self.column!r} must not be derived from itself.")


def Equal(column: str, other: str) -> Derived:
    """A column that always equals another one; both are of the same kind.

    Args:
        column: The name of the column that follows, which is not learned.
        other: The name of the column that it equals.
    """
    return Derived(column, _quoted(other))


def Sum(column: str, parts: Sequence[str]) -> Derived:
    """A numeric column that always is the sum of others.

    Args:
        column: The name of the column that follows, which is not learned.
        parts: The names of the columns that are added up.
    """
    if isinstance(parts, str):
        raise TypeError("parts must be a list of names, got one string.")
    if not parts:
        raise ValueError("parts must name at least one column.")
    return Derived(column, " + ".join(_quoted(name) for name in parts))


@dataclass(frozen=True)
class Near:
    """A number that never differs from another one by more than `within`.

    What is learned is the difference, whose range is narrow. The cell is missing where the other one
    is.

    Args:
        column: The name of the numeric column that follows.
        of: The name of the other numeric column.
        within: The largest difference, above zero.
    """

    column: str
    of: str
    within: float

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it compares."""
        return self.column, self.of

    def __post_init__(self) -> None:
        _names(self, "column", "of")
        if self.column == self.of:
            raise ValueError(f"Near must compare two columns, got {self.column!r} twice.")
        object.__setattr__(self, "within", _number("within", self.within))
        check.positive(within=self.within)


@dataclass(frozen=True)
class MissingIf:
    """A column is missing wherever another one is: `MissingIf("income", when="job")`.

    Args:
        column: The name of the nullable column that follows.
        when: The name of the other column.
    """

    column: str
    when: str

    @property
    def columns(self) -> tuple[str, ...]:
        """The column, and the one whose gaps it has."""
        return self.column, self.when

    def __post_init__(self) -> None:
        _names(self, "column", "when")
        if self.column == self.when:
            raise ValueError(f"MissingIf must name two columns, got {self.column!r} twice.")


@dataclass(frozen=True, init=False)
class MissingTogether:
    """Columns are missing together or not at all: `MissingTogether("visit", "doctor", "bill")`.

    A row in which some of them are missing counts as one in which all are.

    Args:
        columns: The names of two or more nullable columns.
    """

    columns: tuple[str, ...]

    def __init__(self, *columns: str) -> None:
        object.__setattr__(self, "columns", tuple(columns))
        if not all(isinstance(name, str) for name in columns):
            raise TypeError("MissingTogether must be given names one by one.")
        if len(set(columns)) < len(columns) or len(columns) < 2:
            raise ValueError("MissingTogether must name two or more columns, and none twice.")


Constraint = AtMost | Between | Allowed | Derived | Near | MissingIf | MissingTogether


def _names(constraint: Any, *fields: str) -> None:
    for field in fields:
        value = getattr(constraint, field)
        if not isinstance(value, str):
            raise TypeError(f"{field} must be the name of a column, got {type(value).__name__}.")


def _number(field: str, value: Any) -> float:
    check.finite(**{field: value})
    return float(value)


def _quoted(name: str) -> str:
    """A name as it stands in an expression."""
    if not isinstance(name, str):
        raise TypeError(f"names of columns must be text, got {type(name).__name__}.")
    return quoted(name)
