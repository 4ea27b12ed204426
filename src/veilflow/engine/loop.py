"""Training of one model: checks before the first step, and the release after the last one."""

# JAX and jaxtyping leave types open (trees, loops, new arrays); see [tool.pyright] in pyproject.toml
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from veilflow._core import check
from veilflow._core.keys import Secret
from veilflow.engine.blocks import (
    Monitor,
    check_floats,
    check_records,
    choose_chunk,
    no_records,
    run_steps,
    with_one_place,
)
from veilflow.engine.checkpoint import Checkpoint
from veilflow.engine.observed import LossFn, num_parameters
from veilflow.engine.plan import TrainingPlan
from veilflow.engine.step import PublicLossFn, Step
from veilflow.nn.frozen import trainable_part
from veilflow.privacy.banded_noise import BandedNoise
from veilflow.privacy.events import ApproximateDP
from veilflow.privacy.grid_noise import GridNoise, closeness, grid_for
from veilflow.privacy.guarantees import Released, Sensitive


def train(
    plan: TrainingPlan,
    loss_fn: LossFn,
    model: Any,
    records: Sensitive[Any],
    *,
    secret: Secret,
    public_loss_fn: PublicLossFn | None = None,
    chunk_size: int | None = None,
    checkpoint: Checkpoint | None = None,
    monitor: Monitor | None = None,
) -> Released[Any]:
    """Train `model` on `records` as `plan` says.

    Guarantee:
        The returned parameters and all intermediate ones together are `plan.event` for add/remove of
        one record, assuming that the noise is what it claims to be; see docs/limitations.md. Resuming
        from a checkpoint replays the same randomness on the same records and spends nothing more.

    Args:
        plan: Every public number of the run.
        loss_fn: Loss of one record, `loss_fn(model, record, key)`.
        model: Any pytree; its inexact arrays are trained, except those in frozen modules.
        records: Arrays with the records as first axis. Without records, the result is noise only.
        secret: Source of all randomness of the run.
        public_loss_fn: A term of the loss without records, whose gradient is added after the noise.
        chunk_size: Records processed at once; affects speed and memory only. None chooses it.
        checkpoint: Where to save the state from time to time, and to resume from.
        monitor: Called between blocks with the number of completed steps.

    Returns:
        The released model.

    Raises:
        ValueError: The arrays of records differ in length.
        PrivacyError: The checkpoint belongs to another plan or other records.
    """
    trainable, fixed = trainable_part(model)
    check_floats(trainable)
    data = jax.tree.map(jnp.asarray, records.open())
    check_records(data)
    empty = no_records(data)
    if empty:
        data = with_one_place(data)
    if chunk_size is None:
        chunk_size = choose_chunk(model, plan)
    check.count(chunk_size=chunk_size)

    noise = noise_of(plan, model)
    step = Step(plan, loss_fn, public_loss_fn, fixed, chunk_size, noise, empty=empty)
    final = run_steps(step, trainable, data, secret=secret, checkpoint=checkpoint, monitor=monitor)
    return Released(eqx.combine(final, fixed), plan.event)


def noise_of(plan: TrainingPlan, model: Any) -> GridNoise | BandedNoise | None:
    """The noise of a step of `plan`; None without privacy."""
    if not plan.private:
        return None
    extra = len(jax.tree.leaves(plan.clipping.init()))  # a count beside the gradient, if adaptive
    settings: dict[str, Any] = {
        "noise_multiplier": plan.noise_multiplier,
        "num_coordinates": num_parameters(model) + extra,
    }
    if plan.noise_bands > 1:
        return BandedNoise.of(plan.clipping.sensitivity, bands=plan.noise_bands, **settings)
    return GridNoise.on(grid_for(plan.clipping.sensitivity, **settings))


def noise_slack(num_parameters: int, *, steps: int, others: int = 0) -> ApproximateDP:
    """The price of noise that is not exactly Gaussian, for a whole run.

    Args:
        num_parameters: The most numbers that are trained.
        steps: The steps of the run.
        others: The most numbers that get noise outside of training.
    """
    size = num_parameters + 1  # the extra one is a count, if the clipping is adaptive
    return ApproximateDP(0.0, closeness(steps * size + others))
