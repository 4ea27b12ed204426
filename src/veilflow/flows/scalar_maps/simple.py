"""The interface of scalar maps, the affine map, and compositions.

A scalar map is an increasing map of the line with a few parameters. Autoregressive and coupling
bijections differ in where the parameters come from, scalar maps in what they do with them, so every
bijection works with every scalar map.
"""

from abc import abstractmethod
from collections.abc import Iterable
from itertools import accumulate, pairwise

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from veilflow._core import check

Values = Float[Array, "*shape"]
Params = Float[Array, "num_params *shape"]


def soft_bound(raw: Float[Array, "*shape"], bound: float) -> Float[Array, "*shape"]:
    """Close to `raw` where that is small, and never larger than `bound` in size.

    Raw parameters come from networks with noisy weights that see arbitrary records. What uses them,
    an `exp` above all, is safe within the bound only.
    """
    return bound * jnp.tanh(raw / bound)


class AbstractScalarMap(eqx.Module):
    """A family of increasing maps of the line, elementwise over arrays of any shape.

    Row p of `params` holds parameter p of every element. All real parameters are allowed: the map
    itself makes sure that it is increasing and finite. Parameters of zero give the identity, so a
    network whose last layer starts near zero starts the flow near the identity.
    """

    @property
    @abstractmethod
    def num_params(self) -> int:
        """Number of parameters of one map."""

    @abstractmethod
    def forward_and_log_det(self, z: Values, params: Params) -> tuple[Values, Values]:
        """Base to data, with the log-derivative of this direction, element by element."""

    @abstractmethod
    def inverse_and_log_det(self, x: Values, params: Params) -> tuple[Values, Values]:
        """Data to base, with the log-derivative of this direction, element by element."""


class AffineMap(AbstractScalarMap):
    """x = z exp(log_scale) + shift; parameters are the shift and the raw log-scale.

    The log-scale is softly bounded, `b tanh(raw / b)` with `b` the `log_scale_bound`: close to
    `raw` where that is small, never beyond `b`. Without the bound one hostile row, or one large
    draw of noise on the weights, gives exp(raw) = inf, and the flow never recovers.
    """

    log_scale_bound: float = eqx.field(static=True, default=5.0)

    def __check_init__(self):
        check.positive(log_scale_bound=self.log_scale_bound)

    @property
    def num_params(self) -> int:
        """Two: shift and raw log-scale."""
        return 2

    def forward_and_log_det(self, z: Values, params: Params) -> tuple[Values, Values]:
        """Base to data."""
        shift, log_scale = params[0], self._log_scale(params[1])
        return z * jnp.exp(log_scale) + shift, log_scale

    def inverse_and_log_det(self, x: Values, params: Params) -> tuple[Values, Values]:
        """Data to base."""
        shift, log_scale = params[0], self._log_scale(params[1])
        return (x - shift) * jnp.exp(-log_scale), -log_scale

    def _log_scale(self, raw: Array) -> Array:
        return soft_bound(raw, self.log_scale_bound)


class Composed(AbstractScalarMap):
    """Scalar maps from base to data: forward runs first to last, inverse last to first.

    Their parameters are concatenated, so one network sets all of them.
    """

    scalar_maps: tuple[AbstractScalarMap, ...]

    def __init__(self, scalar_maps: Iterable[AbstractScalarMap]):
        """Check that there is a map.

        Args:
            scalar_maps: At least one, from base to data.

        Raises:
            ValueError: If there is none.
        """
        self.scalar_maps = tuple(scalar_maps)
        if not self.scalar_maps:
            raise ValueError("scalar_maps must hold at least one map, got none.")

    @property
    def num_params(self) -> int:
        """The sum over the maps."""
        return sum(each.num_params for each in self.scalar_maps)

    def forward_and_log_det(self, z: Values, params: Params) -> tuple[Values, Values]:
        """Base to data, first to last."""
        total = jnp.zeros_like(z)
        for each, own in self._with_params(params):
            z, log_det = each.forward_and_log_det(z, own)
            total = total + log_det
        return z, total

    def inverse_and_log_det(self, x: Values, params: Params) -> tuple[Values, Values]:
        """Data to base, last to first."""
        total = jnp.zeros_like(x)
        for each, own in reversed(self._with_params(params)):
            x, log_det = each.inverse_and_log_det(x, own)
            total = total + log_det
        return x, total

    def _with_params(self, params: Array) -> list[tuple[AbstractScalarMap, Array]]:
        """Each map with its rows of `params`."""
        ends = accumulate((each.num_params for each in self.scalar_maps), initial=0)
        rows = [params[start:end] for start, end in pairwise(ends)]
        return list(zip(self.scalar_maps, rows, strict=True))
