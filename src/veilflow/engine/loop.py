"""Training of one model: what is checked before the first step, and what is released after the last."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from veilflow._core import check
from veilflow._core.keys import Secret
from veilflow.engine.blocks import Monitor, check_floats, check_records, run_steps
from veilflow.engine.checkpoint import Checkpoint
from veilflow.engine.memory import choose_chunk
from veilflow.engine.observed import LossFn, num_parameters
from veilflow.engine.plan import TrainingPlan
from veilflow.engine.step import PublicLossFn, Step
from veilflow.nn.frozen import trainable_part
from veilflow.privacy.events import TotalVariation
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.privacy.noise_source import Grid, closeness, hardened_grid


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
    check_floats(trainable)
    if checkpoint is not None:
        checkpoint.check_replayable(hardened=plan.hardened)
    data = jax.tree.map(jnp.asarray, records.open())
    check_records(data)
    if chunk_size is None:
        chunk_size = choose_chunk(model, plan)
    check.count(chunk_size=chunk_size)

    grid = grid_of(plan, model) if plan.hardened else None
    step = Step(plan, loss_fn, public_loss_fn, fixed, chunk_size, grid)
    final = run_steps(step, trainable, data, secret=secret, checkpoint=checkpoint, monitor=monitor)
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
