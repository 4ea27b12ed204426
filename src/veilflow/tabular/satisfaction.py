"""Which rows hold what a schema declares to hold in every row."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool
from pyarrow import compute

from veilflow.tabular.codec import clean_table, decoded
from veilflow.tabular.constraints import (
    Allowed,
    AtMost,
    Between,
    Constraint,
    Derived,
    MissingIf,
    MissingTogether,
    Near,
)
from veilflow.tabular.derivation import derived, doubles
from veilflow.tabular.encoded import EncodedRows
from veilflow.tabular.expressions import copied, parse
from veilflow.tabular.schema import Schema

arrow: Any = compute  # pyarrow makes its functions when imported, unseen by type checkers

_CLOSE = 1e-9
"""Relative to the larger number: decimals are not exact in binary."""


def satisfied(rows: EncodedRows | Any, schema: Schema) -> Bool[np.ndarray, " n"]:
    """Which rows satisfy all constraints of a schema, after decoding; all rows if there are none.

    Args:
        rows: Encoded rows, or a frame with the columns of the schema.
        schema: The schema with its constraints.
    """
    return np.asarray(satisfied_each(rows, schema).all(axis=1))


def satisfied_each(rows: EncodedRows | Any, schema: Schema) -> Bool[np.ndarray, "n k"]:
    """Which rows satisfy which of the constraints of a schema; see `satisfied`."""
    tested = schema.constraints
    if isinstance(rows, EncodedRows):
        # decoding makes rows hold whatever follows
        tested = [one for one in tested if not isinstance(one, _FOLLOWING)]
        if not tested:
            return np.ones((len(rows), len(schema.constraints)), bool)
        names = [name for name in schema.names if any(name in one.columns for one in tested)]
        # no such constraint is about an open column, so any vocabulary does
        words = dict.fromkeys(schema.open, ())
        table = decoded(rows, schema, vocabularies=words, names=names)
    else:
        table = clean_table(rows, schema)
    holds = np.ones((len(table), len(schema.constraints)), bool)
    for place, constraint in enumerate(schema.constraints):
        if constraint in tested:
            holds[:, place] = _TESTS[type(constraint)](constraint, table, schema)
    return holds


def _numbers(name: str, table: pa.Table, schema: Schema) -> np.ndarray:
    return doubles(table.column(name), schema.columns[name])


def _missing(name: str, table: pa.Table) -> np.ndarray:
    return table.column(name).is_null().to_numpy()


def _at_most(constraint: AtMost, table: pa.Table, schema: Schema) -> np.ndarray:
    low, high = (_numbers(name, table, schema) for name in constraint.columns)
    return ~(low > high)  # nothing exceeds a missing number


def _between(constraint: Between, table: pa.Table, schema: Schema) -> np.ndarray:
    low, high = (
        _numbers(end, table, schema) if isinstance(end, str) else end
        for end in (constraint.low, constraint.high)
    )
    values = _numbers(constraint.column, table, schema)
    return ~(values < low) & ~(values > high)


def _near(constraint: Near, table: pa.Table, schema: Schema) -> np.ndarray:
    values, of = (_numbers(name, table, schema) for name in constraint.columns)
    rounding = _CLOSE * constraint.within + 4 * np.spacing(np.fmax(np.abs(values), np.abs(of)))
    holds = np.isnan(values) | (np.abs(values - of) <= constraint.within + rounding)
    return np.asarray(holds)


def _allowed(constraint: Allowed, table: pa.Table, schema: Schema) -> np.ndarray:
    columns = [table.column(name) for name in constraint.columns]
    listed = [
        list(dict.fromkeys(row[i] for row in constraint.rows if row[i] is not None))
        for i in range(len(columns))
    ]
    shape = tuple(len(values) + 2 for values in listed)  # one for gaps, and one for all others
    places = []
    for column, values in zip(columns, listed, strict=True):
        found = arrow.index_in(column, value_set=pa.array(values, column.type))
        own = found.fill_null(len(values) + 1).to_numpy().copy()
        own[column.is_null().to_numpy()] = len(values)
        places.append(own)
    rows = [
        [len(v) if value is None else v.index(value) for value, v in zip(row, listed, strict=True)]
        for row in constraint.rows
    ]
    codes = np.ravel_multi_index(tuple(places), shape)
    return np.asarray(np.isin(codes, np.ravel_multi_index(tuple(np.array(rows).T), shape)))


def _derived(constraint: Derived, table: pa.Table, schema: Schema) -> np.ndarray:
    source, column = copied(parse(constraint.expression)), schema.columns[constraint.column]
    own = table.column(constraint.column)
    if source is not None and not column.has_position:
        both = [array.cast(pa.string()) for array in (own, table.column(source))]
        same, gaps = arrow.equal(*both), arrow.and_(both[0].is_null(), both[1].is_null())
        return arrow.or_(same.fill_null(False), gaps).to_numpy()
    operands = {name: _numbers(name, table, schema) for name in constraint.columns[1:]}
    values, wanted = doubles(own, column), derived(constraint, column, operands, len(table))
    rounding = _CLOSE * np.fmax(np.abs(values), np.abs(wanted))
    gaps = np.isnan(values) & np.isnan(wanted)
    return np.asarray(gaps | (np.abs(values - wanted) <= rounding))


def _missing_if(constraint: MissingIf, table: pa.Table, schema: Schema) -> np.ndarray:
    return np.asarray(_missing(constraint.column, table) | ~_missing(constraint.when, table))


def _missing_together(constraint: MissingTogether, table: pa.Table, schema: Schema) -> np.ndarray:
    gaps = np.array([_missing(name, table) for name in constraint.columns])
    return np.asarray(gaps.all(axis=0) | ~gaps.any(axis=0))


_FOLLOWING = Derived | MissingIf | MissingTogether
_TESTS: dict[type[Constraint], Callable[[Any, pa.Table, Any], np.ndarray]] = {
    AtMost: _at_most,
    Between: _between,
    Near: _near,
    Allowed: _allowed,
    Derived: _derived,
    MissingIf: _missing_if,
    MissingTogether: _missing_together,
}
