"""Training on rows that were made from released values: no clipping, no noise, no price.

The learning rate falls by a cosine over all steps. With held-out rows it does so in cycles, each as
long as all before it, until a cycle no longer reduces the loss of those rows: released rows decide how
many steps are taken, so this costs nothing either.
"""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Key, PyTree

from veilflow.engine.observed import LossFn
from veilflow.nn.frozen import trainable_part
from veilflow.releases.release import Monitor

_PART = 250
"""Steps in one call of the compiled program."""
_CYCLE = 500
"""Steps of the first cycle; each of the others has as many as all before it."""
_LEAST_GAIN = 5e-4
"""The part of the loss by which a cycle must reduce it, or it was the last."""
_OPTIMIZER = optax.scale_by_adam()


def pretrain(
    model: Any,
    records: PyTree,
    *,
    loss: LossFn,
    steps: int,
    batch_size: int,
    learning_rate: float,
    key: Key[Array, ""],
    monitor: Monitor,
    held_out: PyTree | None = None,
) -> Any:
    """Train `model` by Adam.

    Args:
        model: The model to start from.
        records: The released rows: arrays with the row as first axis.
        loss: The loss of one record. Its public part, which is left out, must be constant.
        steps: The number of steps; the largest, if there are held-out rows.
        batch_size: The number of rows in a step.
        learning_rate: The learning rate at the start.
        key: For the batches and for the loss.
        monitor: Called with the number of steps that are done.
        held_out: Released rows that decide how many steps are taken.
    """
    records = jax.tree.map(jnp.asarray, records)
    state = _OPTIMIZER.init(trainable_part(model)[0])
    keys = jax.random.split(key, steps if held_out is None else 2 * steps)
    done = 0

    def run(rates: Float[np.ndarray, " steps"]) -> None:
        nonlocal model, state, done
        for first in range(0, len(rates), _PART):
            part = jnp.asarray(rates[first : first + _PART], jnp.float32)
            own = keys[done : done + len(part)]
            model, state = _run(model, state, records, own, part, loss=loss, batch_size=batch_size)
            # wait, so that the monitor is right and an interrupt is noticed
            jax.block_until_ready(jax.tree.leaves(state))
            done += len(part)
            monitor(done)

    if held_out is None:
        run(_falling(learning_rate, steps))
        return model
    held_out, best = jax.tree.map(jnp.asarray, held_out), math.inf
    while done < steps:
        run(_falling(learning_rate, min(max(_CYCLE, done), steps - done)))
        now = float(_mean_loss(model, held_out, keys[steps + done - 1], loss=loss))
        if not best - now > _LEAST_GAIN * abs(now):
            break
        best = now
    monitor(steps)
    return model


def _falling(learning_rate: float, steps: int) -> Float[np.ndarray, " steps"]:
    """Learning rates from the given one to zero."""
    return learning_rate * (1 + np.cos(np.pi * np.arange(steps) / max(steps, 1))) / 2


@eqx.filter_jit
def _mean_loss(model: Any, records: PyTree, key: Array, *, loss: LossFn) -> Array:
    keys = jax.random.split(key, len(jax.tree.leaves(records)[0]))
    return jnp.mean(jax.lax.map(lambda one: loss(model, *one), (records, keys), batch_size=1024))


@eqx.filter_jit
def _run(
    model: Any,
    state: Any,
    records: PyTree,
    keys: Array,
    rates: Array,
    *,
    loss: LossFn,
    batch_size: int,
) -> tuple[Any, Any]:
    """One step for each key and learning rate."""
    trainable, fixed = trainable_part(model)
    num_rows = len(jax.tree.leaves(records)[0])

    def mean_loss(trainable: Any, batch: PyTree, keys: Array) -> Array:
        each = jax.vmap(lambda row, key: loss(eqx.combine(trainable, fixed), row, key))
        return jnp.mean(each(batch, keys))

    def step(carry: tuple[Any, Any], now: tuple[Array, Array]) -> tuple[tuple[Any, Any], None]:
        (trainable, state), (key, rate) = carry, now
        keys = jax.random.split(jax.random.fold_in(key, 1), batch_size)
        rows = jax.random.randint(key, (batch_size,), 0, num_rows)
        batch = jax.tree.map(lambda x: x[rows], records)
        gradient = jax.grad(mean_loss)(trainable, batch, keys)
        updates, state = _OPTIMIZER.update(gradient, state, trainable)
        updates = jax.tree.map(lambda update: -rate * update, updates)
        return (optax.apply_updates(trainable, updates), state), None

    (trainable, state), _ = jax.lax.scan(step, (trainable, state), (keys, rates))
    return eqx.combine(trainable, fixed), state
