"""The logit of the cumulative distribution function of a mixture of logistics.

With one logistic this is an affine map; with more it bends between them. Data to base has a closed
form. Base to data has none: it bisects, with a fixed number of steps.

References:
    Ho, Chen, Srinivas, Duan, Abbeel, "Flow++: Improving flow-based generative models with
    variational dequantization and architecture design", 2019.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from veilflow._core import check
from veilflow.flows.scalar_maps.simple import AbstractScalarMap, Params, Values, soft_bound

_LOG_WEIGHT_BOUND = 5.0
_MEAN_BOUND = 4.0
_LOG_SCALE_BOUND = 2.0
"""Distant and narrow logistics leave a gap in which the slope falls like exp(-gap / scale). These
bounds keep it above exp(-30), which float32 can represent."""

_SPARE_BITS = 8
"""Bisections beyond the digits of a number: the first bracket may be that much wider than the root."""


class LogisticMixtureMap(AbstractScalarMap):
    """z = logit(sum_k weight_k sigmoid((x - mean_k) / scale_k)).

    The parameters are raw log-weights, means and log-scales of the logistics. Zero gives exactly the
    identity: all logistics are standard. There they also have the same gradient, so whatever sets them
    (a network, an `Elementwise`) must initialize them at random to tell them apart.
    """

    num_components: int = eqx.field(static=True, default=4)

    def __check_init__(self):
        check.count(num_components=self.num_components)

    @property
    def num_params(self) -> int:
        """Three for each logistic."""
        return 3 * self.num_components

    def forward_and_log_det(self, z: Values, params: Params) -> tuple[Values, Values]:
        """Base to data: a root, with the gradient of the implicit function."""
        x = jax.lax.stop_gradient(self._root(z, params))
        image, log_slope = self.inverse_and_log_det(x, params)
        # the value is unchanged; its gradient is that of z minus the image of a constant root
        residual = z - image
        rate = jax.lax.stop_gradient(jnp.exp(-log_slope))
        x = x + rate * (residual - jax.lax.stop_gradient(residual))
        return x, -self.inverse_and_log_det(x, params)[1]

    def inverse_and_log_det(self, x: Values, params: Params) -> tuple[Values, Values]:
        """Data to base, in logarithms: in float32 the sigmoid of 17 is 1."""
        log_weights, means, log_scales = self._components(params)
        arguments = (x[None] - means) * jnp.exp(-log_scales)
        log_below, log_above = jax.nn.log_sigmoid(arguments), jax.nn.log_sigmoid(-arguments)
        below, above = log_weights + log_below, log_weights + log_above
        z = jax.nn.logsumexp(below, axis=0) - jax.nn.logsumexp(above, axis=0)
        # dz/dx = f/F + f/(1 - F), each a mean over the logistics: no cancellation
        from_below = jax.nn.log_softmax(below, axis=0) + log_above - log_scales
        from_above = jax.nn.log_softmax(above, axis=0) + log_below - log_scales
        log_slope = jax.nn.logsumexp(jnp.logaddexp(from_below, from_above), axis=0)
        return z, log_slope

    def _components(self, params: Array) -> tuple[Array, Array, Array]:
        num = self.num_components
        raw_weights, raw_means, raw_log_scales = (params[i * num : (i + 1) * num] for i in range(3))
        log_weights = jax.nn.log_softmax(soft_bound(raw_weights, _LOG_WEIGHT_BOUND), axis=0)
        log_scales = soft_bound(raw_log_scales, _LOG_SCALE_BOUND)
        return log_weights, soft_bound(raw_means, _MEAN_BOUND), log_scales

    def _root(self, z: Array, params: Array) -> Array:
        """The root at which the map is `z`, by bisection.

        The mixture is between its lowest and its highest logistic, so its root is between theirs.
        """
        log_weights, means, log_scales = self._components(params)
        rates, roots = jnp.exp(-log_scales), means + jnp.exp(log_scales) * z[None]

        def image(x: Array) -> Array:
            arguments = (x[None] - means) * rates
            below = jax.nn.logsumexp(log_weights + jax.nn.log_sigmoid(arguments), axis=0)
            return below - jax.nn.logsumexp(log_weights + jax.nn.log_sigmoid(-arguments), axis=0)

        def halve(_: int, bracket: tuple[Array, Array]) -> tuple[Array, Array]:
            low, high = bracket
            middle = 0.5 * low + 0.5 * high
            right = image(middle) < z
            return jnp.where(right, middle, low), jnp.where(right, high, middle)

        halvings = jnp.finfo(z.dtype).nmant + _SPARE_BITS
        bracket = jnp.min(roots, axis=0), jnp.max(roots, axis=0)
        low, high = jax.lax.fori_loop(0, halvings, halve, bracket)
        return 0.5 * low + 0.5 * high
