"""Clipping of a record's whole gradient, to a fixed norm or to one that follows the gradients."""

# JAX and jaxtyping leave types open (trees, loops, new arrays); see [tool.pyright] in pyproject.toml
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from veilflow._core import check
from veilflow.engine.clipping.clipping import (
    INSIDE,
    AbstractBounded,
    AbstractClipping,
    check_bound,
    shrink,
)
from veilflow.engine.observed import Observed


class Flat(AbstractBounded):
    """One bound on the whole gradient: g min(1, C / |g|)."""

    def clip(self, observed: Observed, state: PyTree, key: Key[Array, ""]) -> PyTree:
        norm = jnp.sqrt(observed.squared_norm())
        return observed.weighted_sum(observed.everywhere(shrink(norm, self.clip_norm)))


class Automatic(AbstractBounded):
    """Every gradient is scaled to a norm just below C: g C / (|g| + stability)."""

    stability: float = eqx.field(static=True, default=0.01)

    def __check_init__(self) -> None:
        check.positive(stability=self.stability)

    def clip(self, observed: Observed, state: PyTree, key: Key[Array, ""]) -> PyTree:
        norm = jnp.sqrt(observed.squared_norm())
        factor = INSIDE * self.clip_norm / (norm + self.stability)
        return observed.weighted_sum(observed.everywhere(jnp.where(jnp.isfinite(norm), factor, 0)))


class AdaptiveQuantile(AbstractClipping):
    """A clip norm that follows a quantile of the gradient norms, which every step pays for.

    Besides the sum of gradients, scaled to norm 1, every step releases how many records stayed within
    the current norm, as one more coordinate of the same Gaussian release. A record moves both
    together by at most sqrt(1 + count_weight^2), and the noise is scaled to that. The clip norm then
    changes by a factor exp(-rate (fraction - quantile)) (Andrew et al. 2021), which is
    post-processing.
    """

    initial: float = eqx.field(static=True, default=1.0)
    quantile: float = eqx.field(static=True, default=0.5)
    rate: float = eqx.field(static=True, default=0.2)
    count_weight: float = eqx.field(static=True, default=0.2)

    def __check_init__(self) -> None:
        check_bound(initial=self.initial)
        check.positive(rate=self.rate, count_weight=self.count_weight)
        check.fraction(quantile=self.quantile)

    @property
    def sensitivity(self) -> float:
        return float((1 + self.count_weight**2) ** 0.5)

    def init(self) -> PyTree:
        return jnp.log(jnp.asarray(self.initial, jnp.float32))

    def clip(self, observed: Observed, state: PyTree, key: Key[Array, ""]) -> PyTree:
        norm = jnp.sqrt(observed.squared_norm())
        clip_norm = jnp.exp(state)
        total = observed.weighted_sum(observed.everywhere(shrink(norm, clip_norm) / clip_norm))
        within = jnp.where(norm <= clip_norm, 0.5, -0.5) * observed.keep
        # +-1/2 per record, times two and the weight: at most count_weight
        return total, 2 * self.count_weight * INSIDE * jnp.sum(within)

    def gradient(self, total: PyTree, state: PyTree, batch_size: float) -> tuple[PyTree, PyTree]:
        gradient, within = total
        fraction = within / (2 * self.count_weight * batch_size) + 0.5
        clip_norm = jnp.exp(state)
        # the noise of one count must not change the norm by orders of magnitude
        move = jnp.clip(self.rate * (fraction - self.quantile), -1.0, 1.0)
        return jax.tree.map(lambda g: g * clip_norm, gradient), jnp.clip(state - move, -20.0, 20.0)
