"""The radial map: every point moves along its ray, and one spline says how far.

The spline acts on the logarithm of the distance from the origin, in units of the spread that it has
under a standard normal. Few numbers describe what a mixture of normals most often gets wrong: a core
that is too flat and tails that are too thin.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp

from veilflow._core import check
from veilflow.flows.bijection import AbstractBijection, Condition, Mapped, Vector, refuse_taps
from veilflow.flows.scalar_maps.simple import AbstractScalarMap
from veilflow.flows.scalar_maps.spline import SplineMap
from veilflow.nn.elementwise import Shift

_REACH = 8.0
"""Half of the box of the spline, in deviations of the log-distance: beyond it nothing moves."""


class Radial(AbstractBijection):
    """`z = x exp(s(t) - t)` for `t` the log-distance of `x` and `s` an increasing map.

    The log-determinant is `log s'(t) + dim (s(t) - t)`: one direction is stretched by the map and its
    slope together, the others by the map alone.
    """

    params: Shift
    scalar_map: AbstractScalarMap
    size: int = eqx.field(static=True)

    @classmethod
    def create(cls, dim: int, *, num_bins: int = 16) -> "Radial":
        """The identity, to be trained.

        Args:
            dim: How many numbers an example has.
            num_bins: The number of bins of the spline.
        """
        check.count(dim=dim)
        scalar_map = SplineMap(num_bins=num_bins, bound=_REACH)
        return cls(Shift(shift=jnp.zeros(scalar_map.num_params)), scalar_map, dim)

    @property
    def dim(self) -> int:
        """How many numbers an example has."""
        return self.size

    def forward_and_log_det(self, z: Vector, condition: Condition = None) -> Mapped:
        """Base to data."""
        refuse_taps(self)
        distance, spread = self._distance(z)
        moved, log_slope = self.scalar_map.forward_and_log_det(distance, self._params())
        return _along_ray(z, (moved - distance) * spread, log_slope)

    def inverse_and_private_log_det(self, x: Vector, condition: Condition = None) -> Mapped:
        """Data to base."""
        distance, spread = self._distance(x)
        moved, log_slope = self.scalar_map.inverse_and_log_det(distance, self._params())
        return _along_ray(x, (moved - distance) * spread, log_slope)

    def _distance(self, point: Vector) -> tuple[jax.Array, float]:
        """The log-distance, centered and scaled as under a standard normal, and its scale there."""
        spread = 1 / math.sqrt(2 * self.size)
        square = jnp.sum(jnp.square(point), keepdims=True) / self.size
        # at the origin the logarithm has no gradient; far below the box nothing moves
        square = jnp.maximum(square, jnp.finfo(square.dtype).tiny)
        return 0.5 * jnp.log(square) / spread, spread

    def _params(self) -> jax.Array:
        return self.params(jnp.zeros_like(self.params.shift))[:, None]


def _along_ray(point: Vector, log_factor: jax.Array, log_slope: jax.Array) -> Mapped:
    moved = point * jnp.exp(log_factor)
    return moved, jnp.sum(log_slope) + point.shape[-1] * jnp.sum(log_factor)
