"""Numbers and moments to positions in [0, 1) of their declared range, and back."""

import numpy as np
from jaxtyping import Float, Int64, Shaped

from veilflow.tabular.columns import Column, Datetime, Numeric
from veilflow.tabular.facts import EPOCH

_MOST_DIGITS = 15  # what double precision always has

_MICROSECONDS = np.timedelta64(1, "us")


def to_positions(column: Column, values: Shaped[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Positions of numbers, or of microseconds since 1970; what is out of range is moved into it.

    On a grid of N values the k-th, counted from 0, lies at (k + 1/2) / N.
    """
    if isinstance(column, Datetime):
        start, step = _microseconds(column)
        cells = (values.astype(np.int64) - start) // step
    else:
        low, high = _bounds(column)
        values = np.clip(np.nan_to_num(values, nan=low, posinf=high, neginf=low), low, high)
        if column.num_cells is None:
            return (values - low) / (high - low)
        cells = np.floor((values - low) / _step(column) + 0.5)
    num_cells = _num_cells(column)
    return (np.clip(cells, 0, num_cells - 1) + 0.5) / num_cells


def from_positions(column: Column, positions: Float[np.ndarray, " n"]) -> Shaped[np.ndarray, " n"]:
    """The value at each position: whole numbers, reals, or microseconds since 1970.

    Always within the declared range, whatever the positions.
    """
    positions = positions.astype(np.float64)
    if np.isnan(positions).any():
        raise ValueError("positions must be numbers, got NaN.")
    if column.num_cells is None:
        low, high = _bounds(column)
        values = np.clip(low + np.clip(positions, 0, 1) * (high - low), low, high)
        return _snapped(values, low, high)
    cells = _cells(column, positions)
    if isinstance(column, Datetime):
        start, step = _microseconds(column)
        return start + cells * step
    assert isinstance(column, Numeric)
    low, high = _bounds(column)
    if column.integer:
        return int(low) + cells * int(_step(column))
    values = low + cells * _step(column)
    if column.digits <= _MOST_DIGITS:
        values = np.round(values, column.digits)
    return np.clip(values, low, high)


def _snapped(values: Float[np.ndarray, " n"], low: float, high: float) -> Float[np.ndarray, " n"]:
    """Numbers with the ends of their range and zero as they are, which rounding may have missed."""
    near = min(4 * np.spacing(max(abs(low), abs(high))), 1e-9 * (high - low))
    for exact in (low, high, *([0.0] if low < 0 < high else [])):
        values = np.where(np.abs(values - exact) <= near, exact, values)
    return values


def below_one(
    positions: Float[np.ndarray, " n"], dtype: type[np.float32] | type[np.float64]
) -> Float[np.ndarray, " n"]:
    """Positions in another precision, still below 1."""
    return np.minimum(positions.astype(dtype), np.nextafter(dtype(1), dtype(0)))


def _cells(column: Column, positions: Float[np.ndarray, " n"]) -> Int64[np.ndarray, " n"]:
    num_cells = _num_cells(column)
    # clipped first: infinity has no integer
    return np.floor(np.clip(positions * num_cells, 0, num_cells - 1)).astype(np.int64)


def _num_cells(column: Column) -> int:
    assert column.num_cells is not None
    return column.num_cells


def _bounds(column: Column) -> tuple[float, float]:
    assert isinstance(column, Numeric)
    if column.low is None or column.high is None:
        raise ValueError("the column has no bounds.")
    return column.low, column.high


def _step(column: Column) -> float:
    assert isinstance(column, Numeric)
    assert column.step is not None
    return column.step


def _microseconds(column: Datetime) -> tuple[int, int]:
    """Start and step, since 1970."""
    start = np.datetime64(column.start, "us") - np.datetime64(EPOCH, "us")
    return int(start // _MICROSECONDS), int(column.step.total_seconds()) * 1_000_000
