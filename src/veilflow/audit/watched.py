"""The real compiled step, run so that its releases can be observed.

Nothing of the step is reimplemented: `Watched` is the engine's step, and differs only in that it also
returns the noisy sum. An attacker who sees every gradient knows exactly this stream.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from veilflow.engine.loop import noise_of
from veilflow.engine.observed import LossFn
from veilflow.engine.optimizer import Optimizer
from veilflow.engine.parts import PartsStep
from veilflow.engine.plan import TrainingPlan
from veilflow.engine.step import PublicLossFn, State, Step
from veilflow.nn.frozen import trainable_part
from veilflow.privacy.guarantees import Released

Watch = Callable[[State, PyTree], Any]
"""What to record of a step, from the state before it and the sum it released."""


class Watched(Step):
    """The engine's step, which also returns what it released."""

    def _move(self, state: State, released: Released[PyTree]) -> Any:
        return super()._move(state, released), released.value


class WatchedParts(Watched, PartsStep):
    """The same for models of parts, which are trained together."""


def check_independent(plan: TrainingPlan) -> None:
    """Raise unless the noise of each step is its own, which is what attacks on steps assume."""
    if plan.noise_bands > 1:
        raise ValueError(
            "audits of steps are for independent noise. Give a plan with noise_bands=1."
        )


def plain_descent(plan: TrainingPlan, **changes: Any) -> TrainingPlan:
    """The plan with plain gradient descent: parameters are then sums of what was released.

    Optimizers process released sums, so no guarantee depends on the choice.
    """
    check_independent(plan)
    optimizer = Optimizer(name="sgd", learning_rate=1.0, schedule="constant")
    return replace(plan, optimizer=optimizer, ema_decay=None, **changes)


def watched(
    plan: TrainingPlan,
    loss_fn: LossFn,
    model: Any,
    *,
    public_loss_fn: PublicLossFn | None = None,
    chunk_size: int | None = None,
    num_parts: int | None = None,
    in_common: PyTree = False,
) -> tuple[Watched, State]:
    """The step of a plan for a model, and the state before the first step.

    With `num_parts` it is the step of that many stacked models, which may share some arrays.
    """
    check_independent(plan)
    trainable, fixed = trainable_part(model)
    if chunk_size is None:  # a few chunks and a remainder, as in a large run
        chunk_size = int(min(max(plan.expected_batch_size // 4, 4), 256))
    inputs = plan, loss_fn, public_loss_fn, fixed, chunk_size, noise_of(plan, model)
    if num_parts is None:
        step = Watched(*inputs)
    else:
        parts = {"num_parts": num_parts, "at_once": num_parts, "in_common": in_common}
        step = WatchedParts(*inputs, **parts)
    return step, step.init(jax.tree.map(jnp.array, trainable))


def run(
    step: Step,
    state: State,
    records: PyTree,
    words: Any,
    watch: Watch = lambda state, released: released,
) -> tuple[State, Any]:
    """Run steps in order; returns the last state, and what `watch` recorded of each step."""
    records = jax.tree.map(jnp.asarray, records)

    def one(state: State, words: Any) -> tuple[State, Any]:
        after, released = step(state, records, words)  # type: ignore[misc]
        return after, watch(state, released)

    return jax.lax.scan(one, state, words)


def has_count(plan: TrainingPlan) -> bool:
    """Whether the plan also releases a count; gradients are then in units of the current clip norm."""
    return bool(jax.tree.leaves(plan.clipping.init()))


def gradient_part(plan: TrainingPlan, released: PyTree) -> PyTree:
    """The gradients among what a step released."""
    return released[0] if has_count(plan) else released


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, compiled anew, so that the current engine is measured.

    Pass all arrays as arguments: the compiler can spend minutes on folding constants.
    """
    return eqx.filter_jit(lambda *inputs: function(*inputs))
