"""Public cells of a numeric column: where its histogram is divided, from its declaration alone.

A column with few values has one cell for each. One with many values has cells that grow with the
distance from zero, so that amounts over nine orders of magnitude are resolved as well as amounts over
two. Dates, which have no zero, have cells of one width. Zero and the two bounds have cells of their
own, because values accumulate there: a gain that most people do not have, an age that was capped.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from veilflow.tabular.columns import Column, Datetime, Numeric

_FEW = 4096
"""A column with at most this many values has a cell for each."""
_GROWTH = 0.005
"""Width of a cell relative to its distance from zero."""
_FINEST = 2**20
"""Resolution of a column that has no grid."""


@dataclass(frozen=True)
class ColumnCells:
    """Cells of the positions from 0 to 1."""

    edges: Float[np.ndarray, " cells+1"]
    """Increasing positions; cell i is the interval from edge i to edge i + 1."""
    points: Float[np.ndarray, " cells"]
    """The position of the single value of a cell, in a column without a grid; NaN otherwise."""
    log_size: Float[np.ndarray, " cells"]
    """Log of the number of values in each cell, or of its width in units of the data."""
    steps: int | None = None
    """Number of values on the grid of the column, if it has one."""

    @property
    def num(self) -> int:
        """Number of cells."""
        return len(self.points)

    def of(self, positions: Float[np.ndarray, " rows"]) -> Int[np.ndarray, " rows"]:
        """The cell of each position."""
        return np.clip(np.searchsorted(self.edges, positions, side="right") - 1, 0, self.num - 1)

    def draw(
        self, cells: Int[np.ndarray, " rows"], uniform: Float[np.ndarray, " rows"]
    ) -> Float[np.ndarray, " rows"]:
        """A uniform position in each of `cells`; a single value keeps its position."""
        low, high = self.edges[cells], self.edges[cells + 1]
        if self.steps is not None:  # the middle of a value, which rounding does not move to another
            first, end = np.rint(low * self.steps), np.rint(high * self.steps)
            value = np.minimum(first + np.floor(uniform * (end - first)), end - 1)
            return (value + 0.5) / self.steps
        spread = np.minimum(low + uniform * (high - low), np.nextafter(high, 0))
        return np.where(np.isnan(self.points[cells]), spread, self.points[cells])


def cells_of(column: Column) -> ColumnCells:
    """The cells of a column with positions."""
    if isinstance(column, Datetime):
        steps = column.num_cells
        borders = np.unique(np.linspace(0, steps, min(steps, _FEW) + 1).round().astype(np.int64))
        return _on_grid(borders, steps)
    if not isinstance(column, Numeric) or column.low is None or column.high is None:
        raise TypeError(f"{type(column).__name__} has no positions, or no bounds.")
    low, high = column.low, column.high
    if column.num_cells is not None and column.step is not None:
        steps = column.num_cells
        nearest = min(max(0, low), high)  # to zero
        return _on_grid(
            _borders(steps, min(round((nearest - low) / column.step), steps - 1)), steps
        )
    return _of_reals(low, high)


def most_cells(column: Column) -> int:
    """The most cells that a column has with these bounds, or with any narrower ones.

    Cells grow with the distance from zero, so the widest range has the most of them; few values have
    a cell each. The ends of a range add a few.
    """
    return max(cells_of(column).num, _FEW) + 8


def is_real(column: Column) -> bool:
    """Whether a column holds numbers without a grid."""
    return isinstance(column, Numeric) and column.num_cells is None


def _on_grid(borders: Int[np.ndarray, " borders"], steps: int) -> ColumnCells:
    return ColumnCells(
        edges=borders / steps,
        points=np.full(len(borders) - 1, np.nan),
        log_size=np.log(np.diff(borders).astype(np.float64)),
        steps=steps,
    )


def _of_reals(low: float, high: float) -> ColumnCells:
    """Cells of a column without a grid; zero and the bounds are points."""
    width = high - low
    zero = (min(max(0.0, low), high) - low) / width
    borders = _borders(_FINEST, min(int(zero * _FINEST), _FINEST - 1)) / _FINEST
    # positions may be in single precision: the cell of a value includes what it is rounded to
    last = float(np.nextafter(np.float32(1), np.float32(0)))
    points_at = [(0.0, math.nextafter(0, 1), 0.0), (last, 1.0, math.nextafter(1, 0))]
    rounded = float(np.float32(zero))
    if min(zero, rounded) > 0 and max(zero, rounded) < last:
        end = math.nextafter(max(zero, rounded), 1)
        points_at.append((min(zero, rounded), end, zero))
    for start, end, _ in points_at:
        borders = borders[(borders <= start) | (borders >= end)]
    edges = np.unique(np.concatenate([borders, *([start, end] for start, end, _ in points_at)]))
    points = np.full(len(edges) - 1, np.nan)
    for start, _, at in points_at:
        points[np.searchsorted(edges, start)] = at
    size = np.log(np.maximum(np.diff(edges), 1e-300) * width)
    return ColumnCells(edges, points, np.where(np.isnan(points), size, 0.0))


def _borders(steps: int, zero: int) -> Int[np.ndarray, " borders"]:
    """Borders between cells of `steps` values, finest around `zero`."""
    if steps <= _FEW:
        return np.arange(steps + 1)
    ends: list[np.ndarray] = []
    for reach in (zero, steps - zero):
        at = 1
        out: list[int] = []
        while at < reach:
            out.append(at)
            at += max(1, int(_GROWTH * at))
        ends.append(np.array(out, np.int64))
    below, above = zero + 1 - ends[0], zero + ends[1]
    return np.unique(np.concatenate([[0, 1, zero, steps - 1, steps], below, above]))
