"""Training on rows that are released already: plain minibatches, no clip, no noise, no price."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Int32, Key

from veilflow.flows.code_flow import CodeFlow
from veilflow.nn.frozen import trainable_part


def pretrain(
    flow: CodeFlow,
    codes: Int32[np.ndarray, "rows columns"],
    *,
    steps: int,
    batch_size: int,
    learning_rate: float,
    key: Key[Array, ""],
) -> CodeFlow:
    """`flow` moved towards the density of released rows by Adam with cosine decay."""
    return _run(flow, jnp.asarray(codes), key, steps, batch_size, learning_rate)


@eqx.filter_jit
def _run(
    flow: CodeFlow, codes: Array, key: Array, steps: int, batch_size: int, learning_rate: float
) -> CodeFlow:
    trainable, fixed = trainable_part(flow)
    optimizer = optax.adam(optax.cosine_decay_schedule(learning_rate, steps))

    def loss(trainable: Any, batch: Array) -> Array:
        return -jnp.mean(jax.vmap(eqx.combine(trainable, fixed).log_prob)(batch))

    def step(carry: tuple[Any, Any], key: Array) -> tuple[tuple[Any, Any], None]:
        trainable, state = carry
        batch = codes[jax.random.randint(key, (batch_size,), 0, len(codes))]
        updates, state = optimizer.update(jax.grad(loss)(trainable, batch), state, trainable)
        return (optax.apply_updates(trainable, updates), state), None

    start = (trainable, optimizer.init(trainable))
    (trainable, _), _ = jax.lax.scan(step, start, jax.random.split(key, steps))
    return eqx.combine(trainable, fixed)
