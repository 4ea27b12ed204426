"""The densities of all parts as one program; training of flows. Nothing here is private by itself.

The proof of an ensemble needs more than parts that share no record: the model of a part must be the
same *whatever the other parts hold*, their sizes included. So no array here has a shape that follows
from a number of records, no sum runs over parts, and each part has keys of its own.
"""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from veilflow._core.keys import Secret, wrap
from veilflow.models.architecture import Architecture

Part = Float[np.ndarray, "part dim"]

_STEPS = 50
"""Of one call of the compiled program."""
_CHUNK = 1024
"""Rows that are scored at once."""
_NARROWEST = 1e-3
"""A column of a part is not scaled up beyond this standard deviation, in flow coordinates."""
_LARGEST_GRADIENT = 10.0

# without a rate, so that one compiled program serves every schedule
_OPTIMIZER = optax.chain(
    optax.zero_nans(), optax.clip_by_global_norm(_LARGEST_GRADIENT), optax.scale_by_adam()
)


class PartDensities(eqx.Module):
    """A density for each part, all of one kind: arrays have the part as first axis."""

    density: Any
    center: Float[Array, "parts dim"]
    scale: Float[Array, "parts dim"]

    def log_prob(self, rows: Float[np.ndarray, "rows dim"]) -> Float[np.ndarray, "parts rows"]:
        """Log-densities over flow coordinates; minus infinity where there is none."""
        found = np.empty((len(self.center), len(rows)))
        for start in range(0, len(rows), _CHUNK):
            part = rows[start : start + _CHUNK].astype(np.float32)
            padded = np.zeros((_CHUNK, rows.shape[1]), np.float32)
            padded[: len(part)] = part
            scored = np.asarray(_log_prob(self, jnp.asarray(padded)))
            found[:, start : start + _CHUNK] = scored[:, : len(part)]
        return np.nan_to_num(found, nan=-np.inf, posinf=np.inf, neginf=-np.inf)


def centers_and_scales(parts: Sequence[Part]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of every column in each part; 0 and 1 for a part without rows."""
    centers = [part.mean(axis=0) if len(part) else np.zeros(part.shape[1]) for part in parts]
    scales = [part.std(axis=0) if len(part) else np.ones(part.shape[1]) for part in parts]
    scales = np.maximum(scales, _NARROWEST)
    return np.asarray(centers, np.float32), np.asarray(scales, np.float32)


def standardized(
    parts: Sequence[Part], centers: np.ndarray, scales: np.ndarray
) -> list[Float[np.ndarray, "part dim"]]:
    """The rows of each part in its own coordinates, in single precision."""
    triples = zip(parts, centers, scales, strict=True)
    return [np.asarray((part - c) / s, np.float32) for part, c, s in triples]


def train_flows(
    parts: Sequence[Part],
    *,
    architecture: Architecture,
    steps: int,
    batch_size: int,
    learning_rate: float,
    secret: Secret,
    monitor: Callable[[int], object] = lambda done: None,
) -> PartDensities:
    """A flow for each part by Adam, all of them in one program.

    Args:
        parts: Rows in flow coordinates.
        architecture: Of all flows.
        steps: Of Adam, with cosine decay.
        batch_size: Rows of a part in a step, drawn with replacement.
        learning_rate: At the start.
        secret: Of first weights and batches.
        monitor: Called with the number of steps done.
    """
    dim = parts[0].shape[1]
    centers, scales = centers_and_scales(parts)
    scaled = standardized(parts, centers, scales)
    flows = _fresh(architecture, dim, wrap(secret.words("part", 0, len(parts))))
    draws = [np.random.default_rng(secret.words("batches", j, 1)[0]) for j in range(len(parts))]
    state = eqx.filter_vmap(_OPTIMIZER.init)(eqx.filter(flows, eqx.is_inexact_array))
    # cosine decay; behind the last step the rate is zero, and so it is for a part without rows
    decay = np.cos(np.pi / 2 * np.arange(steps + _STEPS) / steps) ** 2
    rates = learning_rate * np.where(np.arange(steps + _STEPS) < steps, decay, 0.0)
    trained = np.array([len(rows) > 0 for rows in scaled])
    for start in range(0, steps, _STEPS):
        batches = np.zeros((_STEPS, len(parts), batch_size, dim), np.float32)
        for j, (rows, rng) in enumerate(zip(scaled, draws, strict=True)):
            if len(rows):
                batches[:, j] = rows[rng.integers(len(rows), size=(_STEPS, batch_size))]
        now = np.asarray(rates[start : start + _STEPS, None] * trained, np.float32)
        flows, state = _steps(flows, state, jnp.asarray(batches), jnp.asarray(now))
        monitor(min(start + _STEPS, steps))
    return PartDensities(flows, jnp.asarray(centers), jnp.asarray(scales))


@eqx.filter_jit
def _fresh(architecture: Architecture, dim: int, keys: Array) -> Any:
    return eqx.filter_vmap(lambda key: architecture.build(dim, key=key))(keys)


@eqx.filter_jit
def _steps(flows: Any, state: Any, batches: Array, rates: Array) -> Any:
    """Several steps; one with a rate of zero changes nothing."""
    moving, still = eqx.partition(flows, eqx.is_inexact_array)

    def loss(params: Any, rows: Array) -> Array:
        return -jnp.mean(jax.vmap(eqx.combine(params, still).log_prob)(rows))

    def one_part(params: Any, state: Any, rows: Array, rate: Array) -> Any:
        updates, after = _OPTIMIZER.update(jax.grad(loss)(params, rows), state, params)
        moved = jax.tree.map(lambda p, u: p - rate * u, params, updates), after
        return jax.tree.map(lambda new, old: jnp.where(rate > 0, new, old), moved, (params, state))

    def step(carry: Any, drawn: Any) -> Any:
        return jax.vmap(one_part)(*carry, *drawn), None

    (moving, state), _ = jax.lax.scan(step, (moving, state), (batches, rates))
    return eqx.combine(moving, still), state


@eqx.filter_jit
def _log_prob(parts: PartDensities, rows: Float[Array, "rows dim"]) -> Float[Array, "parts rows"]:
    def one_part(density: Any, center: Array, scale: Array) -> Array:
        scaled = (rows - center[None]) / scale[None]
        return jax.vmap(density.log_prob)(scaled) - jnp.sum(jnp.log(scale))

    return eqx.filter_vmap(one_part)(parts.density, parts.center, parts.scale)
