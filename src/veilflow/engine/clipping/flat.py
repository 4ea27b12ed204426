"""One bound for the whole gradient of a record."""

# JAX and jaxtyping leave types open (trees, loops, new arrays); see [tool.pyright] in pyproject.toml
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from veilflow._core import check
from veilflow.engine.clipping.clipping import INSIDE, AbstractBounded, shrink
from veilflow.engine.observed import Observed


class Flat(AbstractBounded):
    """One bound on the whole gradient: g min(1, C / |g|)."""

    def clip(self, observed: Observed, state: PyTree, key: Key[Array, ""]) -> PyTree:
        norm = jnp.sqrt(observed.squared_norm())
        return observed.weighted_sum(observed.everywhere(shrink(norm, self.clip_norm)))


class Automatic(AbstractBounded):
    """Every gradient is scaled to length just below C: g C / (|g| + stability)."""

    stability: float = eqx.field(static=True, default=0.01)

    def __check_init__(self) -> None:
        check.positive(stability=self.stability)

    def clip(self, observed: Observed, state: PyTree, key: Key[Array, ""]) -> PyTree:
        norm = jnp.sqrt(observed.squared_norm())
        factor = INSIDE * self.clip_norm / (norm + self.stability)
        return observed.weighted_sum(observed.everywhere(jnp.where(jnp.isfinite(norm), factor, 0)))
