"""Which rows hold what a schema declares to hold in every row."""

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool

from veilflow.tabular.constraints import AtMost, Value

if TYPE_CHECKING:
    from veilflow.tabular.encoded import EncodedRows
    from veilflow.tabular.schema import Schema


def satisfied(rows: "EncodedRows | Any", schema: "Schema") -> Bool[np.ndarray, " n"]:
    """Which rows satisfy all constraints of a schema, after decoding; all rows if there are none.

    Args:
        rows: Encoded rows, or a frame with the columns of the schema.
        schema: The schema with its constraints.
    """
    return np.asarray(satisfied_each(rows, schema).all(axis=1))


def satisfied_each(rows: "EncodedRows | Any", schema: "Schema") -> Bool[np.ndarray, "n k"]:
    """Which rows satisfy which of the constraints of a schema; see `satisfied`."""
    from veilflow.tabular.encoded import EncodedRows

    if not isinstance(rows, EncodedRows):
        from veilflow.tabular.codec import encode

        # no constraint is about an open column, so any vocabulary does
        rows = encode(rows, schema, vocabularies=dict.fromkeys(schema.open, ()))
    holds = np.ones((len(rows), len(schema.constraints)), bool)
    for place, constraint in enumerate(schema.constraints):
        test = _at_most if isinstance(constraint, AtMost) else _allowed
        holds[:, place] = test(constraint, rows, schema)
    return holds


def _at_most(constraint: Any, rows: "EncodedRows", schema: "Schema") -> np.ndarray:
    from veilflow.tabular.encoded import from_positions

    present = np.ones(len(rows), bool)
    values = []
    for name in constraint.columns:
        place = schema.names.index(name)
        present &= rows.codes[:, place] == 0
        values.append(from_positions(schema.columns[name], rows.positions[:, place]))
    return ~present | (values[0] <= values[1])


def _allowed(constraint: Any, rows: "EncodedRows", schema: "Schema") -> np.ndarray:
    places = [schema.names.index(name) for name in constraint.columns]
    columns = [schema.columns[name] for name in constraint.columns]
    shape = tuple(column.num_codes() for column in columns)
    allowed = [
        [_code(value, column) for value, column in zip(row, columns, strict=True)]
        for row in constraint.rows
    ]
    codes = np.ravel_multi_index(tuple(rows.codes[:, place] for place in places), shape)
    return np.isin(codes, np.ravel_multi_index(tuple(np.array(allowed).T), shape))


def _code(value: Value, column: Any) -> int:
    if value is None:
        return column.num_codes() - 1
    return int(value) if isinstance(value, bool) else column.values.index(value)
