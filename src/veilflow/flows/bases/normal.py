"""The standard normal distribution."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from veilflow._core import check
from veilflow.flows.base import AbstractBase


class StandardNormal(AbstractBase):
    """Independent normals of mean 0 and variance 1. Has no parameters."""

    dim: int = eqx.field(static=True)

    def __check_init__(self):
        check.count(dim=self.dim)

    def log_prob(self, z: Float[Array, " dim"]) -> Float[Array, ""]:
        """The natural log of the density at one example."""
        return -0.5 * (jnp.sum(jnp.square(z)) + self.dim * math.log(2 * math.pi))

    def sample(self, key: Key[Array, ""]) -> Float[Array, " dim"]:
        """One example; the key is spent."""
        return jax.random.normal(key, (self.dim,))
