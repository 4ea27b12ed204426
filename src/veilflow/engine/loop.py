"""The training loop: many compiled steps at a time, progress and checkpoints in between.

Python sees the run only between blocks of steps. What it sees there is released: parameters, never
losses, norms or batch sizes.
"""

import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from veilflow._core import check
from veilflow._core.keys import Secret
from veilflow.engine.checkpoint import Checkpoint
from veilflow.engine.memory import choose_chunk
from veilflow.engine.observed import LossFn, num_parameters
from veilflow.engine.plan import TrainingPlan
from veilflow.engine.step import PURPOSES, PublicLossFn, State, Step
from veilflow.nn.frozen import trainable_part
from veilflow.privacy.events import TotalVariation
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.privacy.noise_source import Grid, closeness, draw, hardened_grid

Monitor = Callable[[int], None]
"""Called between blocks with the number of steps done; sees nothing else."""

_BLOCK = 256
"""Steps whose keys travel to the device together."""
_BLOCK_SECONDS = 1.0
_NOISE_BYTES = 64 * 2**20


def train(
    plan: TrainingPlan,
    loss_fn: LossFn,
    model: Any,
    records: Sensitive[PyTree],
    *,
    secret: Secret,
    public_loss_fn: PublicLossFn | None = None,
    chunk_size: int | None = None,
    checkpoint: Checkpoint | None = None,
    monitor: Monitor | None = None,
) -> Released[Any]:
    """Train `model` on `records` as `plan` says.

    Guarantee:
        The returned parameters, and every intermediate one, are `plan.event` for add/remove of one
        record, given that the noise is what it claims to be; see docs/limitations.md. Resuming from a
        checkpoint replays the same randomness on the same records and spends nothing more.

    Args:
        plan: Every public number of the run.
        loss_fn: Loss of one record, `loss_fn(model, record, key)`.
        model: Any pytree; its inexact arrays are trained, except those in frozen modules.
        records: Arrays with the record as first axis. At least one record.
        secret: Source of all randomness of the run.
        public_loss_fn: A term of the loss without records, added after the noise.
        chunk_size: Records handled at once; changes speed and memory only. None picks one.
        checkpoint: Where to leave the state from time to time, and to resume from.
        monitor: Told the number of steps done, between blocks.

    Returns:
        The released model.

    Raises:
        ValueError: Records are empty or of unequal length.
        PrivacyError: The checkpoint belongs to another plan or other records, or the run is
            hardened and so cannot have one.
    """
    trainable, fixed = trainable_part(model)
    kinds = {str(leaf.dtype) for leaf in jax.tree.leaves(trainable)}
    if not kinds <= {"float32", "float64"}:
        raise ValueError(
            f"parameters must be float32 or float64, got {', '.join(sorted(kinds))}. Shorter floats "
            "round norms too coarsely for a clip to hold."
        )
    if checkpoint is not None:
        checkpoint.check_replayable(hardened=plan.hardened)
    data = jax.tree.map(jnp.asarray, records.open())
    lengths = {leaf.shape[:1] for leaf in jax.tree.leaves(data)}
    if len(lengths) != 1 or lengths & {(), (0,)}:
        raise ValueError("records must be arrays of one common, positive length.")
    if chunk_size is None:
        chunk_size = choose_chunk(model, plan)
    check.count(chunk_size=chunk_size)

    grid = grid_of(plan, model) if plan.hardened else None
    step = Step(plan, loss_fn, public_loss_fn, fixed, chunk_size, grid)
    block = _BLOCK
    if grid is not None:
        block = max(1, min(_BLOCK, _NOISE_BYTES // (4 * grid.num_coordinates)))

    # a copy, because the first block takes its buffers over and the caller keeps its model
    state = step.init(jax.tree.map(jnp.array, trainable))
    done = 0
    if checkpoint is not None:
        state, done = checkpoint.restore(state, plan=plan, records=data, secret=secret)
    if monitor is not None:
        monitor(done)

    pace, saved = 1, time.monotonic()
    while done < plan.steps:
        count = min(pace, block, plan.steps - done)
        keys, noise = _keys(secret, done, count, block), _noise(step.grid, count, block)
        inputs = jax.tree.map(jnp.asarray, (keys, noise, np.int32(count)))
        started = time.monotonic()
        state = jax.block_until_ready(_run_block((step, data, *inputs), state))
        elapsed = time.monotonic() - started
        # the first call compiles, which says nothing about the pace of the next
        steady = int(count * _BLOCK_SECONDS / max(elapsed, 1e-6))
        pace = 8 if pace == 1 else max(2, min(2 * count, steady))
        done += count
        if monitor is not None:
            monitor(done)
        last = done == plan.steps
        if checkpoint is not None and (last or time.monotonic() - saved > checkpoint.seconds):
            checkpoint.save(state, done, plan=plan, secret=secret)
            saved = time.monotonic()
    final = state.trainable if state.average is None else state.average
    return Released(eqx.combine(final, fixed), plan.event)


def grid_of(plan: TrainingPlan, model: Any) -> Grid:
    """The integer grid a hardened run of `plan` releases its sums on."""
    extra = len(jax.tree.leaves(plan.clipping.init()))  # one count beside the gradient, if adaptive
    return hardened_grid(
        plan.clipping.sensitivity,
        noise_multiplier=plan.noise_multiplier,
        num_coordinates=num_parameters(model) + extra,
    )


def hardened_slack(model: Any, *, steps: int, others: int = 0) -> TotalVariation:
    """What a hardened run owes because its noise is only almost a rounded Gaussian.

    Args:
        model: The model to be trained.
        steps: Steps of the run.
        others: Numbers that get such noise outside training.
    """
    return TotalVariation(closeness(steps * (num_parameters(model) + 1) + others))  # and a count


# one compiled program for all runs of a plan: the splits of a cross-validation compile once
@eqx.filter_jit(donate="all-except-first")
def _run_block(inputs: tuple[Step, PyTree, Array, Array | None, Array], state: State) -> State:
    step, records, words, noise, count = inputs

    def body(i: Array, state: State) -> State:
        return step(state, records, words[i], None if noise is None else noise[i])

    return jax.lax.fori_loop(0, count, body, state)


def _keys(secret: Secret, first: int, count: int, block: int) -> np.ndarray:
    """Raw keys of `count` steps, padded to a block so that one compiled program serves all."""
    words = np.zeros((block, len(PURPOSES), 2), np.uint32)
    for i, purpose in enumerate(PURPOSES):
        words[:count, i] = secret.words(purpose, first, count)
    return words


def _noise(grid: Grid | None, count: int, block: int) -> np.ndarray | None:
    if grid is None:
        return None
    noise = np.zeros((block, grid.num_coordinates), np.int32)
    noise[:count] = draw((count, grid.num_coordinates), grid=grid)
    return noise
