"""Training on rows that are released already: plain minibatches, no clip, no noise, no price."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Key, PyTree

from veilflow.models.table.density import Loss
from veilflow.nn.frozen import trainable_part
from veilflow.releases.release import Monitor

_PART = 500
"""Steps in one call."""


def pretrain(
    flow: Any,
    records: PyTree,
    *,
    loss: Loss,
    steps: int,
    batch_size: int,
    learning_rate: float,
    key: Key[Array, ""],
    monitor: Monitor,
) -> Any:
    """`flow` moved towards the density of released rows by Adam with cosine decay.

    Args:
        flow: Where to start.
        records: Of released rows; arrays with the row as first axis.
        loss: Of one record. What it has beside, in public terms, must be constant.
        steps: How many.
        batch_size: Rows in each.
        learning_rate: At the start.
        key: Spent here.
        monitor: Told how many steps are done.
    """
    records = jax.tree.map(jnp.asarray, records)
    trainable, _ = trainable_part(flow)
    state = _optimizer(learning_rate, steps).init(trainable)
    keys = jax.random.split(key, steps)
    for first in range(0, steps, _PART):
        flow, state = _run(
            flow,
            state,
            records,
            keys[first : first + _PART],
            loss=loss,
            steps=steps,
            batch_size=batch_size,
            learning_rate=learning_rate,
        )
        # wait: a monitor tells what is done, and an interrupt is heard
        jax.block_until_ready(jax.tree.leaves(state))
        monitor(min(first + _PART, steps))
    return flow


def _optimizer(learning_rate: float, steps: int) -> optax.GradientTransformation:
    return optax.adam(optax.cosine_decay_schedule(learning_rate, steps))


@eqx.filter_jit
def _run(
    flow: Any,
    state: Any,
    records: PyTree,
    keys: Array,
    *,
    loss: Loss,
    steps: int,
    batch_size: int,
    learning_rate: float,
) -> tuple[Any, Any]:
    """A step for each key, of `steps` in all."""
    trainable, fixed = trainable_part(flow)
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
