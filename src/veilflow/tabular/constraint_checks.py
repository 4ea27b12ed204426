"""What the constraints of a schema mean for its columns, checked when the schema is made."""

from collections.abc import Mapping, Sequence
from typing import Any

from veilflow.tabular.columns import Boolean, Column, Datetime, Listed, Numeric, OpenCategorical
from veilflow.tabular.constraints import (
    Allowed,
    AtMost,
    Between,
    Constraint,
    Derived,
    MissingTogether,
    Near,
)
from veilflow.tabular.evaluation import Range, range_of
from veilflow.tabular.expressions import copied, parse
from veilflow.tabular.facts import EPOCH
from veilflow.tabular.number_columns import WIDEST, learned


def check_constraint(constraint: Constraint, columns: Mapping[str, Column]) -> None:
    """Raise unless a constraint means something for these columns.

    Raises:
        ValueError: It names a column that is not there, or of a kind that it is not about.
        TypeError: It is no constraint.
    """
    if not isinstance(constraint, Constraint):
        words = ", ".join(kind.__name__ for kind in Constraint.__args__)
        raise TypeError(f"constraints must be one of {words}, got {type(constraint).__name__}.")
    for name in constraint.columns:
        if name not in columns:
            raise ValueError(f"a constraint names {name!r}, which is not a column.")
    if isinstance(constraint, AtMost):
        low, high = columns[constraint.low], columns[constraint.high]
        # clock times are numbers, too
        kinds = [Datetime if isinstance(c, Datetime) else Numeric for c in (low, high)]
        if kinds[0] is not kinds[1] or not low.has_position or not high.has_position:
            raise ValueError(
                f"AtMost must compare two numeric or two datetime columns, not {constraint.low!r} "
                f"({low.kind}) and {constraint.high!r} ({high.kind})."
            )
    elif isinstance(constraint, Between | Near):
        what = type(constraint).__name__
        for name in constraint.columns:
            if not isinstance(columns[name], Numeric):
                kind = columns[name].kind
                raise ValueError(f"{what} must name numeric columns; {name!r} is {kind}.")
    elif isinstance(constraint, Allowed):
        _check_allowed(constraint, columns)
    elif isinstance(constraint, Derived):
        _check_derived(constraint, columns)
    else:
        nullable = (
            constraint.columns if isinstance(constraint, MissingTogether) else (constraint.column,)
        )
        for name in nullable:
            if not columns[name].nullable:
                raise ValueError(
                    f"{type(constraint).__name__} says that column {name!r} may be missing, which is "
                    "not declared nullable. Declare it nullable."
                )
    if isinstance(constraint, Near):
        _check_near(constraint, columns)


def _check_allowed(constraint: Allowed, columns: Mapping[str, Column]) -> None:
    for place, name in enumerate(constraint.columns):
        column = columns[name]
        if isinstance(column, Boolean):
            known: tuple[Any, ...] = (False, True)
        elif isinstance(column, Listed):
            known = column.values
        else:
            raise ValueError(
                f"Allowed must name categorical, ordinal or boolean columns; {name!r} is "
                f"{column.kind}."
            )
        for row in constraint.rows:
            value = row[place]
            # by type too: True is 1 for Python, and neither is a value of the other's column
            listed = type(value) is type(known[0]) and value in known
            if not (column.nullable if value is None else listed):
                raise ValueError(f"Allowed has a value that column {name!r} does not have.")


def _check_near(constraint: Near, columns: Mapping[str, Column]) -> None:
    column, of = columns[constraint.column], columns[constraint.of]
    if learned(column) is not column:
        raise ValueError(
            f"Near: column {constraint.column!r} is {column.kind}, from which there are no "
            "differences. Declare it as Numeric."
        )
    if of.nullable and not column.nullable:
        raise ValueError(
            f"Near: column {constraint.column!r} is missing wherever {constraint.of!r} is. Declare it "
            "nullable."
        )


def _check_derived(constraint: Derived, columns: Mapping[str, Column]) -> None:
    name, expression = constraint.column, parse(constraint.expression)
    column, source = columns[name], copied(expression)
    what = f"column {name!r}, which is derived,"
    if source is not None:
        other = columns[source]
        if other.nullable and not column.nullable:
            raise ValueError(f"{what} may be missing, as {source!r} may. Declare it nullable.")
        if _copyable(other, column):
            return
    for other in constraint.columns[1:]:
        if range_of_column(columns[other]) is None:
            raise ValueError(
                f"{what} is computed from {other!r}, which is {columns[other].kind}: expressions are "
                "about numbers, truth values and dates."
            )
    if isinstance(column, Datetime | OpenCategorical) or not _holds_numbers(column):
        raise ValueError(
            f"{what} is {column.kind}; such a column can only copy one of its own kind and values."
        )
    ranges = {other: range_of_column(columns[other]) for other in constraint.columns[1:]}
    result = range_of(expression, {n: one for n, one in ranges.items() if one is not None})
    if result.moment:
        raise ValueError(f"{what} is a date. Use year(...), days(...) or seconds(...) of it.")
    if result.gaps and not column.nullable:
        raise ValueError(
            f"{what} may be missing: an operand may be, or it may divide by zero. Declare it nullable."
        )


def _copyable(source: Column, target: Column) -> bool:
    """Whether each value of a column is one of the other's."""
    if isinstance(source, Listed) and isinstance(target, Listed):
        return set(source.values) <= set(target.values)
    if isinstance(source, Numeric) and isinstance(target, Numeric):
        return False  # by arithmetic, which moves numbers to the other's bounds and steps
    if isinstance(source, Datetime) and isinstance(target, Datetime):
        ends = ((one.start, one.end, one.resolution) for one in (source, target))
        return len(set(ends)) == 1
    return isinstance(source, Boolean) and isinstance(target, Boolean)


def _holds_numbers(column: Column) -> bool:
    return not isinstance(column, Listed) or isinstance(column.values[0], int)


def range_of_column(column: Column) -> Range | None:
    """The declared range of a column as expressions see it; None if it holds text."""
    if isinstance(column, Datetime):
        ends = ((moment - EPOCH).total_seconds() for moment in (column.start, column.end))
        return Range(*ends, gaps=column.nullable, moment=True)
    if isinstance(column, Numeric):
        low = -WIDEST if column.low is None else column.low
        high = WIDEST if column.high is None else column.high
        return Range(float(low), float(high), column.nullable)
    if isinstance(column, Boolean):
        return Range(0.0, 1.0, column.nullable)
    if isinstance(column, Listed) and _holds_numbers(column):
        numbers: Sequence[Any] = column.values
        return Range(float(min(numbers)), float(max(numbers)), column.nullable)
    return None
