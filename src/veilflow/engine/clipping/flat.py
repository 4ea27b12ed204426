"""One bound for the whole gradient of a record."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from veilflow._core import check
from veilflow.engine.clipping.clipping import INSIDE, AbstractClipping, check_bound, shrink
from veilflow.engine.observed import Observed


class Flat(AbstractClipping):
    """One bound on the whole gradient: g min(1, C / |g|)."""

    clip_norm: float = eqx.field(static=True)

    def __check_init__(self) -> None:
        check_bound(clip_norm=self.clip_norm)

    @property
    def sensitivity(self) -> float:
        return float(self.clip_norm)

    def clip(self, observed: Observed, state: PyTree, key: Key[Array, ""]) -> PyTree:
        norm = jnp.sqrt(observed.squared_norm())
        return observed.weighted_sum(observed.everywhere(shrink(norm, self.clip_norm)))


class Automatic(AbstractClipping):
    """Every gradient is scaled to length just below C: g C / (|g| + stability)."""

    clip_norm: float = eqx.field(static=True)
    stability: float = eqx.field(static=True, default=0.01)

    def __check_init__(self) -> None:
        check_bound(clip_norm=self.clip_norm)
        check.positive(stability=self.stability)

    @property
    def sensitivity(self) -> float:
        return float(self.clip_norm)

    def clip(self, observed: Observed, state: PyTree, key: Key[Array, ""]) -> PyTree:
        norm = jnp.sqrt(observed.squared_norm())
        factor = INSIDE * self.clip_norm / (norm + self.stability)
        return observed.weighted_sum(observed.everywhere(jnp.where(jnp.isfinite(norm), factor, 0)))
