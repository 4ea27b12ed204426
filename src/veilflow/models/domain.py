"""The domain of rows: a declared box or ball, and the public map from it to flow coordinates.

Everything here depends on declared facts alone. Rows outside are moved to the border, which is part of
the model's definition and costs nothing; how many there were is private.
"""

import numbers
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from veilflow._core import check
from veilflow._core.codec import Tagged
from veilflow._core.fields import positive

Rows = Float[np.ndarray, "rows dim"]

_BORDER = 3**0.5
"""The flow coordinate of the border: rows spread uniformly over a box then have unit variance."""
_SMALLEST = 1e-300
"""Below this, a scale is close to the subnormal numbers and loses precision."""


class Domain(Tagged, ABC):
    """A set of allowed rows and its scaling. Arithmetic is in double precision on the host."""

    fact: ClassVar[str]
    """The declared fact, as an assumption names it."""

    @property
    @abstractmethod
    def scale(self) -> Float[np.ndarray, "#dim"]:
        """Data units per flow coordinate."""

    @property
    @abstractmethod
    def center(self) -> Float[np.ndarray, "#dim"]:
        """The row at flow coordinate zero."""

    @property
    def border(self) -> float:
        """The largest flow coordinate of an allowed row."""
        return _BORDER

    @property
    @abstractmethod
    def lowest(self) -> Float[np.ndarray, "#dim"]:
        """The replacement of a cell that is not a number, where such cells are replaced."""

    @abstractmethod
    def radius(self, dim: int) -> float:
        """The largest norm of an allowed row of `dim` numbers, in flow coordinates."""

    def spread(self, dim: int) -> float:
        """The deviation of each coordinate of rows spread evenly over the ball around the domain."""
        return self.radius(dim) / (dim + 2) ** 0.5

    @abstractmethod
    def clamp(self, rows: Rows) -> Rows:
        """Move each row to the nearest allowed one (for a ball: shrink it)."""

    def finite(self, rows: Rows) -> Rows:
        """Replace every cell that is not a finite number, by declared facts alone.

        A cell that is not a number becomes `lowest`. An infinite cell becomes the largest double of its
        sign, which lies outside of the domain as it did before.
        """
        return np.nan_to_num(np.where(np.isnan(rows), self.lowest, rows))

    def check_dim(self, dim: int) -> None:
        """Raise unless rows of `dim` numbers fit."""
        declared = max(self.scale.size, self.center.size)
        if declared not in (1, dim):
            raise ValueError(f"bounds are declared for {declared} columns, the rows have {dim}.")

    def encode(self, rows: Rows) -> Rows:
        """Flow coordinates of rows, wherever they lie."""
        with np.errstate(over="ignore"):  # rows to be scored may lie anywhere
            return (rows - self.center) / self.scale

    def decode(self, coordinates: Rows) -> Rows:
        """Rows at flow coordinates."""
        with np.errstate(over="ignore"):  # infinity is outside as well
            return coordinates * self.scale + self.center

    def log_scale(self, dim: int) -> float:
        """The logarithm of the volume of a unit cube of flow coordinates, in data units."""
        return float(np.sum(np.log(np.broadcast_to(self.scale, (dim,)))))

    def outside(self, rows: Rows) -> np.ndarray:
        """Which rows `clamp` would move; as private as the rows."""
        return np.any(self.clamp(rows) != rows, axis=1)


@dataclass(frozen=True)
class Box(Domain):
    """Rows between `low` and `high`, column by column."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    fact: ClassVar[str] = "bounds"

    def __post_init__(self) -> None:
        low, high = np.array(self.low, np.float64), np.array(self.high, np.float64)
        if low.shape != high.shape:
            raise ValueError("bounds must have as many lower ends as upper ones.")
        finite = np.isfinite(low).all() and np.isfinite(high).all()
        if low.ndim != 1 or low.size == 0 or not finite:
            raise ValueError("bounds must be finite numbers, one pair per column.")
        bad = np.flatnonzero(~(low < high))
        if bad.size:
            raise ValueError(
                f"bounds must rise, got low={low[bad[0]]:g} and high={high[bad[0]]:g} for column "
                f"{bad[0]}. A column known to be constant carries no information: leave it out."
            )
        with np.errstate(over="ignore"):
            width = high - low
        if not np.isfinite(width).all():
            raise ValueError("bounds are too far apart for double precision.")
        if not (width > _SMALLEST).all():
            raise ValueError("bounds are too close together for double precision.")

    @classmethod
    def declared(cls, bounds: Any) -> "Box":
        """A box from `(low, high)`: two numbers for all columns, or two sequences of one per column."""
        try:
            low, high = bounds
            low, high = np.broadcast_arrays(_ends(low), _ends(high))
            if low.ndim != 1:
                raise ValueError("neither a number nor a list")
        except (OverflowError, TypeError, ValueError) as error:
            raise ValueError(
                "bounds must be (low, high), each a number or one number per column, for example "
                "bounds=(0, 1) or bounds=([0, 18], [1, 99])."
            ) from error
        return cls(tuple(low.tolist()), tuple(high.tolist()))

    @property
    def scale(self) -> np.ndarray:
        return (np.array(self.high) - np.array(self.low)) / (2 * _BORDER)

    @property
    def center(self) -> np.ndarray:
        return np.array(self.low) / 2 + np.array(self.high) / 2

    @property
    def lowest(self) -> np.ndarray:
        return np.array(self.low)

    def radius(self, dim: int) -> float:
        return _BORDER * dim**0.5

    def clamp(self, rows: Rows) -> Rows:
        return np.clip(rows, self.low, self.high)


@dataclass(frozen=True)
class Ball(Domain):
    """Rows of Euclidean norm at most `row_norm`, all columns on one scale."""

    row_norm: float
    fact: ClassVar[str] = "the largest norm of a row"

    def __post_init__(self) -> None:
        check.positive(row_norm=self.row_norm)
        if self.row_norm <= _SMALLEST:
            raise ValueError(f"row_norm must be above {_SMALLEST:g}, got {self.row_norm}.")

    @property
    def scale(self) -> np.ndarray:
        return np.array([self.row_norm / _BORDER])

    @property
    def center(self) -> np.ndarray:
        return np.zeros(1)

    @property
    def lowest(self) -> np.ndarray:
        return np.zeros(1)  # the center: a ball has no lowest row

    def radius(self, dim: int) -> float:
        return _BORDER

    def clamp(self, rows: Rows) -> Rows:
        rows = np.nan_to_num(rows)  # infinities become the largest numbers there are
        largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
        # no square and no product overflows: the largest entry of a shrunk row is 1
        shrunk = rows / np.where(largest > 0, largest, 1.0)
        room = self.row_norm / np.maximum(np.linalg.norm(shrunk, axis=1, keepdims=True), 1.0)
        return np.where(largest > room, shrunk * room, rows)


def declared(*, bounds: Any, row_norm: float | None) -> Domain:
    """The domain that exactly one of `bounds` and `row_norm` declares."""
    if (bounds is None) == (row_norm is None):
        given = "neither" if bounds is None else "both"
        raise ValueError(
            f"declare bounds=(low, high) or row_norm=..., got {given}. They come from knowledge of "
            "the domain and are never read from the rows."
        )
    if row_norm is None:
        return Box.declared(bounds)
    return Ball(positive("row_norm", row_norm))


def plain_bounds(name: str, bounds: Any) -> tuple[Any, Any]:
    """A rule for fields: bounds as two numbers, or as two tuples with a number for each column."""
    box = Box.declared(bounds)
    return (box.low[0], box.high[0]) if len(box.low) == 1 else (box.low, box.high)


def _ends(values: Any) -> np.ndarray:
    """Lower or upper ends in double precision; texts and booleans are refused."""
    listed = np.asarray(values, object)
    if not all(isinstance(x, numbers.Real) and not isinstance(x, bool) for x in listed.flat):
        raise TypeError("not numbers")
    return np.atleast_1d(listed.astype(np.float64))
