"""Mixtures: of normals with full covariances, and of distributions of any kind."""

import math
from collections.abc import Iterable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from veilflow._core import check
from veilflow.flows._covariance import cholesky
from veilflow.flows.bases.simple import AbstractBase
from veilflow.flows.flow import Flow
from veilflow.nn.frozen import AbstractFrozen
from veilflow.nn.outer import contract


class GaussianMixture(AbstractBase, AbstractFrozen):
    """K normals, one of which is examples by its weight. Released or declared values, never trained.

    The values are array leaves, so that mixtures of one shape share compiled code; the module is
    frozen, so the engine does not train them. Build it with `create`, which keeps the factors and their
    inverses consistent: the density uses the inverses, so these are rounded and the factors follow.
    """

    dim: int = eqx.field(static=True)
    log_weights: Float[Array, " K"]
    means: Float[Array, "K dim"]
    factors: Float[Array, "K dim dim"]
    """Lower Cholesky factors of the covariances."""
    inverse_factors: Float[Array, "K dim dim"]
    """Their inverses, so that a density needs products only, no solve."""

    @classmethod
    def create(cls, weights: Any, means: Any, covariances: Any) -> "GaussianMixture":
        """Check the values and factor the covariances, in float64 on the host.

        Args:
            weights: K positive numbers that sum to 1.
            means: K means of `dim` numbers.
            covariances: K symmetric positive definite matrices.

        Returns:
            The mixture.

        Raises:
            ValueError: If shapes differ, or a value is out of range or does not fit float32.
        """
        weights, means = np.asarray(weights, np.float64), np.asarray(means, np.float64)
        shape = np.shape(covariances)
        if weights.ndim != 1 or means.ndim != 2 or shape != (*means.shape, means.shape[-1]):
            raise ValueError(
                "weights, means and covariances must have shapes (K,), (K, dim) and (K, dim, dim), "
                f"got {weights.shape}, {means.shape} and {shape}."
            )
        if weights.shape != means.shape[:1]:
            raise ValueError(f"got {len(weights)} weights for {len(means)} means. Give one each.")
        check.count(components=len(weights), dim=means.shape[1])
        if not np.all(weights > 0):
            raise ValueError(
                f"weights must be positive, got {weights.min()}. Drop components without weight."
            )
        if not abs(weights.sum() - 1) <= 1e-6:
            raise ValueError(f"weights must sum to 1, got {weights.sum()}. Divide by the sum.")
        factors = cholesky(covariances, name="every covariance")
        inverses = np.tril(np.linalg.inv(factors))
        for array in (means, factors, inverses):
            if not np.all(np.abs(array) <= np.finfo(np.float32).max):
                raise ValueError(
                    "means, covariances and their inverses must be finite and fit float32. "
                    "Use other units."
                )
        log_weights = np.log(weights / weights.sum())
        inverses = inverses.astype(np.float32)
        arrays = (log_weights, means, _factors(inverses), inverses)
        return cls(means.shape[1], *map(jnp.asarray, arrays))

    def restored(self) -> "GaussianMixture":
        """The mixture of this density, checked: for arrays that come from a file."""
        log_total = np.logaddexp.reduce(np.asarray(self.log_weights, np.float64))
        if not abs(log_total) <= 1e-5:
            raise ValueError("weights must sum to 1.")
        factors = jnp.asarray(_factors(np.asarray(self.inverse_factors)))
        return GaussianMixture(
            self.dim, self.log_weights, self.means, factors, self.inverse_factors
        )

    def log_prob(self, z: Float[Array, " dim"]) -> Float[Array, ""]:
        """The natural log of the density at one example."""
        local, log_scales = self.local(z)
        exponents = log_scales - 0.5 * jnp.sum(jnp.square(local), axis=-1)
        return jax.nn.logsumexp(exponents) - 0.5 * self.dim * math.log(2 * math.pi)

    def local(self, z: Float[Array, " dim"]) -> tuple[Float[Array, "K dim"], Float[Array, " K"]]:
        """An example in the standard coordinates of each component, and the logs of weight and scale.

        The density of component k, times its weight, is the standard normal density at `local[k]`
        times `exp(log_scales[k])`.
        """
        # One matrix for all components, so that a batch is one product. Means are subtracted after it,
        # which loses no digit that rounding the example has not lost already.
        flat = self.inverse_factors.reshape(-1, self.dim)
        means = contract("kij,kj->ki", self.inverse_factors, self.means)
        local = contract("ij,j->i", flat, z).reshape(means.shape) - means
        diagonals = jnp.diagonal(self.inverse_factors, axis1=-2, axis2=-1)
        return local, jnp.sum(jnp.log(diagonals), axis=-1) + self.log_weights

    def sample(self, key: Key[Array, ""]) -> Float[Array, " dim"]:
        """One example; the key is spent."""
        component_key, normal_key = jax.random.split(key)
        k = jax.random.categorical(component_key, self.log_weights)  # takes logs, not weights
        z = jax.random.normal(normal_key, (self.dim,))
        return self.means[k] + contract("ij,j->i", self.factors[k], z)


def _factors(inverses: Float[np.ndarray, "K dim dim"]) -> Float[np.ndarray, "K dim dim"]:
    """The lower triangular factors with these inverses, checked."""
    inverses, limits = np.asarray(inverses, np.float64), np.finfo(np.float32)
    if np.any(np.triu(inverses, 1)):
        raise ValueError("inverse factors must be lower triangular.")
    if not np.all(np.diagonal(inverses, axis1=-2, axis2=-1) >= limits.tiny):
        raise ValueError("covariances must be positive definite and fit float32. Use other units.")
    factors = np.tril(np.linalg.inv(inverses))
    if not np.all(np.abs(factors) <= limits.max):
        raise ValueError("factors of covariances must be finite and fit float32. Use other units.")
    return factors.astype(np.float32)


class Blend(AbstractBase):
    """A mixture of distributions of any kind, with declared weights."""

    dim: int = eqx.field(static=True)
    bases: tuple[AbstractBase | Flow, ...]
    weights: tuple[float, ...] = eqx.field(static=True)

    def __init__(self, bases: Iterable[AbstractBase | Flow], weights: Iterable[float]):
        """Check that there is one positive weight per base, and that they sum to 1."""
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
        # a component that overflows has no density there, but the others do
        return jax.nn.logsumexp(jnp.where(jnp.isnan(parts), -jnp.inf, parts))

    def sample(self, key: Key[Array, ""]) -> Float[Array, " dim"]:
        """One example; the key is spent. Every base is sampled, which is cheap."""
        which, *keys = jax.random.split(key, len(self.bases) + 1)
        examples = jnp.stack([base.sample(k) for base, k in zip(self.bases, keys, strict=True)])
        return examples[jax.random.categorical(which, jnp.log(jnp.asarray(self.weights)))]
