"""The setting of the speed benchmarks: one flow, its private step and its plain step.

Both steps run many times inside one compiled loop, which is how `engine.train` runs them.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array

from veilflow.engine import Flat, Optimizer, Secret, TrainingPlan
from veilflow.engine.blocks import choose_chunk, step_words
from veilflow.engine.loop import noise_of
from veilflow.engine.step import Step
from veilflow.flows import Flow, maf
from veilflow.privacy.events import Gaussian
from veilflow.privacy.guarantees import ClippedSum, Released

FEATURES, BLOCKS, HIDDEN = 10, 5, (256, 256)
NUM_RECORDS = 24_000
CLIP_NORM = 1.0

Run = Callable[[Any, Any, Any], Any]
"""From state, records and raw keys to the state some steps later."""


def flow(hidden: tuple[int, ...] = HIDDEN, *, seed: int = 0) -> Flow:
    """The masked autoregressive flow everything is measured on."""
    return maf(FEATURES, key=jax.random.key(seed), blocks=BLOCKS, hidden=hidden)


def unrolled(model: Flow) -> Flow:
    """The same flow with its blocks traced side by side."""
    return Flow(model.base, dataclasses.replace(model.bijection, unroll=BLOCKS))


def records(num_records: int = NUM_RECORDS) -> Array:
    """Rows of standard normal numbers: speed does not depend on what they say."""
    return jax.random.normal(jax.random.key(1), (num_records, FEATURES))


def loss_fn(flow: Flow, row: Array, key: Any) -> Array:
    """The part of the loss that sees a record."""
    return -flow.private_log_prob(row)


def public_loss_fn(flow: Flow) -> Array:
    """The rest, which sees none."""
    return -flow.public_log_prob()


def plan(batch: int, *, num_records: int = NUM_RECORDS, steps: int = 1000) -> TrainingPlan:
    """A private run with Adam at this expected batch size."""
    return TrainingPlan(
        clipping=Flat(clip_norm=CLIP_NORM),
        noise_multiplier=1.0,
        sampling_rate=batch / num_records,
        expected_batch_size=batch,
        steps=steps,
    )


def raw_keys(steps: int, *, seed: int) -> np.ndarray:
    """Raw keys for some steps; repeatable, which a real run must not be."""
    return step_words(Secret.from_seed(seed), 0, steps)


class FloatNoise(Step):
    """The step with float32 normals in place of noise on a grid: what it would cost unprotected."""

    def _release(self, query: ClippedSum, words: Array) -> Released[Any]:
        leaves, structure = jax.tree.flatten(query.total)
        split = jax.random.split(jax.random.wrap_key_data(words[:2]), len(leaves))
        stddev = self.plan.noise_multiplier * query.clip_norm
        noisy = [
            x + stddev * jax.random.normal(k, x.shape) for x, k in zip(leaves, split, strict=True)
        ]
        return Released(jax.tree.unflatten(structure, noisy), Gaussian(self.plan.noise_multiplier))


def private_steps(
    model: Flow, batch: int, steps: int, *, kind: type[Step] = Step
) -> tuple[Any, Run]:
    """The first state and a function that takes `steps` full private steps."""
    chosen = plan(batch)
    trainable, fixed = eqx.partition(model, eqx.is_inexact_array)
    inputs = chosen, loss_fn, public_loss_fn, fixed, choose_chunk(model, chosen)
    step = kind(*inputs, noise_of(chosen, model))

    def run(state: Any, rows: Array, words: Array) -> Any:
        return jax.lax.fori_loop(0, steps, lambda i, s: step(s, rows, words[i]), state)

    return step.init(jax.tree.map(jnp.array, trainable)), run


def plain_steps(
    model: Flow, batch: int, steps: int, *, chunk: int | None = None
) -> tuple[Any, Run]:
    """The same without privacy: a uniform batch, the gradient of its mean loss, Adam.

    `chunk` sums the gradient over parts of the batch, which a cache may like better.
    """
    trainable, fixed = eqx.partition(model, eqx.is_inexact_array)
    adam = Optimizer().build(1000)
    parts = 1 if chunk is None else batch // chunk

    def loss(trainable: Any, rows: Array) -> Array:
        whole = eqx.combine(trainable, fixed)
        return -jnp.mean(jax.vmap(whole.log_prob)(rows))

    def gradient(trainable: Any, rows: Array) -> Any:
        if parts == 1:
            return jax.grad(loss)(trainable, rows)
        split = rows.reshape(parts, batch // parts, *rows.shape[1:])
        zero = jax.tree.map(jnp.zeros_like, trainable)
        add = lambda g, part: (jax.tree.map(jnp.add, g, jax.grad(loss)(trainable, part)), None)  # noqa: E731
        total, _ = jax.lax.scan(add, zero, split)
        return jax.tree.map(lambda g: g / parts, total)

    def step(state: Any, rows: Array, words: Array) -> Any:
        trainable, optimizer = state
        key = jax.random.wrap_key_data(words[0, :2])
        batch_rows = rows[jax.random.randint(key, (batch,), 0, rows.shape[0])]
        updates, optimizer = adam.update(gradient(trainable, batch_rows), optimizer, trainable)
        return optax.apply_updates(trainable, updates), optimizer

    def run(state: Any, rows: Array, words: Array) -> Any:
        return jax.lax.fori_loop(0, steps, lambda i, s: step(s, rows, words[i]), state)

    trainable = jax.tree.map(jnp.array, trainable)
    return (trainable, adam.init(trainable)), run


def as_call(state: Any, run: Run, rows: Any, words: np.ndarray) -> Callable[[], None]:
    """One call of a compiled run; the state goes on from call to call, as in training."""
    compiled = jax.jit(run, donate_argnums=0)

    def call() -> None:
        nonlocal state
        state = jax.block_until_ready(compiled(state, rows, words))

    return call
