"""Where rows live: a declared box or ball, and the public map from it to flow coordinates.

Everything here is a function of declared facts. Rows outside are moved to the border, which is part
of the model's definition and costs nothing; how many there were is private.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from veilflow._core import check

Rows = Float[np.ndarray, "rows dim"]

_BORDER = 3**0.5
"""Flow coordinate of the border: rows spread evenly over a box then have unit variance."""
_SMALLEST = 1e-300
"""Below this a scale nears the subnormal numbers and loses its digits."""


class Domain(ABC):
    """A set of allowed rows and its scaling. Arithmetic is in double precision, on the host."""

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
        """Largest flow coordinate of an allowed row."""
        return _BORDER

    @abstractmethod
    def radius(self, dim: int) -> float:
        """Largest length of an allowed row of `dim` numbers, in flow coordinates."""

    @abstractmethod
    def clamp(self, rows: Rows) -> Rows:
        """Each row moved to the nearest allowed one (for a ball: shrunk to it)."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """The declared facts as plain JSON values."""

    def check_dim(self, dim: int) -> None:
        """Raise unless rows of `dim` numbers fit."""
        declared = max(self.scale.size, self.center.size)
        if declared not in (1, dim):
            raise ValueError(f"bounds are declared for {declared} columns, the rows have {dim}.")

    def encode(self, rows: Rows) -> Rows:
        """Flow coordinates of rows, wherever they lie."""
        with np.errstate(over="ignore"):  # rows to be judged may lie anywhere
            return (rows - self.center) / self.scale

    def decode(self, coordinates: Rows) -> Rows:
        """Rows at flow coordinates."""
        with np.errstate(over="ignore"):  # beyond the largest double is outside all the same
            return coordinates * self.scale + self.center

    def log_scale(self, dim: int) -> float:
        """Log of the volume in data units of one unit cube of flow coordinates."""
        return float(np.sum(np.log(np.broadcast_to(self.scale, (dim,)))))

    def outside(self, rows: Rows) -> np.ndarray:
        """Which rows `clamp` would move; private."""
        return np.any(self.clamp(rows) != rows, axis=1)


@dataclass(frozen=True)
class Box(Domain):
    """Rows between `low` and `high`, column by column."""

    low: tuple[float, ...]
    high: tuple[float, ...]

    @classmethod
    def declared(cls, bounds: Any) -> "Box":
        """From `(low, high)`: two numbers for all columns, or two sequences, one entry a column."""
        try:
            low, high = bounds
            low, high = np.atleast_1d(np.float64(low)), np.atleast_1d(np.float64(high))
            low, high = np.broadcast_arrays(low, high)
        except (TypeError, ValueError) as error:
            raise ValueError(
                "bounds must be (low, high), each a number or one number per column, for example "
                "bounds=(0, 1) or bounds=([0, 18], [1, 99])."
            ) from error
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
        return cls(tuple(low.tolist()), tuple(high.tolist()))

    @property
    def scale(self) -> np.ndarray:
        return (np.array(self.high) - np.array(self.low)) / (2 * _BORDER)

    @property
    def center(self) -> np.ndarray:
        return np.array(self.low) / 2 + np.array(self.high) / 2

    def radius(self, dim: int) -> float:
        return _BORDER * dim**0.5

    def clamp(self, rows: Rows) -> Rows:
        return np.clip(rows, self.low, self.high)

    def to_json(self) -> dict[str, Any]:
        return {"kind": "box", "low": list(self.low), "high": list(self.high)}


@dataclass(frozen=True)
class Ball(Domain):
    """Rows of Euclidean norm at most `row_norm`, all columns on one scale."""

    row_norm: float

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

    def radius(self, dim: int) -> float:
        return _BORDER

    def clamp(self, rows: Rows) -> Rows:
        rows = np.nan_to_num(rows)  # infinities become the largest numbers there are
        largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
        # no square and no product overflows: the largest entry of a shrunk row is 1
        shrunk = rows / np.where(largest > 0, largest, 1.0)
        room = self.row_norm / np.maximum(np.linalg.norm(shrunk, axis=1, keepdims=True), 1.0)
        return np.where(largest > room, shrunk * room, rows)

    def to_json(self) -> dict[str, Any]:
        return {"kind": "ball", "row_norm": self.row_norm}


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
    check.positive(row_norm=row_norm)
    return Ball(float(row_norm))


def from_json(data: dict[str, Any]) -> Domain:
    """The domain written by `to_json`."""
    if data["kind"] == "ball":
        return Ball(float(data["row_norm"]))
    if data["kind"] == "box":
        return Box.declared((data["low"], data["high"]))
    raise ValueError(f"unknown kind of domain {str(data['kind'])[:40]!r}.")
