"""One private training step: draw a batch, clip, add noise, update. All of it runs on the device."""

# JAX and jaxtyping leave types open (trees, loops, new arrays); see [tool.pyright] in pyproject.toml
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false, reportMissingTypeStubs=false

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Int, Key, PyTree, UInt32

from veilflow._core import keys
from veilflow.engine import sampling
from veilflow.engine.observed import LossFn, clipped_total, observe_gradients
from veilflow.engine.plan import TrainingPlan
from veilflow.engine.turns import NOISE, Hidden
from veilflow.privacy.banded_noise import BandedNoise
from veilflow.privacy.events import NonPrivate
from veilflow.privacy.grid_noise import GridNoise
from veilflow.privacy.guarantees import ClippedSum, Released
from veilflow.privacy.mechanisms.gaussian import correlated, gaussian

PublicLossFn = Callable[[Any], Array]
"""loss(model) without records, such as weight penalties or log-determinants of linear maps."""

PURPOSES = ("draw", "loss", NOISE)
"""The purposes for which each step needs a key."""

_SPARE_CHUNK = 64
"""The size of chunks for records beyond the expected number, of which there are few."""


class State(eqx.Module):
    """Everything that changes from step to step. It holds released values only."""

    trainable: PyTree
    optimizer: PyTree
    clipping: PyTree
    average: PyTree
    step: Int[Array, ""]


class Step(eqx.Module):
    """The step of one plan, as a pure function of state, records and raw keys."""

    plan: TrainingPlan = eqx.field(static=True)
    loss_fn: LossFn = eqx.field(static=True)
    public_loss_fn: PublicLossFn | None = eqx.field(static=True)
    fixed: PyTree
    """The part of the model that is not trained."""
    chunk_size: int = eqx.field(static=True)
    noise: GridNoise | BandedNoise | None = None
    """None only if the plan is not private."""
    empty: bool = eqx.field(static=True, default=False)
    """Whether there are no records at all; the placeholder in their place is never drawn."""

    def init(self, trainable: PyTree) -> State:
        """The state before the first step."""
        optimizer = self.plan.optimizer.build(self.plan.steps).init(trainable)
        average = None if self.plan.ema_decay is None else jax.tree.map(jnp.array, trainable)
        start = jnp.zeros((), jnp.int32)
        return State(trainable, optimizer, self.plan.clipping.init(), average, start)

    def __call__(self, state: State, records: PyTree, words: UInt32[Array, "3 4"]) -> State:
        """The next state; `words` holds one raw key for each of `PURPOSES`."""
        return self.next(state, None, records, words)[0]

    def next(
        self,
        state: State,
        hidden: Hidden | None,
        records: PyTree,
        words: UInt32[Array, "3 4"],
    ) -> tuple[State, Hidden | None]:
        """The next state, and what is hidden beside it if noise is correlated."""
        if (hidden is None) != (self.plan.noise_bands == 1):
            raise ValueError(
                "a step with correlated noise needs the noise before it: call next, with Hidden."
            )
        draw_words, loss_words, noise_words = words
        num_records = jax.tree.leaves(records)[0].shape[0]
        places, drawn = sampling.sample(draw_words, num_records, self.plan.turn_rate)
        if hidden is not None:
            drawn &= hidden.in_turn(places, state.step, self.plan.noise_bands)
        if places is not None:  # from here on, the batch is all there is
            records = jax.tree.map(lambda x: x[places], records)
        if self.empty:
            drawn = jnp.zeros_like(drawn)
        loss_key = keys.wrap(loss_words[: keys.WORDS])
        total = self.clipped_sum(state.trainable, state.clipping, records, drawn, loss_key)
        if hidden is None:
            released = self._release(total, noise_words)
        else:
            released, hidden = self._release_correlated(total, noise_words, state.step, hidden)
        return self._move(state, released), hidden

    def clipped_sum(
        self,
        trainable: PyTree,
        clip_state: PyTree,
        records: PyTree,
        drawn: Bool[Array, " records"],
        key: Key[Array, ""],
    ) -> ClippedSum:
        """The sum of the clipped gradients of the drawn records, chunk by chunk."""
        model = eqx.combine(trainable, self.fixed)
        running = sampling.places(drawn)

        def of_chunk(start: Int[Array, ""], size: int) -> PyTree:
            return self.chunk_sum(model, clip_state, records, running, start, size, key)

        def add(start: Int[Array, ""], total: PyTree, size: int) -> PyTree:
            return jax.tree.map(jnp.add, total, of_chunk(start, size))

        # As many full chunks as the expected batch has, then small ones while records are left: no
        # batch is ever truncated. The running time shows how many it took (docs/limitations.md).
        # Each loop is one copy of the gradient in the program, so there are no more than needed.
        size, spare = self.chunk_size, min(self.chunk_size, _SPARE_CHUNK)
        chunks = max(1, int(self.plan.expected_batch_size // size))
        expected = jnp.asarray(chunks * size, jnp.int32)
        start = jnp.zeros((), jnp.int32)
        if chunks == 1 and spare < size:
            total, start, last = of_chunk(start, size), expected, running[-1]
        else:
            shapes = jax.eval_shape(lambda: of_chunk(start, size))
            total = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
            last = jnp.maximum(running[-1], expected)
            if spare < size:
                total = jax.lax.fori_loop(0, chunks, lambda i, t: add(i * size, t, size), total)
                start = expected
        _, total = jax.lax.while_loop(
            lambda carry: carry[0] < last,
            lambda carry: (carry[0] + spare, add(carry[0], carry[1], spare)),
            (start, total),
        )
        return ClippedSum(total, self.plan.clipping.sensitivity)

    def chunk_sum(
        self,
        model: Any,
        clip_state: PyTree,
        records: PyTree,
        running: Int[Array, " records"],
        start: Int[Array, ""],
        size: int,
        key: Key[Array, ""],
    ) -> PyTree:
        """The sum of the clipped gradients of drawn records `start` to `start + size`."""
        loss_key, clip_key = jax.random.split(jax.random.fold_in(key, start))
        positions, exist = sampling.chunk(running, start, size)
        rows = jax.tree.map(lambda x: x[positions], records)
        captured = observe_gradients(self.loss_fn, model, rows, exist, loss_key)
        clip = lambda o, k: self.plan.clipping.clip(o, clip_state, k)  # noqa: E731
        return clipped_total(clip, captured, clip_key)

    def _release(self, query: ClippedSum, words: UInt32[Array, " 4"]) -> Released[PyTree]:
        if not self.plan.private:
            return Released(query.total, NonPrivate())
        assert isinstance(self.noise, GridNoise), "a private step has noise"
        return gaussian(query, noise=self.noise, words=words)

    def _release_correlated(
        self, query: ClippedSum, words: UInt32[Array, " 4"], step: Int[Array, ""], hidden: Hidden
    ) -> tuple[Released[PyTree], Hidden]:
        assert isinstance(self.noise, BandedNoise), "correlated noise has bands"
        now = {"past": hidden.past, "step": step, "words": words}
        released, past = correlated(query, noise=self.noise, **now)
        return released, Hidden(past, hidden.groups)

    def _move(self, state: State, released: Released[PyTree]) -> State:
        """Update the parameters. This is post-processing of a released sum, which costs nothing."""
        size = self.plan.expected_batch_size
        total, clip_state = self.plan.clipping.gradient(released.value, state.clipping, size)
        gradient = jax.tree.map(lambda g: g / size, total)
        if self.public_loss_fn is not None:
            public = eqx.filter_grad(
                lambda t: self.public_loss_fn(eqx.combine(t, self.fixed))  # type: ignore[misc]
            )(state.trainable)
            gradient = jax.tree.map(jnp.add, gradient, public)
        # a public term that overflows must not turn every parameter into NaN
        gradient = jax.tree.map(lambda g: jnp.where(jnp.isfinite(g), g, 0), gradient)
        updates, optimizer = self.plan.optimizer.build(self.plan.steps).update(
            gradient, state.optimizer, state.trainable
        )
        trainable = optax.apply_updates(state.trainable, updates)
        average = state.average
        if self.plan.ema_decay is not None:
            # early averages must not depend on the random initialization
            t = state.step.astype(jnp.float32)
            decay = jnp.minimum(self.plan.ema_decay, (1 + t) / (10 + t))
            average = jax.tree.map(lambda m, p: decay * m + (1 - decay) * p, average, trainable)
        return State(trainable, optimizer, clip_state, average, state.step + 1)
