"""Independent normals of mean zero."""

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


class ScaledNormal(AbstractBase):
    """Independent normals of mean 0 and one public standard deviation, which is not trained.

    For a trained mean and scale of every coordinate put an `ActNorm` next to a `StandardNormal`: its
    log-scales then are a public part of the density, and train without noise. For public ones of
    every coordinate, an `Affine`.
    """

    dim: int = eqx.field(static=True)
    scale: float = eqx.field(static=True)

    def __check_init__(self):
        check.count(dim=self.dim)
        check.positive(scale=self.scale)

    def log_prob(self, z: Float[Array, " dim"]) -> Float[Array, ""]:
        """The natural log of the density at one example."""
        standard = StandardNormal(self.dim).log_prob(z / self.scale)
        return standard - self.dim * math.log(self.scale)

    def sample(self, key: Key[Array, ""]) -> Float[Array, " dim"]:
        """One example; the key is spent."""
        return self.scale * jax.random.normal(key, (self.dim,))
