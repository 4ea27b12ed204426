"""Frames as codes and positions by their schema, and back, for the baselines.

Each row is read by itself, and any cell has a code: a value that is not listed has that of a gap, or of
the first value where there may be no gap. Numbers are moved into their declared range.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

import veilflow as vf


class Coded(NamedTuple):
    """Rows, columns in the order of the schema.

    A listed column has codes in the order of its values, the gap last. A number has a position in
    [0, 1], and the code 1 for a gap.
    """

    codes: Int[np.ndarray, "rows columns"]
    positions: Float[np.ndarray, "rows columns"]


def is_number(column: Any) -> bool:
    """Whether a column has positions."""
    return isinstance(column, vf.Numeric)


def num_codes(column: Any) -> int:
    """The number of codes of a column."""
    return (1 if is_number(column) else len(_values(column))) + column.nullable


def check(schema: vf.Schema) -> None:
    """Raise unless every column is a closed list or a number with declared bounds."""
    bad = [
        name
        for name, column in schema.columns.items()
        if not (
            (isinstance(column, vf.Numeric) and column.low is not None)
            or isinstance(column, vf.Categorical | vf.Ordinal | vf.Boolean)
        )
    ]
    if bad:
        names = ", ".join(bad)
        raise ValueError(f"baselines need closed lists, and numbers with bounds; got {names}.")


def coded(frame: pd.DataFrame, schema: vf.Schema) -> Coded:
    """The rows of a frame."""
    shape = (len(frame), len(schema.columns))
    codes, positions = np.zeros(shape, np.int64), np.zeros(shape)
    for j, (name, column) in enumerate(schema.columns.items()):
        if isinstance(column, vf.Numeric):
            values = pd.to_numeric(frame[name], errors="coerce").to_numpy(
                np.float64, na_value=np.nan
            )
            gap = np.isnan(values)
            low, high = _range(column)
            positions[:, j] = np.clip((np.where(gap, low, values) - low) / (high - low), 0, 1)
            codes[:, j] = gap & column.nullable
        else:
            places = {value: place for place, value in enumerate(_values(column))}
            other = len(places) if column.nullable else 0
            codes[:, j] = [places.get(cell, other) for cell in frame[name]]
    return Coded(codes, positions)


def frame_of(rows: Coded, schema: vf.Schema) -> pd.DataFrame:
    """The frame of rows; numbers lie on the grids that the schema declares."""
    columns = {}
    for j, (name, column) in enumerate(schema.columns.items()):
        codes = rows.codes[:, j]
        if isinstance(column, vf.Numeric):
            columns[name] = _numbers(column, rows.positions[:, j], codes == 1)
        else:
            values = np.array([*_values(column), None], dtype=object)
            columns[name] = pd.Series(values[codes]).infer_objects()
    return pd.DataFrame(columns)


def _numbers(column: vf.Numeric, positions: np.ndarray, gap: np.ndarray) -> pd.Series:
    low, high = _range(column)
    values = low + np.clip(positions, 0, 1) * (high - low)
    if column.step is not None:
        values = np.clip(low + np.round((values - low) / column.step) * column.step, low, high)
        values = np.round(values, column.digits)
    made = pd.Series(values).mask(gap & column.nullable)
    return made.astype("Int64" if column.nullable else np.int64) if column.integer else made


def _range(column: vf.Numeric) -> tuple[float, float]:
    assert column.low is not None
    assert column.high is not None
    return float(column.low), float(column.high)


def _values(column: Any) -> Sequence[Any]:
    return (False, True) if isinstance(column, vf.Boolean) else column.values
