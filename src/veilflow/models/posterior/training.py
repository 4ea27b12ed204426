"""The free-energy bound through the engine: what a record enters, and what it does not.

For n records the bound is the sum of -E log p(x_i | theta) and of E [log q(theta) - log p(theta)], with
theta drawn from the guide. The first is each record's own, clipped and noised. The second holds no
record: its gradient is added after the noise, over the public number of records.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from veilflow.models.posterior.flat_guide import FlatGuide
from veilflow.models.posterior.short_sums import with_short_sums
from veilflow.releases.rounds.statistics import LogLikelihood
from veilflow.releases.rounds.surrogate import LogPrior


@lru_cache(maxsize=64)
def record_loss(log_likelihood: LogLikelihood, num_draws: int) -> Callable[..., Array]:
    """Minus the mean over draws of a record's log-likelihood; one function for all fits.

    Its gradient is what counts: by the numbers it is that mean's, made without a backward pass through
    guide and likelihood together. The value is 0.
    """
    slope = with_short_sums(jax.grad(log_likelihood))

    def loss(guide: FlatGuide, record: Any, key: Any) -> Float[Array, ""]:
        thetas, jacobian = guide.draws_and_jacobian(guide.base_draws(num_draws))
        slopes = jax.vmap(slope, (0, None))(thetas, record)
        gradient = jnp.tensordot(slopes, jacobian, axes=2) / -num_draws
        return gradient @ (guide.numbers - jax.lax.stop_gradient(guide.numbers))

    return loss


@lru_cache(maxsize=64)
def public_loss(log_prior: LogPrior, num_draws: int, num_records: float) -> Callable[..., Array]:
    """The terms of the bound that no record enters, over the number of records."""

    def loss(guide: FlatGuide) -> Float[Array, ""]:
        thetas, log_prob = guide.draws_and_log_prob(guide.base_draws(num_draws))
        return jnp.mean(log_prob - jax.vmap(log_prior)(thetas)) / num_records

    return loss
