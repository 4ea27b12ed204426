"""Training on rows that were made from released values: no clipping, no noise, no price."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Key, PyTree

from veilflow.engine.observed import LossFn
from veilflow.nn.frozen import trainable_part
from veilflow.releases.release import Monitor

_PART = 500
"""Steps in one call of the compiled program."""


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
) -> Any:
    """Train `model` by Adam with cosine decay.

    Args:
        model: The model to start from.
        records: The released rows: arrays with the row as first axis.
        loss: The loss of one record. Its public part, which is left out, must be constant.
        steps: The number of steps.
        batch_size: The number of rows in a step.
        learning_rate: The learning rate at the start.
        key: For the batches and for the loss.
        monitor: Called with the number of steps that are done.
    """
    records = jax.tree.map(jnp.asarray, records)
    trainable, _ = trainable_part(model)
    state = _optimizer(learning_rate, steps).init(trainable)
    keys = jax.random.split(key, steps)
    for first in range(0, steps, _PART):
        model, state = _run(
            model,
            state,
            records,
            keys[first : first + _PART],
            loss=loss,
            steps=steps,
            batch_size=batch_size,
            learning_rate=learning_rate,
        )
        # wait, so that the monitor is right and an interrupt is noticed
        jax.block_until_ready(jax.tree.leaves(state))
        monitor(min(first + _PART, steps))
    return model


def _optimizer(learning_rate: float, steps: int) -> optax.GradientTransformation:
    return optax.adam(optax.cosine_decay_schedule(learning_rate, steps))


@eqx.filter_jit
def _run(
    model: Any,
    state: Any,
    records: PyTree,
    keys: Array,
    *,
    loss: LossFn,
    steps: int,
    batch_size: int,
    learning_rate: float,
) -> tuple[Any, Any]:
    """One step for each key, out of `steps` in all."""
    trainable, fixed = trainable_part(model)
    optimizer = _optimizer(learning_rate, steps)
    num_rows = len(jax.tree.leaves(records)[0])

    def mean_loss(trainable: Any, batch: PyTree, keys: Array) -> Array:
        each = jax.vmap(lambda row, key: loss(eqx.combine(trainable, fixed), row, key))
        return jnp.mean(each(batch, keys))

    def step(carry: tuple[Any, Any], key: Array) -> tuple[tuple[Any, Any], None]:
        trainable, state = carry
        keys = jax.random.split(jax.random.fold_in(key, 1), batch_size)
        rows = jax.random.randint(key, (batch_size,), 0, num_rows)
        batch = jax.tree.map(lambda x: x[rows], records)
        gradient = jax.grad(mean_loss)(trainable, batch, keys)
        updates, state = optimizer.update(gradient, state, trainable)
        return (optax.apply_updates(trainable, updates), state), None

    (trainable, state), _ = jax.lax.scan(step, (trainable, state), keys)
    return eqx.combine(trainable, fixed), state
