"""The training of a rehearsal: the engine's steps on public rows, several settings in one program.

Clipping, noise, optimizer and averaging are those of `engine/step.py`. Two things differ, because
nothing here is private. Noise comes from the plain generator. And a step reads `BATCH` rows: the
planned noise is many times the sampling error of their mean, which costs a sixteenth of a planned step.
"""

# JAX and jaxtyping leave types open (trees, loops, new arrays); see [tool.pyright] in pyproject.toml
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false, reportMissingTypeStubs=false

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Key, PyTree

from veilflow.engine.observed import LossFn, measured, observe_gradients
from veilflow.engine.optimizer import Optimizer
from veilflow.models.architecture import Architecture
from veilflow.nn.frozen import trainable_part
from veilflow.releases.training import PrivateTraining, Task

BATCH = 64
"""Rows of a step."""
LANES = 3
"""Trainings that run side by side. One number for all, so that few programs are compiled."""
_SMALLEST = 1e-24
"""Below any squared norm that matters, so that nothing is divided by zero."""


def why_not(settings: Any) -> str | None:
    """Why a training with these settings cannot be rehearsed; None if it can."""
    if settings.clipping != "flat":
        return f"clipping={settings.clipping!r} cannot be rehearsed: only 'flat' can. Leave it out."
    if settings.noise_bands > 1:
        return (
            f"noise_bands={settings.noise_bands} cannot be rehearsed: only independent noise can. "
            "Leave it out."
        )
    return None


@dataclass(frozen=True)
class Program:
    """What is fixed when trainings are compiled; those that share it run together."""

    flow: Architecture
    optimizer: Optimizer
    """With a rate of 1 and without decay, which are numbers of each training."""
    steps: int
    ema_decay: float | None

    @classmethod
    def of(cls, training: PrivateTraining, flow: Architecture) -> "Program":
        """The program of a planned training.

        Raises:
            ValueError: Its clipping is not the flat one, or its noise is correlated.
        """
        settings: Any = training.settings
        reason = why_not(settings)
        if reason is not None:
            raise ValueError(reason)
        optimizer = Optimizer(
            name=settings.optimizer,
            learning_rate=1.0,
            schedule=settings.schedule,
            rate_decay=settings.rate_decay,
        )
        return cls(flow, optimizer, training.steps, settings.ema_decay)


@dataclass(frozen=True)
class Rehearsed:
    """A training to be rehearsed: the task as the engine would get it, and public rows."""

    task: Task
    rows: Float[np.ndarray, "rows dim"]

    @property
    def numbers(self) -> "_Numbers":
        """What differs between trainings of one program."""
        plan = self.task.plan
        clip_norm = plan.clipping.sensitivity
        return _Numbers(
            rate=jnp.float32(plan.optimizer.learning_rate),
            clip_norm=jnp.float32(clip_norm),
            decay=jnp.float32(plan.optimizer.weight_decay),
            noise=jnp.float32(plan.noise_multiplier * clip_norm / plan.expected_batch_size),
        )


class _Numbers(eqx.Module):
    rate: Float[Array, ""]
    clip_norm: Float[Array, ""]
    decay: Float[Array, ""]
    noise: Float[Array, ""]
    """Standard deviation of the noise in a mean gradient."""


def rehearsed(
    program: Program, jobs: Sequence[Rehearsed], key: Key[Array, ""]
) -> list[PyTree[Array]]:
    """The trained model of each job. All see the same batches and the same noise."""
    found: list[PyTree[Array]] = []
    for first in range(0, len(jobs), LANES):
        lanes = list(jobs[first : first + LANES])
        count = len(lanes)
        lanes += [lanes[0]] * (LANES - count)
        split = [trainable_part(job.task.model) for job in lanes]
        fixed = [eqx.partition(rest, eqx.is_array) for _, rest in split]
        starts, arrays, numbers, rows = (
            jax.tree.map(lambda *x: jnp.stack(x), *trees)
            for trees in (
                [start for start, _ in split],
                [rest for rest, _ in fixed],
                [job.numbers for job in lanes],
                [jnp.asarray(job.rows) for job in lanes],
            )
        )
        static = fixed[0][1]
        trained = _lanes(program, lanes[0].task.loss, static, starts, arrays, numbers, rows, key)
        for lane in range(count):
            mine = jax.tree.map(lambda x, i=lane: x[i], trained)
            found.append(eqx.combine(mine, split[lane][1]))
    return found


@eqx.filter_jit
def _lanes(
    program: Program,
    loss: LossFn,
    static: PyTree,
    starts: PyTree,
    arrays: PyTree,
    numbers: _Numbers,
    rows: Float[Array, "lanes rows dim"],
    key: Key[Array, ""],
) -> PyTree:
    def of_one(
        start: PyTree, fixed: PyTree, one: _Numbers, own: Float[Array, "rows dim"]
    ) -> PyTree:
        return _trained(program, loss, start, eqx.combine(fixed, static), one, own, key)

    return jax.vmap(of_one)(starts, arrays, numbers, rows)


def _trained(
    program: Program,
    loss: LossFn,
    start: PyTree,
    fixed: PyTree,
    numbers: _Numbers,
    rows: Float[Array, "rows dim"],
    key: Key[Array, ""],
) -> PyTree:
    """The parameters after all steps."""
    optimizer = program.optimizer.build(program.steps)
    schedule = program.optimizer.rate(program.steps)
    exist = jnp.ones(BATCH, bool)

    def step(i: Any, state: tuple[PyTree, PyTree, PyTree]) -> tuple[PyTree, PyTree, PyTree]:
        trainable, memory, average = state
        draw_key, loss_key, noise_key = jax.random.split(jax.random.fold_in(key, i), 3)
        batch = rows[jax.random.randint(draw_key, (BATCH,), 0, rows.shape[0])]
        model = eqx.combine(trainable, fixed)
        observed = measured(observe_gradients(loss, model, batch, exist, loss_key))
        norm = jnp.sqrt(jnp.maximum(observed.squared_norm(), _SMALLEST))
        factor = jnp.minimum(1.0, numbers.clip_norm / norm)
        total = observed.weighted_sum(observed.everywhere(factor))
        leaves, tree = jax.tree.flatten(total)
        keys = jax.random.split(noise_key, len(leaves))
        noisy = [
            g / BATCH + numbers.noise * jax.random.normal(k, g.shape)
            for g, k in zip(leaves, keys, strict=True)
        ]
        updates, memory = optimizer.update(jax.tree.unflatten(tree, noisy), memory, trainable)
        shrink = schedule(i) * numbers.decay
        updates = jax.tree.map(lambda u, p: numbers.rate * (u - shrink * p), updates, trainable)
        trainable = optax.apply_updates(trainable, updates)
        if program.ema_decay is not None:
            keep = jnp.minimum(program.ema_decay, (1.0 + i) / (10.0 + i))
            average = jax.tree.map(lambda m, p: keep * m + (1 - keep) * p, average, trainable)
        return trainable, memory, average

    state = (start, optimizer.init(start), start)
    last, _, average = jax.lax.fori_loop(0, program.steps, step, state)
    return last if program.ema_decay is None else average
