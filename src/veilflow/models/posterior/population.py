"""Draws from the posteriors that surfaces imply: a population that moves from far and wide.

Sequential Monte Carlo: each surface has a population of its own, which starts from a wide normal and is
led to the posterior in stages. In each it is resampled by importance weights and moved by steps along
differences of its members, which are as long, as narrow and as bent as it is, and may lead from one
mode to another.

References:
    Del Moral, Doucet, Jasra, "Sequential Monte Carlo samplers", 2006; ter Braak, "A Markov chain Monte
    Carlo version of the genetic algorithm differential evolution", 2006.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from veilflow.models.posterior.surface import Surfaces
from veilflow.releases.rounds.surrogate import LogPrior

_STAGES, _MOVES = 24, 3
_SLOW = 2.5
"""The share of the way after a share t of the stages is t to this power."""
_JITTER = 0.02
_WALL = 1.0
"""Standard deviation of the distance beyond the reach, in coordinates."""


@eqx.filter_jit
def population(
    surfaces: Surfaces,
    expected: Surfaces,
    log_prior: LogPrior,
    place: tuple[Float[Array, " dim"], Float[Array, "dim dim"]],
    reach: Float[Array, ""],
    power: Float[Array, ""],
    margin: Float[Array, ""],
    key: Any,
    *,
    size: int,
) -> Float[Array, "surfaces size dim"]:
    """Draws in coordinates, from each surface's posterior to a power.

    Args:
        surfaces: The log-likelihood, as several plausible functions of coordinates.
        expected: The surface that is expected.
        log_prior: The log-density of the prior, of parameters.
        place: Mean and factor: parameters are mean + factor u.
        reach: No draw is much farther from the origin.
        power: 1 for the posterior, less for something wider.
        margin: The most by which a surface counts as higher than the expected one, and than the highest
            expected value at a point: far from all points a surface may be as high as it likes, and a
            posterior must not follow it there.
        key: Public randomness.
        size: Draws for each surface.
    """
    mean, factor = place
    count, dim = surfaces.trend.shape[0], mean.shape[0]
    width = reach / 2.5
    top = jnp.max(expected(expected.points[None]))

    def log_density(u: Array) -> Array:
        prior = jax.vmap(jax.vmap(log_prior))(mean[None, None] + u @ factor.T)
        length = jnp.linalg.norm(u, axis=-1)
        beyond = jnp.maximum(length - reach, 0.0) / _WALL
        # quadratic trends may rise for ever: nothing is extrapolated beyond the reach
        inside = u * jnp.minimum(1.0, reach / jnp.maximum(length, 1e-6))[..., None]
        likely = expected(inside.reshape(1, -1, dim)).reshape(u.shape[:2])
        height = jnp.minimum(surfaces(inside), jnp.minimum(likely, top) + margin)
        value = power * (height + prior) - 0.5 * beyond**2
        return jnp.where(jnp.isfinite(value), value, -1e30)

    def wide(u: Array) -> Array:
        return -0.5 * jnp.sum((u / width) ** 2, axis=-1)

    def stage(carry: Any, inputs: Any) -> tuple[Any, None]:
        u, target, before = carry
        now, key = inputs
        weights = (now - before) * (target - wide(u))
        resample_key, moves_key = jax.random.split(key)
        chosen = _systematic(resample_key, jax.nn.softmax(weights, axis=1))
        u, target = (_taken(x, chosen) for x in (u, target))

        def move(carry: Any, key: Any) -> tuple[Any, None]:
            u, target = carry
            pair_key, scale_key, jitter_key, accept_key = jax.random.split(key, 4)
            pairs = jax.random.randint(pair_key, (2, count, size), 0, size)
            ahead = _taken(u, pairs[0]) - _taken(u, pairs[1])
            scales = jnp.array([1.0, 2.38 / (2 * dim) ** 0.5, 0.5])
            scale = jax.random.choice(scale_key, scales, (count, size, 1))
            jitter = _JITTER * jax.random.normal(jitter_key, u.shape)
            proposed = u + scale * ahead + jitter
            there = log_density(proposed)
            old = now * target + (1 - now) * wide(u)
            new = now * there + (1 - now) * wide(proposed)
            accepted = jnp.log(jax.random.uniform(accept_key, old.shape)) < new - old
            moved = jnp.where(accepted[..., None], proposed, u)
            return (moved, jnp.where(accepted, there, target)), None

        (u, target), _ = jax.lax.scan(move, (u, target), jax.random.split(moves_key, _MOVES))
        return (u, target, now), None

    first, rest = jax.random.split(key)
    u = width * jax.random.normal(first, (count, size, dim))
    ladder = jnp.linspace(0.0, 1.0, _STAGES + 1)[1:] ** _SLOW
    (u, _, _), _ = jax.lax.scan(
        stage, (u, log_density(u), 0.0), (ladder, jax.random.split(rest, _STAGES))
    )
    return u


def _systematic(key: Any, weights: Float[Array, "rows size"]) -> Any:
    """Indices drawn with these weights, in each row with a single random offset."""
    rows, size = weights.shape
    offsets = (jnp.arange(size)[None] + jax.random.uniform(key, (rows, 1))) / size
    ends = jnp.cumsum(weights, axis=1)
    indices = jax.vmap(jnp.searchsorted)(ends, offsets)
    return jnp.minimum(indices, size - 1)


def _taken(x: Array, indices: Any) -> Array:
    return jax.vmap(lambda one, index: one[index])(x, indices)
