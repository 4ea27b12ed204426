"""The uniform distribution on a ball."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from veilflow._core import check
from veilflow.flows.base import AbstractBase


class UniformBall(AbstractBase):
    """The same density wherever the Euclidean norm is at most a public `radius`, and none outside."""

    dim: int = eqx.field(static=True)
    radius: float = eqx.field(static=True, default=1.0)

    def __check_init__(self):
        check.count(dim=self.dim)
        check.positive(radius=self.radius)

    def log_prob(self, z: Float[Array, " dim"]) -> Float[Array, ""]:
        """The natural log of the density at one example; the sphere belongs to the ball."""
        # divided first: squares of far coordinates may overflow, those of near ones must not vanish
        inside = jnp.sum(jnp.square(z / self.radius)) <= 1
        half = self.dim / 2
        log_volume = half * math.log(math.pi) - math.lgamma(half + 1)
        log_volume += self.dim * math.log(self.radius)
        return jnp.where(inside, jnp.asarray(-log_volume, z.dtype), -jnp.inf)

    def sample(self, key: Key[Array, ""]) -> Float[Array, " dim"]:
        """One example; the key is spent."""
        where, far = jax.random.split(key)
        normal = jax.random.normal(where, (self.dim,))
        direction = normal / jnp.maximum(jnp.linalg.norm(normal), 1e-30)
        return self.radius * jax.random.uniform(far) ** (1 / self.dim) * direction
