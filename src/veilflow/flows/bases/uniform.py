"""The uniform distribution on a box."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from veilflow._core import check
from veilflow.flows.base import AbstractBase


class Uniform(AbstractBase):
    """Every coordinate uniform between two public numbers, independently.

    Outside the box the density is zero and its log -inf, with a gradient of zero: a record that a
    bijection puts there teaches nothing. Use it behind a map that ends in the box, such as `Logit`.
    """

    dim: int = eqx.field(static=True)
    low: float = eqx.field(static=True, default=-1.0)
    high: float = eqx.field(static=True, default=1.0)

    def __check_init__(self):
        check.count(dim=self.dim)
        check.finite(low=self.low, high=self.high)
        if not self.low < self.high:
            raise ValueError(f"low must be below high, got {self.low} and {self.high}.")

    def log_prob(self, z: Float[Array, " dim"]) -> Float[Array, ""]:
        """The natural log of the density at one example; the edges belong to the box."""
        inside = jnp.all((self.low <= z) & (z <= self.high))
        value = -self.dim * math.log(self.high - self.low)
        return jnp.where(inside, jnp.asarray(value, z.dtype), -jnp.inf)

    def sample(self, key: Key[Array, ""]) -> Float[Array, " dim"]:
        """One example; the key is spent."""
        return jax.random.uniform(key, (self.dim,), minval=self.low, maxval=self.high)
