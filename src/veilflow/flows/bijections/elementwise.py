"""Maps of every coordinate by itself: sigmoid, logit and tanh, and a trained scalar map.

Log-determinants toward an interval are softplus forms, exact for every finite number. The way back
is limited by rounding: next to 1, float32 has steps of 6e-8. Points of the interval are therefore kept
at least half a step, `eps / 2`, away from its ends (6e-8 in float32, 1.1e-16 in float64), which keeps
the result finite; points at the ends or beyond are mapped as if they were just inside.

In float32 a number that goes through sigmoid and back is restored within 1e-3 if it is in [-16, 9], and
is never larger than 16.6; through tanh, within 1e-3 in [-5, 5], and never larger than 8.7.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from veilflow._core import check
from veilflow.flows.bijection import AbstractBijection, Condition, Mapped, Vector, refuse_taps
from veilflow.flows.scalar_maps.simple import AbstractScalarMap
from veilflow.nn.elementwise import Shift


class _Squash(AbstractBijection):
    """A map of `size` independent coordinates, without parameters."""

    size: int = eqx.field(static=True)

    def __check_init__(self):
        check.count(size=self.size)

    @property
    def dim(self) -> int:
        """How many numbers an example has."""
        return self.size


class Sigmoid(_Squash):
    """x = 1 / (1 + exp(-z)): from the line to (0, 1), for flows on the open unit box."""

    def forward_and_log_det(self, z: Vector, condition: Condition = None) -> Mapped:
        """Base to data."""
        return _sigmoid(z)

    def inverse_and_private_log_det(self, x: Vector, condition: Condition = None) -> Mapped:
        """Data to base; the whole log-determinant depends on the record."""
        return _logit(x)


class Logit(_Squash):
    """x = log(z / (1 - z)): from (0, 1) to the line. For bases on the unit box."""

    def forward_and_log_det(self, z: Vector, condition: Condition = None) -> Mapped:
        """Base to data."""
        return _logit(z)

    def inverse_and_private_log_det(self, x: Vector, condition: Condition = None) -> Mapped:
        """Data to base; the whole log-determinant depends on the record."""
        return _sigmoid(x)


class Tanh(_Squash):
    """x = tanh(z): from the line to (-1, 1)."""

    def forward_and_log_det(self, z: Vector, condition: Condition = None) -> Mapped:
        """Base to data."""
        # 1 / cosh(z)^2 = 4 sigmoid(2 z) sigmoid(-2 z)
        log_slope = 2 * math.log(2) - jax.nn.softplus(2 * z) - jax.nn.softplus(-2 * z)
        return jnp.tanh(z), jnp.sum(log_slope)

    def inverse_and_private_log_det(self, x: Vector, condition: Condition = None) -> Mapped:
        """Data to base; the whole log-determinant depends on the record."""
        edge = _edge(x)
        x = jnp.clip(x, edge - 1, 1 - edge)
        above, below = jnp.log1p(-x), jnp.log1p(x)
        return (below - above) / 2, -jnp.sum(above + below)


def _sigmoid(z: Array) -> tuple[Array, Array]:
    return jax.nn.sigmoid(z), -jnp.sum(jax.nn.softplus(z) + jax.nn.softplus(-z))


def _logit(x: Array) -> tuple[Array, Array]:
    edge = _edge(x)
    x = jnp.clip(x, edge, 1 - edge)
    below, above = jnp.log(x), jnp.log1p(-x)
    return below - above, -jnp.sum(below + above)


def _edge(x: Array) -> float:
    """The smallest step below 1."""
    return float(jnp.finfo(x.dtype).eps) / 2


class Elementwise(AbstractBijection):
    """Each coordinate goes through `scalar_map`, with trained parameters and no network.

    The parameters are the output of a shift of zeros. A record affects them only through that output,
    so the cotangent that the shift's tap sees is the record's gradient.
    """

    params: Shift
    """Parameter p of all coordinates, then parameter p + 1, as one vector."""
    scalar_map: AbstractScalarMap

    def __check_init__(self):
        size, num_params = self.params.shift.shape[-1], self.scalar_map.num_params
        if size == 0 or size % num_params:
            raise ValueError(
                f"params must hold {num_params} numbers per coordinate for "
                f"{type(self.scalar_map).__name__}, got {size} in all. Build it with "
                "Elementwise.create."
            )

    @classmethod
    def create(
        cls,
        dim: int,
        scalar_map: AbstractScalarMap,
        *,
        key: Key[Array, ""],
        spread: float = 0.01,
    ) -> "Elementwise":
        """A map close to the identity.

        Args:
            dim: How many numbers an example has.
            scalar_map: The map of each coordinate.
            key: Spent here, for the parameters.
            spread: Standard deviation of the parameters. They do not all start at zero, because
                parameters that a map treats alike (components of a mixture) would stay equal.

        Returns:
            The map.

        Raises:
            ValueError: If `dim` is below 1 or `spread` negative.
        """
        check.count(dim=dim)
        check.nonnegative(spread=spread)
        start = spread * jax.random.normal(key, (scalar_map.num_params * dim,))
        return cls(Shift(shift=start), scalar_map)

    @property
    def dim(self) -> int:
        """How many numbers an example has."""
        return self.params.shift.shape[-1] // self.scalar_map.num_params

    def forward_and_log_det(self, z: Vector, condition: Condition = None) -> Mapped:
        """Base to data."""
        refuse_taps(self)
        x, log_det = self.scalar_map.forward_and_log_det(z, self._params())
        return x, jnp.sum(log_det)

    def inverse_and_private_log_det(self, x: Vector, condition: Condition = None) -> Mapped:
        """Data to base."""
        z, log_det = self.scalar_map.inverse_and_log_det(x, self._params())
        return z, jnp.sum(log_det)

    def _params(self) -> Array:
        flat = self.params(jnp.zeros_like(self.params.shift))
        return flat.reshape(self.scalar_map.num_params, self.dim)
