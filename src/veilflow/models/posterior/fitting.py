"""A guide fitted to what was released: the exact prior times the quadratic of the log-likelihood."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from veilflow._core.keys import Secret, wrap
from veilflow.flows import FixedLinear
from veilflow.models.posterior.flat_guide import FlatGuide
from veilflow.models.posterior.guides import Guide, skeleton
from veilflow.models.posterior.objectives import objective
from veilflow.releases.rounds.surrogate import LogPrior, Surrogate

_STEPS, _DRAWS, _RATE = 600, 256, 0.02
_NORMAL = 1e-3
"""Variance of the log-weights below which the target is the normal that the guide starts as."""


class Target(eqx.Module):
    """The natural log of the prior times the quadratic, up to a constant."""

    log_prior: LogPrior = eqx.field(static=True)
    mean: Float[Array, " dim"]
    gradient: Float[Array, " dim"]
    precision: Float[Array, "dim dim"]

    def __call__(self, theta: Float[Array, " dim"]) -> Float[Array, ""]:
        away = theta - self.mean
        quadratic = self.gradient @ away - 0.5 * away @ (self.precision @ away)
        return quadratic + self.log_prior(theta)


def target_of(surrogate: Surrogate, log_prior: LogPrior) -> Target:
    """The target that a released quadratic makes."""
    numbers = (surrogate.mean, surrogate.gradient, surrogate.precision)
    return Target(log_prior, *map(jnp.float32, numbers))


def placed(guide: Guide, mean: np.ndarray, covariance: np.ndarray, *, secret: Secret) -> FlatGuide:
    """A guide that starts as a normal of this mean and covariance, mean-field without correlations."""
    if guide.kind == "mean-field":
        covariance = np.diag(1 / np.diag(np.linalg.inv(covariance)))  # the best of those by KL
    bones = skeleton(guide, len(mean))
    return FlatGuide(
        numbers=bones.start(secret.key("weights")),
        place=FixedLinear.from_moments(mean, covariance),
        words=jnp.asarray(secret.words("draws", 0, 1)[0]),
        skeleton=bones,
    )


def fitted_to(
    target: Target,
    guide: FlatGuide,
    *,
    name: str,
    secret: Secret,
    around: FixedLinear | None = None,
) -> FlatGuide:
    """The guide, fitted to the target by an objective. Post-processing: no record is asked.

    One that starts as the target already, as wherever prior and quadratic make a normal, is left as
    it is: steps by random draws would only take it away from there.

    Args:
        target: What was released, times the prior.
        guide: As `placed` makes it.
        name: Of the objective.
        secret: Source of draws.
        around: From standard normals to about the target, where the guide cannot be that wide.
    """
    z = guide.base_draws(_DRAWS)
    thetas = jax.vmap(lambda u: guide.place.forward_and_log_det(u)[0])(z)
    log_ratio = jax.vmap(target)(thetas) + 0.5 * jnp.sum(z**2, axis=1)
    if float(jnp.var(log_ratio)) < _NORMAL:
        return guide
    words = jnp.asarray(secret.words("fitting", 0, 1)[0])
    return _optimized(name, target, guide, around or guide.place, words)


@eqx.filter_jit
def _optimized(
    name: str, target: Target, guide: FlatGuide, around: FixedLinear, words: Any
) -> FlatGuide:
    loss = objective(name)
    optimizer = optax.adam(optax.cosine_decay_schedule(_RATE, _STEPS))
    dim = guide.skeleton.dim

    def step(carry: Any, key: Any) -> tuple[Any, None]:
        numbers, state, average = carry
        base_key, proposal_key, slice_key = jax.random.split(key, 3)
        half = jax.random.normal(base_key, (_DRAWS // 2, dim))
        base = jnp.concatenate([half, -half])
        proposals = jax.random.normal(proposal_key, (_DRAWS, dim))

        def of(numbers: Array) -> Array:
            moved = eqx.tree_at(lambda g: g.numbers, guide, numbers)
            return loss(moved, target, base, around, proposals, slice_key)

        gradient = jax.grad(of)(numbers)
        gradient = jnp.where(jnp.isfinite(gradient), gradient, 0.0)
        updates, state = optimizer.update(gradient, state)
        numbers = numbers + updates
        return (numbers, state, 0.98 * average + 0.02 * numbers), None

    start = (guide.numbers, optimizer.init(guide.numbers), guide.numbers)
    keys = jax.random.split(wrap(words), _STEPS)
    (_, _, average), _ = jax.lax.scan(step, start, keys)
    return eqx.tree_at(lambda g: g.numbers, guide, average)
