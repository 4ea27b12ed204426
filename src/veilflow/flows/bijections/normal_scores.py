"""Points of rows as normal scores, by fixed shares of codes."""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr, ndtri
from jax.scipy.stats import norm
from jaxtyping import Array, Float

from veilflow.flows.bijection import AbstractBijection, Condition, Mapped, Vector
from veilflow.nn.frozen import AbstractFrozen

_EDGE = 1e-4
"""Share of the normal distribution beyond each end of a coordinate: scores stay within 3.72."""


class NormalScores(AbstractBijection, AbstractFrozen):
    """Data to base: the normal score of the share of mass below a point.

    Coordinate i is cut into units of length 1, each of which has a share of the mass. If the shares are
    those of the data, and points are spread evenly over their unit, each coordinate of the image is
    close to a standard normal. The first and the last unit continue beyond the ends.

    The shares are public or released. They are array leaves of a frozen module, so that maps of one
    size share compiled code.
    """

    up_to: Float[Array, "dim units+1"]
    """The share below each unit and below the end; 1 beyond the last unit of a coordinate."""
    shares: Float[Array, "dim units"]
    """Kept besides their sums, whose differences would lose digits; 1 beyond the last unit."""

    @classmethod
    def create(cls, shares: Sequence[Float[np.ndarray, " units"]]) -> "NormalScores":
        """From the share of each unit of each coordinate.

        Raises:
            ValueError: If a coordinate has no unit, or a share is not positive.
        """
        most = max((len(one) for one in shares), default=0)
        up_to, own = np.ones((len(shares), most + 1)), np.ones((len(shares), most))
        for i, one in enumerate(shares):
            one = np.asarray(one, np.float64)
            if one.ndim != 1 or not len(one) or not (one > 0).all() or not np.isfinite(one).all():
                raise ValueError(f"shares must be positive numbers, got {one} for coordinate {i}.")
            own[i, : len(one)] = one / one.sum()
            up_to[i, : len(one)] = np.concatenate([[0.0], np.cumsum(own[i, : len(one)])[:-1]])
        return cls(jnp.float32(up_to), jnp.float32(own))

    @property
    def dim(self) -> int:
        """How many numbers an example has."""
        return self.shares.shape[0]

    def forward_and_log_det(self, z: Vector, condition: Condition = None) -> Mapped:
        """Base to data."""
        rank = (ndtr(z) - _EDGE) / (1 - 2 * _EDGE)
        past = rank[:, None] >= self.up_to[:, 1:-1]
        unit = jnp.sum(past & (self.up_to[:, 1:-1] < 1), axis=1)
        at = (jnp.arange(self.dim), unit)
        x = unit + (rank - self.up_to[at]) / self.shares[at]
        return x, -self._log_slope(z, self.shares[at])

    def inverse_and_private_log_det(self, x: Vector, condition: Condition = None) -> Mapped:
        """Data to base; which share applies depends on the record."""
        last = jnp.sum(self.up_to[:, 1:-1] < 1, axis=1)
        unit = jnp.clip(jnp.floor(x).astype(jnp.int32), 0, last)
        at = (jnp.arange(self.dim), unit)
        rank = self.up_to[at] + (x - unit) * self.shares[at]
        # a point beyond the ends has no score: it gets that of the end of the base's range
        z = ndtri(jnp.clip(_EDGE + (1 - 2 * _EDGE) * rank, 1e-7, 1 - 1e-7))
        return z, self._log_slope(z, self.shares[at])

    @staticmethod
    def _log_slope(z: Vector, shares: Array) -> Array:
        """Log-determinant of data to base."""
        return jnp.sum(jnp.log(shares) + np.log1p(-2 * _EDGE) - norm.logpdf(z))
