"""Shift and scale."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from veilflow._core import check
from veilflow.flows.scalar_map import AbstractScalarMap
from veilflow.flows.scalar_maps.bounded import soft_bound


class AffineMap(AbstractScalarMap):
    """x = z exp(log_scale) + shift; parameters are the shift and the raw log-scale.

    The log-scale is softly bounded, `b tanh(raw / b)` with `b` the `log_scale_bound`: close to
    `raw` where that is small, never beyond `b`. Without it one hostile row, or one large draw of
    noise on the weights, gives exp(raw) = inf, and the flow never comes back.
    """

    log_scale_bound: float = eqx.field(static=True, default=5.0)

    def __check_init__(self):
        check.positive(log_scale_bound=self.log_scale_bound)

    @property
    def num_params(self) -> int:
        """Two: shift and raw log-scale."""
        return 2

    def forward_and_log_det(
        self, z: Float[Array, "*shape"], params: Float[Array, "num_params *shape"]
    ) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
        """Base to data."""
        shift, log_scale = params[0], self._log_scale(params[1])
        return z * jnp.exp(log_scale) + shift, log_scale

    def inverse_and_log_det(
        self, x: Float[Array, "*shape"], params: Float[Array, "num_params *shape"]
    ) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
        """Data to base."""
        shift, log_scale = params[0], self._log_scale(params[1])
        return (x - shift) * jnp.exp(-log_scale), -log_scale

    def _log_scale(self, raw: Array) -> Array:
        return soft_bound(raw, self.log_scale_bound)
