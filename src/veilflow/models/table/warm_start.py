"""A start from noisy marginals: a flow is trained on rows drawn from a private model of them.

All of it is post-processing. It takes minutes on wide tables, so it is a step of the plan, whose
arrays a checkpoint keeps.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Key, PyTree

from veilflow._core.keys import Secret
from veilflow.engine.observed import num_parameters
from veilflow.models.table.coder import Coder
from veilflow.models.table.density import AbstractTableDensity, Loss
from veilflow.nn.frozen import trainable_part
from veilflow.releases.marginals import MarginalModel
from veilflow.releases.release import Derived, Monitor
from veilflow.releases.training import arrays_of

_ROWS = 2**19
_STEPS, _BATCH, _RATE = 4000, 1024, 4e-3
_PART = 500
"""Steps in one call of the compiled program."""
_WORK = 2**30
"""Largest number of rows in a batch times trained numbers: wide tables take smaller batches."""
_OWN_PART = 0.3
"""Weight of the histograms of columns in the shares of codes; the marginals have the rest."""

WARM = "warm start"
"""The purpose of the warm start in a plan."""


def warm_start() -> Derived:
    """The warm start as an entry of a plan."""
    return Derived(purpose=WARM, steps=_STEPS)


def started_warm(
    model: MarginalModel,
    coder: Coder,
    fresh: Callable[[Coder], AbstractTableDensity],
    secret: Secret,
    *,
    steps: int,
    monitor: Monitor,
) -> dict[str, Any]:
    """Shares of codes from everything that was released, and the arrays of a flow trained on marginals.

    Args:
        model: The model of the marginals.
        coder: The coder that follows from the histograms of columns.
        fresh: Makes an untrained density over a coder.
        secret: The source of all randomness.
        steps: The number of training steps.
        monitor: Called with the number of steps that are done.
    """
    codes = model.sample(_ROWS, secret.key("warm rows")).astype(np.int32)
    masses = _masses(model, coder)
    density = fresh(coder.with_masses(masses))
    rng = np.random.default_rng(secret.words("warm cells", 0, 1)[0])
    flow = pretrain(
        density.flow,
        density.records_of_codes(codes, rng),
        loss=density.loss,
        steps=steps,
        batch_size=max(1, min(_BATCH, _WORK // num_parameters(density.flow))),
        learning_rate=_RATE,
        key=secret.key("warm start"),
        monitor=monitor,
    )
    return {"masses": masses, "flow": [np.asarray(array) for array in arrays_of(flow)]}


def _masses(model: MarginalModel, coder: Coder) -> list[Float[np.ndarray, " codes"]]:
    """Shares of codes from two releases, which are better together than either alone."""
    return [
        _OWN_PART * column.mass + (1 - _OWN_PART) * model.marginal((j,))
        for j, column in enumerate(coder.columns)
    ]


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
    """Train `flow` on released rows by Adam with cosine decay: no clipping, no noise, no price.

    Args:
        flow: The flow to start from.
        records: The released rows: arrays with the row as first axis.
        loss: The loss of one record. Its public part, which is left out, must be constant.
        steps: The number of steps.
        batch_size: The number of rows in a step.
        learning_rate: The learning rate at the start.
        key: For the batches and for the loss.
        monitor: Called with the number of steps that are done.
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
        # wait, so that the monitor is right and an interrupt is noticed
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
    """One step for each key, out of `steps` in all."""
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
