"""Priors: public distributions of the parameters, chosen before any record is seen.

Losses are bounded, so without a prior exp(-loss) would have an infinite integral over all parameters
and would not be a density. A prior is a declared fact. It is not scaled by epsilon.
"""

# SciPy has no type stubs
# pyright: reportMissingTypeStubs=false

import math
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from veilflow._core.codec import Tagged
from veilflow._core.fields import convert, positive


@dataclass(frozen=True)
class Prior(Tagged, ABC):
    """Independent parameters around zero, all with the same `scale`."""

    scale: float

    def __post_init__(self) -> None:
        convert(self, scale=positive)

    @abstractmethod
    def log_prob(self, theta: Float[Array, " dim"]) -> Float[Array, ""]:
        """The natural logarithm of the density at `theta`."""

    @abstractmethod
    def sample(self, key: Key[Array, ""], num: int, dim: int) -> Float[Array, "num dim"]:
        """Draws from a pseudorandom generator, where exactness is not needed."""

    @abstractmethod
    def quantile(self, share: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """The quantile function of one coordinate."""

    def from_entropy(self, num: int, dim: int) -> Float[np.ndarray, "num dim"]:
        """Draws from operating-system entropy, as float32.

        Each number is the quantile of one of 2^53 equally likely shares. This finite distribution is
        the exact prior of a sampler that uses these draws: floating point affects it in the same way
        for all records.
        """
        words = np.frombuffer(os.urandom(8 * num * dim), dtype=np.uint64) >> np.uint64(11)
        shares = (words.astype(np.float64) + 0.5) * 2.0**-53
        return self.quantile(shares).astype(np.float32).reshape(num, dim)


@dataclass(frozen=True)
class GaussianPrior(Prior):
    """Normal with standard deviation `scale`."""

    def log_prob(self, theta: Float[Array, " dim"]) -> Float[Array, ""]:
        constant = theta.shape[0] * (math.log(self.scale) + 0.5 * math.log(2 * math.pi))
        return -0.5 * jnp.sum(jnp.square(theta / self.scale)) - constant

    def sample(self, key: Key[Array, ""], num: int, dim: int) -> Float[Array, "num dim"]:
        return self.scale * jax.random.normal(key, (num, dim))

    def quantile(self, share: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        from scipy.special import ndtri

        return self.scale * ndtri(share)


@dataclass(frozen=True)
class LaplacePrior(Prior):
    """Laplace with mean distance `scale` from zero."""

    def log_prob(self, theta: Float[Array, " dim"]) -> Float[Array, ""]:
        constant = theta.shape[0] * math.log(2 * self.scale)
        return -jnp.sum(jnp.abs(theta)) / self.scale - constant

    def sample(self, key: Key[Array, ""], num: int, dim: int) -> Float[Array, "num dim"]:
        return self.scale * jax.random.laplace(key, (num, dim))

    def quantile(self, share: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        tail = np.minimum(share, 1.0 - share)
        return np.where(share < 0.5, 1.0, -1.0) * self.scale * np.log(2 * tail)


def check_prior(prior: object) -> None:
    """Raise unless a prior was declared."""
    if not isinstance(prior, Prior):
        given = "none was given" if prior is None else f"got {type(prior).__name__}"
        raise TypeError(
            f"prior must be a GaussianPrior or a LaplacePrior, {given}. Without one the exponential "
            "mechanism has no density. Use for example prior=vf.GaussianPrior(2.0), with a scale that "
            "follows from knowledge of the problem, not from the records."
        )
