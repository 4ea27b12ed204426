"""Rows of many columns seen from two directions: principal axes, and a histogram along them.

Axes and histograms are computed without noise: they are as private as the rows they come from, and a
figure of private rows may not be published. Axes of public or synthetic rows cost nothing.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from reproductions.metrics.rows import Rows, tables


@dataclass(frozen=True)
class Projection:
    """A flat view of rows. As private as the rows whose axes these are.

    Attributes:
        center: The row at the origin of the view.
        axes: Orthonormal directions, the widest first.
    """

    center: Float[np.ndarray, " dim"]
    axes: Float[np.ndarray, "two dim"]

    def __call__(self, rows: Any) -> Rows:
        """The coordinates of rows along the axes. As private as the rows."""
        rows, _ = tables(rows=rows, axes=self.axes)
        return (rows - self.center) @ self.axes.T

    def histogram(self, rows: Any, *, low: Any, high: Any, bins: int = 100) -> np.ndarray:
        """Rows per unit of area on a grid, as a density: `[y, x]`, ready to draw, no single row.

        Args:
            rows: As private as they are is the result.
            low: Lowest coordinate of the view: a number, or one for x and y.
            high: Highest coordinate. Rows outside the view are not shown.
            bins: Cells in each direction.
        """
        low, high = (np.broadcast_to(np.float64(x), (2,)) for x in (low, high))
        seen = self(rows)
        counts, *_ = np.histogram2d(*seen.T, bins=bins, range=np.stack([low, high], axis=1))
        return counts.T / (len(seen) * np.prod((high - low) / bins))


def principal_axes(rows: Any) -> Projection:
    """The two directions in which rows spread most.

    Args:
        rows: At least two rows of at least two columns. The axes are as private as these: take public
            or synthetic rows for a figure that is to be published.
    """
    (rows,) = tables(min_columns=2, rows=rows)
    if len(rows) < 2:
        raise ValueError("rows must be at least two: one row has no direction.")
    center = rows.mean(axis=0)
    axes = np.linalg.svd(rows - center, full_matrices=False)[2][:2]
    if len(axes) < 2:
        raise ValueError("rows must be at least as many as two directions need.")
    # a principal axis has no sign of its own: the largest entry is made positive, so views agree
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], axis=1)
    return Projection(center, axes * np.where(largest < 0, -1.0, 1.0))
