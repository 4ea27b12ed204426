"""A fixed elementwise affine map: units, declared bounds and other public facts."""

import math
from collections.abc import Iterable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from veilflow._core import check
from veilflow.flows.bijection import AbstractBijection, Condition


class Affine(AbstractBijection):
    """x = scale * z + shift, with constants that are public and never trained.

    The constants are static fields: as array leaves they would be parameters to the engine.
    """

    shift: tuple[float, ...] = eqx.field(static=True)
    scale: tuple[float, ...] = eqx.field(static=True)

    def __init__(self, *, shift: Iterable[float], scale: Iterable[float]):
        """Check the constants.

        Args:
            shift: What is added, one public number a coordinate.
            scale: What is multiplied with, one public positive number a coordinate.

        Raises:
            ValueError: If the lengths differ or a constant is not a usable float32.
        """
        self.shift = tuple(float(value) for value in shift)
        self.scale = tuple(float(value) for value in scale)
        if len(self.shift) != len(self.scale) or not self.shift:
            raise ValueError(
                f"shift and scale must have one number a coordinate each, got {len(self.shift)} "
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

    def forward_and_log_det(
        self, z: Float[Array, " dim"], condition: Condition = None
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """Base to data: x = scale * z + shift."""
        return z * self._array(self.scale, z) + self._array(self.shift, z), -self.public_log_det()

    def inverse_and_private_log_det(
        self, x: Float[Array, " dim"], condition: Condition = None
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """Data to base; no term of the log-determinant looks at the record."""
        return (x - self._array(self.shift, x)) / self._array(self.scale, x), jnp.zeros(())

    def public_log_det(self) -> Float[Array, ""]:
        """Minus the sum of the log-scales, a constant."""
        return jnp.asarray(-math.fsum(math.log(scale) for scale in self.scale))

    @staticmethod
    def _array(constants: tuple[float, ...], like: Array) -> np.ndarray:
        return np.asarray(constants, like.dtype)
