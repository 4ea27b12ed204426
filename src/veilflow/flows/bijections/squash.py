"""Fixed elementwise maps between the line and an interval: sigmoid, logit, tanh.

Log-determinants toward the interval are softplus forms, exact for every finite number. The way back
has to live with what rounding left: next to 1, float32 has steps of 6e-8. Points of the interval are
kept at least half a step, `eps / 2`, away from its ends (6e-8 in float32, 1.1e-16 in float64), which
keeps the result finite; so points at the ends or beyond are mapped as if they lay just inside.

In float32 a number that goes through sigmoid and back comes back within 1e-3 if it is in [-16, 9],
and at most as large as 16.6; through tanh, within 1e-3 in [-5, 5], and at most as large as 8.7.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from veilflow._core import check
from veilflow.flows.bijection import AbstractBijection, Condition


class _Squash(AbstractBijection):
    """What the maps here share: no parameters, `size` coordinates that do not see each other."""

    size: int = eqx.field(static=True)

    def __check_init__(self):
        check.count(size=self.size)

    @property
    def dim(self) -> int:
        """How many numbers an example has."""
        return self.size


class Sigmoid(_Squash):
    """x = 1 / (1 + exp(-z)): from the line to (0, 1). A flow of it lives on the open unit box."""

    def forward_and_log_det(
        self, z: Float[Array, " dim"], condition: Condition = None
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """Base to data."""
        return _sigmoid(z)

    def inverse_and_private_log_det(
        self, x: Float[Array, " dim"], condition: Condition = None
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """Data to base; the whole log-determinant looks at the record."""
        return _logit(x)


class Logit(_Squash):
    """x = log(z / (1 - z)): from (0, 1) to the line. For bases on the unit box."""

    def forward_and_log_det(
        self, z: Float[Array, " dim"], condition: Condition = None
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """Base to data."""
        return _logit(z)

    def inverse_and_private_log_det(
        self, x: Float[Array, " dim"], condition: Condition = None
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """Data to base; the whole log-determinant looks at the record."""
        return _sigmoid(x)


class Tanh(_Squash):
    """x = tanh(z): from the line to (-1, 1)."""

    def forward_and_log_det(
        self, z: Float[Array, " dim"], condition: Condition = None
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """Base to data."""
        # 1 / cosh(z)^2 = 4 sigmoid(2 z) sigmoid(-2 z)
        log_slope = 2 * math.log(2) - jax.nn.softplus(2 * z) - jax.nn.softplus(-2 * z)
        return jnp.tanh(z), jnp.sum(log_slope)

    def inverse_and_private_log_det(
        self, x: Float[Array, " dim"], condition: Condition = None
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """Data to base; the whole log-determinant looks at the record."""
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
