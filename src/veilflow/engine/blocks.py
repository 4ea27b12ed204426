"""Blocks of compiled steps, with progress and checkpoints between them.

Python sees a run only between blocks of steps, and there it sees released values only: parameters,
never losses, norms or batch sizes.
"""

# JAX and jaxtyping leave types open (trees, loops, new arrays); see [tool.pyright] in pyproject.toml
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

import math
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from veilflow._core.keys import Secret
from veilflow._core.threefry import KEY_WORDS
from veilflow.engine.checkpoint import Checkpoint
from veilflow.engine.observed import loose_size, num_parameters
from veilflow.engine.plan import TrainingPlan
from veilflow.engine.step import PURPOSES, State, Step
from veilflow.engine.turns import Hidden
from veilflow.privacy.banded_noise import BandedNoise

Carry = tuple[State, Hidden | None]
"""The state, and what correlated noise needs beside it. Only the state leaves the loop."""

Monitor = Callable[[int], None]
"""Called between blocks with the number of completed steps, and with nothing else."""

BLOCK = 256
"""The number of steps whose keys are sent to the device together."""
_BLOCK_SECONDS = 1.0
_LIMIT = 512 * 2**20
"""The most bytes that the per-record gradients of one chunk may take."""
_CPU_CHUNK = 576
"""On a CPU, more records than this do not fit the cache."""


# one compiled program for all runs of a plan: the splits of a cross-validation compile once
@eqx.filter_jit(donate="all-except-first")
def run_block(inputs: tuple[Step, PyTree, Array, Array], carry: Carry) -> Carry:
    """Run `count` steps; `inputs` are the step, the records, the keys of a block and `count`."""
    step, records, words, count = inputs
    one = lambda i, now: step.next(now[0], now[1], records, words[i])  # noqa: E731
    return jax.lax.fori_loop(0, count, one, carry)


def run_steps(
    step: Step,
    trainable: PyTree,
    records: PyTree,
    *,
    secret: Secret,
    checkpoint: Checkpoint | None,
    monitor: Monitor | None,
    compiled: Callable[..., Carry] = run_block,
) -> PyTree:
    """Run all steps of a plan, or those that remain after a checkpoint.

    Args:
        step: The step of the plan.
        trainable: The initial parameters.
        records: The records, as the step takes them.
        secret: Source of all randomness of the run.
        checkpoint: Where to save the state from time to time, and to resume from.
        monitor: Called with the number of completed steps.
        compiled: A block of steps, if it is not to be compiled as usual.

    Returns:
        The released parameters.
    """
    plan = step.plan
    # a copy, because the first block donates its buffers and the caller keeps the model
    state = step.init(jax.tree.map(jnp.array, trainable))
    done = 0
    if checkpoint is not None:
        state, done = checkpoint.restore(state, plan=plan, records=records, secret=secret)
    hidden = _hidden(step, records, secret, done)
    if monitor is not None:
        monitor(done)

    pace, saved = 1, time.monotonic()
    while done < plan.steps:
        count = min(pace, BLOCK, plan.steps - done)
        inputs = jax.tree.map(jnp.asarray, (_keys(secret, done, count), np.int32(count)))
        started = time.monotonic()
        state, hidden = jax.block_until_ready(compiled((step, records, *inputs), (state, hidden)))
        elapsed = time.monotonic() - started
        # the first call includes compilation, so its time says nothing about the next
        steady = int(count * _BLOCK_SECONDS / max(elapsed, 1e-6))
        pace = 8 if pace == 1 else max(2, min(2 * count, steady))
        done += count
        if monitor is not None:
            monitor(done)
        last = done == plan.steps
        if checkpoint is not None and (last or time.monotonic() - saved > checkpoint.seconds):
            checkpoint.save(state, done, plan=plan, secret=secret)
            saved = time.monotonic()
    return state.trainable if state.average is None else state.average


def _hidden(step: Step, records: PyTree, secret: Secret, done: int) -> Hidden | None:
    """What is hidden beside the state after `done` steps; None if noise is independent."""
    if not isinstance(step.noise, BandedNoise):
        return None
    size = jax.tree.leaves(records)[0].shape[0]
    return Hidden.after(done, noise=step.noise, num_records=size, secret=secret)


def check_records(records: PyTree) -> None:
    """Raise unless all arrays have the records as first axis. There may be no records."""
    lengths = {leaf.shape[:1] for leaf in jax.tree.leaves(records)}
    if len(lengths) != 1 or () in lengths:
        raise ValueError("records must be arrays of one common length.")


def no_records(records: PyTree) -> bool:
    """Whether there are no records. No records are a neighbor of one record, and train the same way."""
    return jax.tree.leaves(records)[0].shape[0] == 0


def with_one_place(records: PyTree, *, fill: int = 0) -> PyTree:
    """The records and one placeholder, so that a step has a row to index if there are no records.

    Args:
        records: Arrays with the records as first axis.
        fill: The value of the placeholder. The step must make sure that it is never drawn.
    """
    return jax.tree.map(
        lambda x: jnp.concatenate([x, jnp.full((1, *x.shape[1:]), fill, x.dtype)]), records
    )


def check_floats(trainable: PyTree) -> None:
    """Raise unless the parameters have a type for which clipping is proved to hold."""
    kinds = {str(leaf.dtype) for leaf in jax.tree.leaves(trainable)}
    if not kinds <= {"float32", "float64"}:
        raise ValueError(
            f"parameters must be float32 or float64, got {', '.join(sorted(kinds))}. Shorter floats "
            "round norms too coarsely for clipping to hold."
        )


def step_words(secret: Secret, first: int, count: int) -> np.ndarray:
    """Raw uint32 keys of `count` steps from `first` on, one for each purpose."""
    return np.stack(
        [secret.words(purpose, first, count, size=KEY_WORDS) for purpose in PURPOSES], axis=1
    )


def _keys(secret: Secret, first: int, count: int) -> np.ndarray:
    """Raw keys of `count` steps, padded to a full block so that one compiled program serves all."""
    words = step_words(secret, first, count)
    return np.concatenate([words, np.zeros((BLOCK - count, *words.shape[1:]), words.dtype)])


def choose_chunk(model: Any, plan: TrainingPlan, *, limit: int = _LIMIT) -> int:
    """The number of records to process at once, for this model on the current device.

    This affects speed and memory, never privacy. A CPU processes the expected batch in equal parts
    that fit its cache. An accelerator processes it in one go, with room for three standard deviations
    more, because a second pass would cost as much as the first. Parameters outside layers, and
    clippings that look at every entry, need a copy of their gradient for every record: chunks shrink
    to keep those within `limit` bytes.
    """
    batch = plan.expected_batch_size
    if jax.default_backend() == "cpu":
        size = batch / math.ceil(batch / _CPU_CHUNK)
    else:
        size = batch + 3 * batch**0.5
    size = 32 * math.ceil(size / 32)  # full vector registers
    per_record = num_parameters(model) if plan.clipping.materializes else loose_size(model)
    # sorting a sparsified gradient and drawing its random numbers takes a few copies of it
    bytes_per_record = 4 * per_record * (6 if plan.clipping.materializes else 2)
    if bytes_per_record:
        size = min(size, max(1, limit // bytes_per_record))
    return max(1, size)
