"""Maps made of public or released constants, which are never trained.

Units and declared bounds (`Affine`), whitening by released moments (`FixedLinear`), released marginals
(`PiecewiseLinear`) and reorderings of the coordinates (`Permutation`).
"""

import math
from collections.abc import Iterable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from veilflow._core import check
from veilflow.flows._covariance import cholesky
from veilflow.flows.bijection import AbstractBijection, Condition, Mapped, Scalar, Vector
from veilflow.nn.frozen import AbstractFrozen
from veilflow.nn.outer import contract


class Affine(AbstractBijection):
    """x = scale * z + shift, with public constants: units and declared bounds.

    The constants are static fields: the engine would train array leaves.
    """

    shift: tuple[float, ...] = eqx.field(static=True)
    scale: tuple[float, ...] = eqx.field(static=True)

    def __init__(self, *, shift: Iterable[float], scale: Iterable[float]):
        """Check the constants.

        Args:
            shift: Offsets, one public number per coordinate.
            scale: Factors, one positive public number per coordinate.

        Raises:
            ValueError: If the lengths differ or a constant is not a usable float32.
        """
        self.shift = tuple(float(value) for value in shift)
        self.scale = tuple(float(value) for value in scale)
        if len(self.shift) != len(self.scale) or not self.shift:
            raise ValueError(
                f"shift and scale must have one number per coordinate each, got {len(self.shift)} "
                f"and {len(self.scale)}."
            )
        tiny, huge = (float(limit) for limit in (np.finfo("f4").tiny, np.finfo("f4").max))
        for shift_i, scale_i in zip(self.shift, self.scale, strict=True):
            check.finite(shift=shift_i)
            check.positive(scale=scale_i)
            if not (tiny <= scale_i <= huge and abs(shift_i) <= huge):
                raise ValueError(
                    f"shift {shift_i} and scale {scale_i} do not fit float32. Declare the column "
                    "in other units, so that its numbers are of ordinary size."
                )

    @classmethod
    def from_bounds(cls, low: Iterable[float], high: Iterable[float]) -> "Affine":
        """The map that takes [-1, 1] to [low, high] in every coordinate.

        Args:
            low: Declared public lower bounds.
            high: Declared public upper bounds, each above its lower bound.

        Returns:
            The map.

        Raises:
            ValueError: If the lengths differ, a bound is not finite or an interval is empty.
        """
        low, high = tuple(map(float, low)), tuple(map(float, high))
        if len(low) != len(high):
            raise ValueError(f"low has {len(low)} bounds, high has {len(high)}. Give one each.")
        for low_i, high_i in zip(low, high, strict=True):
            check.finite(low=low_i, high=high_i)
            if not low_i < high_i:
                raise ValueError(f"low must be below high, got {low_i} and {high_i}.")
        pairs = list(zip(low, high, strict=True))
        # halved first: the sum of two large bounds can overflow
        return cls(shift=(a / 2 + b / 2 for a, b in pairs), scale=(b / 2 - a / 2 for a, b in pairs))

    @property
    def dim(self) -> int:
        """How many numbers an example has."""
        return len(self.shift)

    def forward_and_log_det(self, z: Vector, condition: Condition = None) -> Mapped:
        """Base to data: x = scale * z + shift."""
        return z * self._array(self.scale, z) + self._array(self.shift, z), -self.public_log_det()

    def inverse_and_private_log_det(self, x: Vector, condition: Condition = None) -> Mapped:
        """Data to base; no term of the log-determinant depends on the record."""
        return (x - self._array(self.shift, x)) / self._array(self.scale, x), jnp.zeros(())

    def public_log_det(self) -> Scalar:
        """Minus the sum of the log-scales, a constant."""
        return jnp.asarray(-math.fsum(math.log(scale) for scale in self.scale))

    @staticmethod
    def _array(constants: tuple[float, ...], like: Array) -> np.ndarray:
        return np.asarray(constants, like.dtype)


class FixedLinear(AbstractBijection, AbstractFrozen):
    """x = L z + shift, with L lower triangular; the constants are public or released.

    Moments of records are not public: release them through a mechanism first. The constants are
    array leaves of a frozen module, so that maps of one size share compiled code.
    """

    shift: Float[Array, " dim"]
    factor: Float[Array, "dim dim"]
    log_det: Float[Array, ""]
    """Log-determinant of the rounded L, summed in float64."""

    def __init__(self, *, factor: Any, shift: Any):
        """Check the constants.

        Args:
            factor: L, (dim, dim), zero above the diagonal, positive on it.
            shift: Offsets, one number per coordinate.

        Raises:
            ValueError: If shapes differ, L is not such a matrix, or a number does not fit float32.
        """
        factor, shift = np.asarray(factor, np.float64), np.asarray(shift, np.float64)
        if shift.ndim != 1 or not shift.size or factor.shape != (shift.size, shift.size):
            raise ValueError(
                "shift must have one number per coordinate and factor a row and a column for each, "
                f"got shapes {shift.shape} and {factor.shape}."
            )
        limits = np.finfo(np.float32)
        if not np.all(np.abs(np.append(factor, shift)) <= limits.max):  # nor is NaN below it
            raise ValueError("factor and shift must be finite and fit float32. Use other units.")
        if np.any(np.triu(factor, 1)):
            raise ValueError("factor must be lower triangular, got numbers above the diagonal.")
        if not np.all(np.diag(factor) >= limits.tiny):
            raise ValueError(
                "the diagonal of factor must be positive and fit float32, got "
                f"{np.diag(factor).min()} on it."
            )
        self.shift, self.factor = jnp.float32(shift), jnp.float32(factor)
        # of the rounded values, so that a map restored from its file gives the same number
        self.log_det = jnp.float32(np.log(np.diag(np.float64(np.float32(factor)))).sum())

    @classmethod
    def from_moments(cls, mean: Any, covariance: Any) -> "FixedLinear":
        """The map that takes a standard normal to one of this mean and covariance.

        Args:
            mean: Declared or released mean, one number per coordinate.
            covariance: Declared or released covariance, symmetric and positive definite.

        Returns:
            The map; data to base, it whitens.

        Raises:
            ValueError: If shapes differ or the covariance is not symmetric positive definite.
        """
        return cls(factor=cholesky(covariance), shift=mean)

    def restored(self) -> "FixedLinear":
        """The map of these arrays, checked: for arrays that come from a file."""
        return FixedLinear(factor=self.factor, shift=self.shift)

    @property
    def dim(self) -> int:
        """How many numbers an example has."""
        return self.shift.shape[-1]

    def forward_and_log_det(self, z: Vector, condition: Condition = None) -> Mapped:
        """Base to data: x = L z + shift."""
        x = contract("ij,j->i", self.factor, z)  # in full float32, also on accelerators
        return x + self.shift, self.log_det

    def inverse_and_private_log_det(self, x: Vector, condition: Condition = None) -> Mapped:
        """Data to base, by a triangular solve; no term of the log-determinant depends on the record."""
        return solve_triangular(self.factor, x - self.shift, lower=True), jnp.zeros(())

    def public_log_det(self) -> Scalar:
        """Minus the sum of the logs of L's diagonal, a constant."""
        return -self.log_det


_ROUNDING = 1e-6
"""Relative error that float32 may leave between a difference of values and its slope."""


class PiecewiseLinear(AbstractBijection, AbstractFrozen):
    """Data to base: straight lines between knots that are evenly spaced on [-border, border].

    The first and the last line continue beyond the knots, so that every row has an image.
    """

    border: float = eqx.field(static=True)
    values: Float[Array, "dim knots"]
    """Images of the knots."""
    slopes: Float[Array, "dim pieces"]
    """Kept besides the values: differences of close float32 numbers would lose digits."""

    @classmethod
    def create(cls, values: Float[np.ndarray, "dim knots"], *, border: float) -> "PiecewiseLinear":
        """From the images of at least two knots in each coordinate, strictly increasing."""
        values = np.asarray(values, np.float64)
        if values.ndim != 2 or values.shape[1] < 2 or not np.all(np.diff(values, axis=1) > 0):
            raise ValueError("values must hold two or more increasing numbers for each coordinate.")
        width = 2 * border / (values.shape[1] - 1)
        return cls(float(border), jnp.float32(values), jnp.float32(np.diff(values, axis=1) / width))

    def restored(self) -> "PiecewiseLinear":
        """This map, if its values agree with its slopes: for arrays that come from a file."""
        values, slopes = np.asarray(self.values, np.float64), np.asarray(self.slopes, np.float64)
        steps, width = np.diff(values, axis=1), 2 * self.border / slopes.shape[1]
        error = np.abs(steps - slopes * width)
        if not (np.all(steps >= 0) and np.all(slopes > 0)):
            raise ValueError("values must increase and slopes must be positive.")
        if not np.all(error <= _ROUNDING * np.abs(values).max(axis=1, keepdims=True)):
            raise ValueError("values must increase from knot to knot as the slopes say.")
        return self

    @property
    def dim(self) -> int:
        """How many numbers an example has."""
        return self.values.shape[0]

    def forward_and_log_det(self, z: Vector, condition: Condition = None) -> Mapped:
        """Base to data."""
        inner = self.values[:, 1:-1]
        piece = jax.vmap(lambda knots, z_i: jnp.searchsorted(knots, z_i, side="right"))(inner, z)
        value, slope, corner = self._line(piece)
        return corner + (z - value) / slope, -jnp.sum(jnp.log(slope))

    def inverse_and_private_log_det(self, x: Vector, condition: Condition = None) -> Mapped:
        """Data to base; which slope applies depends on the record."""
        pieces = self.slopes.shape[1]
        piece = jnp.floor((x / self.border + 1) * (pieces / 2))
        value, slope, corner = self._line(jnp.clip(piece, 0, pieces - 1).astype(jnp.int32))
        return value + (x - corner) * slope, jnp.sum(jnp.log(slope))

    def _line(self, piece: Array) -> tuple[Array, Array, Array]:
        """Value at the left knot, slope, and the left knot itself."""
        at = (jnp.arange(self.dim), piece)
        corner = self.border * (2 * piece.astype(self.values.dtype) / self.slopes.shape[1] - 1)
        return self.values[at], self.slopes[at], corner


class Permutation(AbstractBijection):
    """x[i] = z[order[i]]; the order is a public constant."""

    order: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, order: Iterable[int]):
        """Check the order.

        Args:
            order: Each of 0..dim-1 once.

        Raises:
            ValueError: If it is not that.
        """
        self.order = tuple(int(i) for i in order)
        if not self.order or sorted(self.order) != list(range(len(self.order))):
            raise ValueError(f"order must hold each of 0..dim-1 once, got {self.order}.")

    @property
    def dim(self) -> int:
        """How many numbers an example has."""
        return len(self.order)

    def forward_and_log_det(self, z: Vector, condition: Condition = None) -> Mapped:
        """Base to data; volumes do not change."""
        return z[np.asarray(self.order)], jnp.zeros(())

    def inverse_and_private_log_det(self, x: Vector, condition: Condition = None) -> Mapped:
        """Data to base; volumes do not change."""
        return x[np.argsort(self.order)], jnp.zeros(())


def reverse(dim: int) -> Permutation:
    """The permutation that reverses the order of the coordinates."""
    check.count(dim=dim)
    return Permutation(range(dim - 1, -1, -1))
