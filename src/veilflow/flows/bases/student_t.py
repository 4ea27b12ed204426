"""Student's t distribution: tails heavier than a normal's."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from veilflow._core import check
from veilflow.flows.base import AbstractBase


class StudentT(AbstractBase):
    """Independent coordinates, each t-distributed with `df` degrees of freedom, mean 0 and scale 1.

    The variance is df / (df - 2), infinite up to df = 2. The gradient of the log-density stays bounded
    however far out a record lies, unlike a normal's: fewer gradients need clipping.
    """

    dim: int = eqx.field(static=True)
    df: float = eqx.field(static=True)

    def __check_init__(self):
        check.count(dim=self.dim)
        check.positive(df=self.df)
        if self.df < 1:  # float32 draws would overflow
            raise ValueError(f"df must be at least 1 (Cauchy tails), got {self.df}.")

    def log_prob(self, z: Float[Array, " dim"]) -> Float[Array, ""]:
        """The natural log of the density at one example."""
        half = (self.df + 1) / 2
        constant = math.lgamma(half) - math.lgamma(self.df / 2) - 0.5 * math.log(self.df * math.pi)
        return self.dim * constant - half * jnp.sum(jnp.log1p(jnp.square(z) / self.df))

    def sample(self, key: Key[Array, ""]) -> Float[Array, " dim"]:
        """One example; the key is spent."""
        return jax.random.t(key, self.df, (self.dim,))
