"""Several distributions, one of which is drawn by its weight."""

import math
from collections.abc import Iterable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from veilflow._core import check
from veilflow.flows.base import AbstractBase
from veilflow.flows.flow import Flow


class Blend(AbstractBase):
    """A mixture of distributions of any kind, with declared weights."""

    dim: int = eqx.field(static=True)
    bases: tuple[AbstractBase | Flow, ...]
    weights: tuple[float, ...] = eqx.field(static=True)

    def __init__(self, bases: Iterable[AbstractBase | Flow], weights: Iterable[float]):
        """Check that there is one positive weight a base, and that they sum to 1."""
        self.bases, self.weights = tuple(bases), tuple(map(float, weights))
        for weight in self.weights:
            check.positive(weight=weight)
        if len(self.bases) != len(self.weights) or abs(math.fsum(self.weights) - 1) > 1e-6:
            raise ValueError("a blend needs one weight for each base, and weights that sum to 1.")
        if len({base.dim for base in self.bases}) != 1:
            raise ValueError("all bases of a blend must have the same dimension.")
        self.dim = self.bases[0].dim

    def log_prob(self, z: Float[Array, " dim"]) -> Float[Array, ""]:
        """The natural log of the density at one example."""
        pairs = zip(self.bases, self.weights, strict=True)
        parts = jnp.stack([base.log_prob(z) + math.log(w) for base, w in pairs])
        # where one of them overflows it has no density, and the others still have
        return jax.nn.logsumexp(jnp.where(jnp.isnan(parts), -jnp.inf, parts))

    def sample(self, key: Key[Array, ""]) -> Float[Array, " dim"]:
        """One example; the key is spent. All bases are drawn from: they are cheap."""
        which, *keys = jax.random.split(key, len(self.bases) + 1)
        drawn = jnp.stack([base.sample(k) for base, k in zip(self.bases, keys, strict=True)])
        return drawn[jax.random.categorical(which, jnp.log(jnp.asarray(self.weights)))]
