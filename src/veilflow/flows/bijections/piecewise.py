"""A fixed, increasing, piecewise linear map of every coordinate: a released marginal, for one."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from veilflow.flows.bijection import AbstractBijection, Condition
from veilflow.nn.frozen import AbstractFrozen

_ROUNDING = 1e-6
"""What float32 may leave between two values and the slope between them, over the largest value."""


class PiecewiseLinear(AbstractBijection, AbstractFrozen):
    """Data to base: straight lines between knots, evenly spaced on [-border, border]; never trained.

    Beyond the knots the first and the last line go on, so that every row has an image.
    """

    border: float = eqx.field(static=True)
    values: Float[Array, "dim knots"]
    """Where the knots go."""
    slopes: Float[Array, "dim pieces"]
    """Kept beside the values: differences of close float32 numbers would lose them."""

    @classmethod
    def create(cls, values: Float[np.ndarray, "dim knots"], *, border: float) -> "PiecewiseLinear":
        """From the images of at least two knots in each coordinate, strictly rising."""
        values = np.asarray(values, np.float64)
        if values.ndim != 2 or values.shape[1] < 2 or not np.all(np.diff(values, axis=1) > 0):
            raise ValueError("values must hold two or more rising numbers for each coordinate.")
        width = 2 * border / (values.shape[1] - 1)
        return cls(float(border), jnp.float32(values), jnp.float32(np.diff(values, axis=1) / width))

    def restored(self) -> "PiecewiseLinear":
        """This map, if values rise by what slopes say: for arrays that come from a file."""
        values, slopes = np.asarray(self.values, np.float64), np.asarray(self.slopes, np.float64)
        steps, width = np.diff(values, axis=1), 2 * self.border / slopes.shape[1]
        off = np.abs(steps - slopes * width)
        if not (np.all(steps >= 0) and np.all(slopes > 0)):
            raise ValueError("values must rise and slopes be positive.")
        if not np.all(off <= _ROUNDING * np.abs(values).max(axis=1, keepdims=True)):
            raise ValueError("values must rise from knot to knot by what the slopes say.")
        return self

    @property
    def dim(self) -> int:
        """How many numbers an example has."""
        return self.values.shape[0]

    def forward_and_log_det(
        self, z: Float[Array, " dim"], condition: Condition = None
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """Base to data."""
        inner = self.values[:, 1:-1]
        piece = jax.vmap(lambda knots, z_i: jnp.searchsorted(knots, z_i, side="right"))(inner, z)
        value, slope, corner = self._line(piece)
        return corner + (z - value) / slope, -jnp.sum(jnp.log(slope))

    def inverse_and_private_log_det(
        self, x: Float[Array, " dim"], condition: Condition = None
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
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
