"""What private EM gets wrong about every mixture in the same way, learned from mixtures that are known.

EM with noise, and with as few records a component as it has, finds shapes that differ too much
between components, weights that differ too much, and sizes that are off. How much depends on noise,
records, columns and on the mixture. A correction has nine numbers: functions of a component's weight
say how much of its shape it takes over from its neighbors, how its size changes, and how its weight
does. They are chosen so that, of a known mixture, the corrected result of EM is as likely as possible.
"""

# JAX leaves types open (trees, loops, new arrays); see [tool.pyright] in pyproject.toml
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Key

from veilflow.releases.em import Mixture

_STEPS, _BATCH, _RATE = 300, 256, 0.05
_LITTLE = -4.0
"""Logit of what a component takes over from its neighbors, before anything is learned."""


class Correction(NamedTuple):
    """Coefficients of 1, of the logarithm of a relative weight, and of its square."""

    weight: Float[Array, " 2"]
    """What is added to the logarithms of weights (a constant would change nothing)."""
    size: Float[Array, " 3"]
    """The change of the logarithms of variances."""
    shared: Float[Array, " 3"]
    """The logit of the share of a shape that comes from the neighbors."""
    nearness: Float[Array, ""]
    """The logarithm of how fast neighbors lose influence with their distance."""

    @classmethod
    def none(cls) -> "Correction":
        """Where learning starts: almost no change."""
        first = jnp.array([_LITTLE, 0.0, 0.0])
        return cls(jnp.zeros(2), jnp.zeros(3), first, jnp.zeros(()))


class _Parts(NamedTuple):
    """A mixture as single precision can work with it, and what does not change with a correction."""

    log_weights: Float[Array, " k"]
    means: Float[Array, "k dim"]
    covariances: Float[Array, "k dim dim"]
    inverse_factors: Float[Array, "k dim dim"]
    log_dets: Float[Array, " k"]
    """Of the factors."""
    distances: Float[Array, "k k"]
    """Squared distances of means in the mean covariance of the components, over dimensions."""

    @classmethod
    def of(cls, mixture: Mixture) -> "_Parts":
        inverse = np.linalg.inv(mixture.factors)
        inside = np.linalg.cholesky(np.einsum("k,kij->ij", mixture.weights, mixture.covariances))
        places = np.linalg.solve(inside, mixture.means.T).T
        apart = np.square(places[:, None] - places).sum(axis=-1) / places.shape[1]
        log_dets = np.log(np.diagonal(mixture.factors, axis1=1, axis2=2)).sum(axis=1)
        values = (np.log(mixture.weights), mixture.means, mixture.covariances, inverse, log_dets)
        with np.errstate(over="ignore"):  # infinities are noticed in the result
            return cls(*(jnp.asarray(np.asarray(x, np.float32)) for x in (*values, apart)))


def learned(
    known: Sequence[tuple[Mixture, Float[np.ndarray, "rows dim"]]], key: Key[Array, ""]
) -> Correction:
    """The correction that makes mixtures most likely.

    Args:
        known: Mixtures as EM found them, of the same size, and rows of the true ones.
        key: For the batches.
    """
    parts = [_Parts.of(found) for found, _ in known]
    rows = np.stack([rows for _, rows in known])
    return _learned(jax.tree.map(lambda *x: jnp.stack(x), *parts), jnp.asarray(rows), key)


def corrected(correction: Correction, mixture: Mixture) -> Mixture:
    """The corrected mixture; `mixture` itself where single precision does not suffice."""
    changed = _changed(correction, _Parts.of(mixture))
    log_weights, changes = (np.asarray(x, np.float64) for x in changed)
    if not (np.isfinite(log_weights).all() and np.isfinite(changes).all()):
        return mixture
    weights = np.exp(log_weights)
    return Mixture(weights / weights.sum(), mixture.means, mixture.factors @ changes)


@jax.jit
def _changed(
    correction: Correction, parts: _Parts
) -> tuple[Float[Array, " k"], Float[Array, "k dim dim"]]:
    """Logarithms of weights, and what factors are multiplied by from the right."""
    h = parts.log_weights + jnp.log(parts.log_weights.shape[0])
    terms = jnp.stack([jnp.ones_like(h), h, h * h])
    log_weights = jax.nn.log_softmax(parts.log_weights + correction.weight @ terms[1:])
    share = jax.nn.sigmoid(correction.shared @ terms)[:, None, None]
    near = parts.log_weights[None] - 0.5 * jnp.exp(correction.nearness) * parts.distances
    neighbors = jnp.einsum("ab,bij->aij", jax.nn.softmax(near, axis=1), parts.covariances)
    inverse = parts.inverse_factors
    # as a component sees them: neighbors with its own shape have the unit matrix here
    seen = jnp.einsum("kij,kjl,kml->kim", inverse, neighbors, inverse)
    dim = seen.shape[-1]
    volume = 2 * _log_diagonal(jnp.linalg.cholesky(seen)) / dim
    mixed = (1 - share) * jnp.eye(dim)[None] + share * seen * jnp.exp(-volume)[:, None, None]
    size = jnp.exp(0.5 * (correction.size @ terms))[:, None, None]
    return log_weights, size * jnp.linalg.cholesky(mixed)


def _log_diagonal(factors: Float[Array, "k dim dim"]) -> Float[Array, " k"]:
    return jnp.log(jnp.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)


def _log_likelihood(
    correction: Correction, parts: _Parts, rows: Float[Array, "rows dim"]
) -> Float[Array, ""]:
    """The mean log-density of rows, up to a constant."""
    log_weights, changes = _changed(correction, parts)
    unit = jnp.broadcast_to(jnp.eye(rows.shape[1]), changes.shape)
    inverse = jax.scipy.linalg.solve_triangular(changes, unit, lower=True) @ parts.inverse_factors
    centers = jnp.einsum("kij,kj->ki", inverse, parts.means)
    places = jnp.einsum("kij,nj->nki", inverse, rows) - centers[None]
    constants = log_weights - parts.log_dets - _log_diagonal(changes)
    log_joint = constants[None] - 0.5 * jnp.square(places).sum(axis=-1)
    return jax.nn.logsumexp(log_joint, axis=1).mean()


@jax.jit
def _learned(
    parts: _Parts, rows: Float[Array, "mixtures rows dim"], key: Key[Array, ""]
) -> Correction:
    optimizer = optax.adam(optax.cosine_decay_schedule(_RATE, _STEPS))
    start = Correction.none()
    each = -(-_BATCH // len(rows))

    def loss(correction: Correction, key: Key[Array, ""]) -> Float[Array, ""]:
        drawn = jax.random.randint(key, (each,), 0, rows.shape[1])
        found = jax.vmap(_log_likelihood, (None, 0, 0))(correction, parts, rows[:, drawn])
        return -jnp.mean(found)

    def step(carry: tuple[Any, Any], key: Key[Array, ""]) -> tuple[tuple[Any, Any], None]:
        correction, state = carry
        gradient = jax.grad(loss)(correction, key)
        updates, state = optimizer.update(gradient, state)
        return (optax.apply_updates(correction, updates), state), None

    keys = jax.random.split(key, _STEPS)
    (found, _), _ = jax.lax.scan(step, (start, optimizer.init(start)), keys)
    return found
