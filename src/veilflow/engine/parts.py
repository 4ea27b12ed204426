"""One model for each part of the records, all trained in one program.

A public rule, such as the label, assigns every record to exactly one part, and every part has its own
model. Stacked, they are one model: the gradient of a record is zero outside its own part, so it moves
the stacked sum by no more than the clip norm, and every coordinate of the sum gets its noise. The
price is that of training one model once. This is parallel composition, for add/remove: a record that
changes its label leaves one part and enters another, which is two steps between neighbors.

Parts may share some of their arrays, which then learn from all records. The bound is the same: the
gradient of a record has one place in the shared arrays and one in those of its part, and it is
clipped as a whole.
"""

# JAX and jaxtyping leave types open (trees, loops, new arrays); see [tool.pyright] in pyproject.toml
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

import functools
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key, PyTree

from veilflow._core import check
from veilflow._core.keys import Secret
from veilflow.engine import sampling
from veilflow.engine.blocks import (
    Carry,
    Monitor,
    check_floats,
    check_records,
    choose_chunk,
    no_records,
    run_block,
    run_steps,
    with_one_place,
)
from veilflow.engine.checkpoint import Checkpoint
from veilflow.engine.loop import noise_of
from veilflow.engine.observed import LossFn
from veilflow.engine.plan import TrainingPlan
from veilflow.engine.step import State, Step
from veilflow.nn.frozen import trainable_part
from veilflow.privacy.guarantees import ClippedSum, Released, Sensitive

_GPU_COMPILER = {"xla_gpu_autotune_level": 0, "xla_backend_optimization_level": 1}
"""The search for the fastest kernels takes longer than it saves in a run of a minute."""

PartedRecords = tuple[Any, Int[Array, " records"]]
"""Arrays with the records as first axis, and the part of each record."""


class PartsStep(Step):
    """The step of stacked models; only the sum over records differs from that of one model."""

    num_parts: int = eqx.field(static=True, default=1)
    at_once: int = eqx.field(static=True, default=1)
    """The number of parts processed in parallel; affects speed and memory only."""
    in_common: PyTree = eqx.field(static=True, default=False)
    """For each array of the model, whether all parts share it."""

    def clipped_sum(
        self,
        trainable: PyTree,
        clip_state: PyTree,
        records: PyTree,
        drawn: Bool[Array, " records"],
        key: Key[Array, ""],
    ) -> ClippedSum:
        """The sums of all parts, stacked; every record enters only the sum of its own part."""
        data, part = records
        common, own = eqx.partition(trainable, self.in_common)
        arrays, static = eqx.partition(self.fixed, eqx.is_array)
        common_arrays, own_arrays = eqx.partition(arrays, self.in_common)

        def of_part(inputs: tuple[PyTree, PyTree, Int[Array, ""], Key[Array, ""]]) -> PyTree:
            own, own_arrays, index, key = inputs
            trainable = eqx.combine(common, own)
            model = eqx.combine(trainable, common_arrays, own_arrays, static)
            running = sampling.places(drawn & (part == index))

            def add(carry: tuple[Int[Array, ""], PyTree]) -> tuple[Int[Array, ""], PyTree]:
                start, total = carry
                more = self.chunk_sum(model, clip_state, data, running, start, self.chunk_size, key)
                return start + self.chunk_size, jax.tree.map(jnp.add, total, more)

            # one program for all chunks, because compiling takes longer here than training
            nothing = jnp.zeros((), jnp.int32), jax.tree.map(jnp.zeros_like, trainable)
            return jax.lax.while_loop(lambda carry: carry[0] < running[-1], add, nothing)[1]

        keys = jax.random.split(key, self.num_parts)
        inputs = (own, own_arrays, jnp.arange(self.num_parts, dtype=jnp.int32), keys)
        totals = jax.lax.map(of_part, inputs, batch_size=self.at_once)
        together, apart = eqx.partition(totals, self.in_common)
        together = jax.tree.map(lambda x: jnp.sum(x, axis=0), together)
        return ClippedSum(eqx.combine(together, apart), self.plan.clipping.sensitivity)

    def _move(self, state: State, released: Released[PyTree]) -> State:
        """As for one model; shared arrays are sums over the records of all parts."""
        together, apart = eqx.partition(released.value, self.in_common)
        together = jax.tree.map(lambda x: x / self.num_parts, together)
        return super()._move(state, Released(eqx.combine(together, apart), released.event))


def train_parts(
    plan: TrainingPlan,
    loss_fn: LossFn,
    models: Any,
    records: Sensitive[PartedRecords],
    *,
    num_parts: int,
    secret: Secret,
    common: Callable[[Any], Sequence[Any]] | None = None,
    chunk_size: int | None = None,
    at_once: int | None = None,
    checkpoint: Checkpoint | None = None,
    monitor: Monitor | None = None,
) -> Released[Any]:
    """Train a model for each part as `plan` says.

    Guarantee:
        All returned parameters and all intermediate ones together are `plan.event` for add/remove of
        one record, as for `train`: the part of a record is a function of that record alone.

    Args:
        plan: Every public number of the run, the same for all parts. The divisor is that of one part.
        loss_fn: Loss of one record under the model of its part, `loss_fn(model, record, key)`.
        models: The models of all parts. Every array has the parts as first axis, except shared ones.
        records: Arrays with the records as first axis, and the part of each record, counted from 0.
            A part may have no records; a record outside all parts is never used.
        num_parts: The number of parts, which is public.
        secret: Source of all randomness of the run.
        common: Maps the models to the arrays that all parts share. They lack the axis of parts and
            learn from the records of all parts.
        chunk_size: Records of a part processed at once; affects speed and memory only.
        at_once: Parts processed at once, likewise; None for all.
        checkpoint: Where to save the state from time to time, and to resume from.
        monitor: Called between blocks with the number of completed steps.

    Returns:
        The released models, stacked like `models`.

    Raises:
        ValueError: The arrays of records differ in length, the models are not stacked, or the
            clipping has a state.
        PrivacyError: The checkpoint belongs to another plan or other records.
    """
    check.count(num_parts=num_parts)
    if jax.tree.leaves(plan.clipping.init()):
        raise ValueError("models of parts need a clipping with a fixed bound.")
    in_common = held_in_common(models, num_parts=num_parts, common=common)
    trainable, fixed = trainable_part(models)
    data, part = jax.tree.map(jnp.asarray, records.open())
    check_floats(trainable)
    check_records((data, part))
    if part.ndim != 1:
        raise ValueError("the parts of the records must be one array with one number per record.")
    if no_records(part):
        data, part = with_one_place(data), with_one_place(part, fill=-1)  # outside all parts
    if chunk_size is None:
        shared, own = eqx.partition(trainable, in_common)
        one = eqx.filter_eval_shape(lambda m: jax.tree.map(lambda x: x[0], m), own)
        chunk_size = choose_chunk(eqx.combine(shared, one), plan)
    check.count(chunk_size=chunk_size)
    at_once = num_parts if at_once is None else at_once
    check.count(at_once=at_once)

    noise = noise_of(plan, models)
    step = PartsStep(
        plan,
        loss_fn,
        None,
        fixed,
        chunk_size,
        noise,
        num_parts=num_parts,
        at_once=at_once,
        in_common=in_common,
    )
    final = run_steps(
        step,
        trainable,
        (data, part),
        secret=secret,
        checkpoint=checkpoint,
        monitor=monitor,
        compiled=_block(),
    )
    return Released(eqx.combine(final, fixed), plan.event)


def held_in_common(
    models: Any, *, num_parts: int, common: Callable[[Any], Sequence[PyTree]] | None
) -> PyTree:
    """For each array of stacked models, whether all parts share it.

    Raises:
        ValueError: An array that is not shared does not have the parts as first axis.
    """
    shared: PyTree = jax.tree.map(lambda _: False, models)
    if common is not None:
        shared = eqx.tree_at(common, shared, jax.tree.map(lambda _: True, common(models)))
    stacked = eqx.filter(eqx.filter(models, shared, inverse=True), eqx.is_array)
    if {leaf.shape[:1] for leaf in jax.tree.leaves(stacked)} != {(num_parts,)}:
        raise ValueError(f"every array of the models must have {num_parts} parts as first axis.")
    return shared


@functools.cache
def _block() -> Callable[..., Carry]:
    """A block of steps, compiled for the current device."""
    if jax.default_backend() != "gpu":
        return run_block
    block: Any = run_block
    # keywords of jax.jit are passed on, although its types do not say so
    return eqx.filter_jit(  # pyright: ignore[reportCallIssue]
        block.__wrapped__, donate="all-except-first", compiler_options=_GPU_COMPILER
    )
