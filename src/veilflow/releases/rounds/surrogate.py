"""The quadratic approximation of the log-likelihood that the rounds release."""

# JAX and jaxtyping leave types open (trees, loops, new arrays); see [tool.pyright] in pyproject.toml
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

LogPrior = Callable[[Float[Array, " dim"]], Float[Array, ""]]

VAGUE = 3.0
"""Standard deviation in unknown directions, relative to the declared scale."""
_SINGULAR = 1e-14
"""Smallest over largest eigenvalue of a matrix that is considered invertible."""


@dataclass(frozen=True)
class Surrogate:
    """A quadratic approximation of the log-likelihood around the mean of the posterior.

    Attributes:
        mean: The mean of the posterior under the quadratic and the prior.
        gradient: The gradient of the log-likelihood at the mean.
        precision: Minus its second derivative.
        noise: Covariance of the noise in `gradient`.
        num_records: Number of records, estimated from the counts of lengths.
        length: Clipping bound of gradients, in standard deviations of the posterior.
        unknown: Number of directions without significant curvature. In these the quadratic has three
            times the declared scale, around the start.
        few: Whether records are few for the noise, so that the clipping bounds are uncertain.
    """

    mean: Float[np.ndarray, " dim"]
    gradient: Float[np.ndarray, " dim"]
    precision: Float[np.ndarray, "dim dim"]
    noise: Float[np.ndarray, "dim dim"]
    num_records: float
    length: float
    unknown: int = 0
    few: bool = False

    @classmethod
    def vague(
        cls, start: Float[np.ndarray, " dim"], scale: Float[np.ndarray, " dim"]
    ) -> "Surrogate":
        """The quadratic if nothing was significant: three times the scale, around `start`."""
        none = np.zeros((len(start), len(start)))
        return cls(
            mean=start,
            gradient=none[0],
            precision=np.diag((VAGUE * scale) ** -2.0),
            noise=none,
            num_records=1.0,
            length=1.0,
            unknown=len(start),
            few=True,
        )

    def aware(self) -> "Surrogate":
        """The log-likelihood of the released gradient, which accounts for its noise.

        The gradient of all records is normal around H (theta - mean) with covariance H; the released
        one has the covariance of the noise in addition. This is post-processing.
        """
        total = self.precision + self.noise
        shrunk = self.precision @ np.linalg.solve(total, self.precision)
        gradient = self.precision @ np.linalg.solve(total, self.gradient)
        none = np.zeros_like(self.noise)
        precision = (shrunk + shrunk.T) / 2
        return replace(self, gradient=gradient, precision=precision, noise=none)

    def is_sound(self, scale: Float[np.ndarray, " dim"]) -> bool:
        """Whether its matrices can be inverted, which noise may prevent."""
        for matrix in (self.precision, self.precision + self.noise):
            scaled = matrix * np.outer(scale, scale)
            if not (np.isfinite(scaled).all() and np.isfinite(self.mean).all()):
                return False
            values = np.linalg.eigvalsh(scaled)
            if values[0] <= _SINGULAR * values[-1]:
                return False
        return True


class PriorParts(NamedTuple):
    """Gradient and curvature of the prior, in coordinates: like those of a record, but public."""

    gradient: Float[np.ndarray, " dim"]
    curvature: Float[np.ndarray, "dim dim"]


def prior_parts(
    log_prior: LogPrior, draws: Float[np.ndarray, "draws dim"], factor: Float[np.ndarray, "dim dim"]
) -> PriorParts:
    """Gradient and curvature of the prior, averaged over draws; no eigenvalue is negative.

    Args:
        log_prior: The log-density of the prior.
        draws: The parameters at which it is evaluated.
        factor: From coordinates to parameters.
    """
    means = (np.asarray(x, np.float64) for x in _prior_means(log_prior, jnp.float32(draws)))
    # noise may lead to parameters where the prior is not finite; it is ignored there
    gradient, curvature = (np.where(np.isfinite(x), x, 0.0) for x in means)
    values, vectors = np.linalg.eigh(factor.T @ curvature @ factor)
    return PriorParts(factor.T @ gradient, (vectors * np.maximum(values, 0.0)) @ vectors.T)


def normal_of(
    surrogate: Surrogate, log_prior: LogPrior
) -> tuple[Float[np.ndarray, " dim"], Float[np.ndarray, "dim dim"]]:
    """Mean and covariance of the normal approximation of quadratic and prior."""
    prior = prior_parts(log_prior, surrogate.mean[None], np.eye(len(surrogate.mean)))
    covariance = np.linalg.inv(surrogate.precision + prior.curvature)
    covariance = (covariance + covariance.T) / 2
    return surrogate.mean + covariance @ (surrogate.gradient + prior.gradient), covariance


@partial(jax.jit, static_argnums=0)
def _prior_means(log_prior: LogPrior, draws: Any) -> tuple[Array, Array]:
    gradient = jnp.mean(jax.vmap(jax.grad(log_prior))(draws), axis=0)
    return gradient, -jnp.mean(jax.vmap(jax.hessian(log_prior))(draws), axis=0)
