"""Engines that are wrong in ways that published code was: each is the real one with a piece swapped.

Every entry of `BROKEN` is a context manager. Within it, what the engine does is what the mistake makes
of it; nothing else is changed. Next to it stands the check that must notice.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

from veilflow._core import keys
from veilflow.engine import Flat, sampling
from veilflow.engine import observed as observed_module
from veilflow.engine import step as step_module
from veilflow.engine.clipping.clipping import shrink
from veilflow.engine.parts import PartsStep
from veilflow.engine.step import Step
from veilflow.privacy.events import Gaussian
from veilflow.privacy.guarantees import ClippedSum, Released


@contextmanager
def swapped(home: object, name: str, piece: object) -> Iterator[None]:
    """The engine with one piece exchanged; programs of the right one are not reused."""
    jax.clear_caches()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(home, name, piece)
        yield
    jax.clear_caches()


def no_noise() -> AbstractContextManager[None]:
    def gaussian(query, *, noise, words):
        return Released(query.total, Gaussian(noise.grid.noise_multiplier))

    return swapped(step_module, "gaussian", gaussian)


def noise_for_the_mean() -> AbstractContextManager[None]:
    """Noise of the size that a mean needs, on a sum."""

    def release(self, query, words):
        right = step_module.gaussian(query, noise=self.noise, words=words)
        size = self.plan.expected_batch_size
        return right.map(
            lambda noisy: jax.tree.map(lambda x, y: x + (y - x) / size, query.total, noisy)
        )

    return swapped(Step, "_release", release)


def one_key_for_all_tensors() -> AbstractContextManager[None]:
    def gaussian(query, *, noise, words):
        noisy = lambda x: x + noise.grid.spacing * noise.draws(words, x.size).reshape(x.shape)  # noqa: E731
        return Released(jax.tree.map(noisy, query.total), Gaussian(noise.grid.noise_multiplier))

    return swapped(step_module, "gaussian", gaussian)


def networks_clipped_apart() -> AbstractContextManager[None]:
    """Every layer is clipped to the bound that was promised for all of them together."""

    def clip(self, observed, state, key):
        factors = tuple(shrink(jnp.sqrt(n), self.clip_norm) for n in observed.norms)
        return observed.weighted_sum(factors)

    return swapped(Flat, "clip", clip)


def realized_batch_size() -> AbstractContextManager[None]:
    """The noisy sum is divided by the number of records that were drawn."""
    release = Step._release

    def call(self, state, records, words):
        loss_key = keys.wrap(words[1, : keys.WORDS])
        number = jax.tree.leaves(records)[0].shape[0]
        drawn = sampling.draw(words[0], number, self.plan.sampling_rate)
        total = self.clipped_sum(state.trainable, state.clipping, records, drawn, loss_key)
        released = release(self, total, words[2])
        scale = self.plan.expected_batch_size / jnp.maximum(jnp.sum(drawn), 1)
        return self._move(state, released.map(lambda t: jax.tree.map(lambda x: x * scale, t)))

    return swapped(Step, "__call__", call)


def nan_passes_the_clip() -> AbstractContextManager[None]:
    """Records count whatever their norm; "shrink if too long" leaves NaN as it is."""
    measured = observed_module.measured

    def careless(captured):
        found = measured(captured)
        norms = [
            observed_module._over_stack(layer, type(layer).squared_norm, tap)
            for layer, tap in zip(captured.layers, captured.taps, strict=True)
        ]
        norms += [jnp.sum(jnp.square(g), axis=tuple(range(1, g.ndim))) for g in captured.loose]
        parts = (captured.taps, captured.loose, tuple(norms))
        return eqx.tree_at(lambda o: (o.taps, o.loose, o.norms), found, parts)

    return swapped(observed_module, "measured", careless)


def shuffled_batches() -> AbstractContextManager[None]:
    """Records are dealt out in turn, in a new order each time round."""

    def call(self, state, records, words):
        loss_key = keys.wrap(words[1, : keys.WORDS])
        number = jax.tree.leaves(records)[0].shape[0]
        turns = min(round(1 / self.plan.sampling_rate), 2**30)
        order = jax.random.fold_in(jax.random.key(5), state.step // turns)
        drawn = jax.random.permutation(order, number) % turns == state.step % turns
        total = self.clipped_sum(state.trainable, state.clipping, records, drawn, loss_key)
        return self._move(state, self._release(total, words[2]))

    return swapped(Step, "__call__", call)


def batches_of_a_fixed_size() -> AbstractContextManager[None]:
    """A new random batch each step, always of the same size."""

    def draw(words, num_records, sampling_rate):
        order = jax.random.permutation(keys.wrap(words[: keys.WORDS]), num_records)
        return order < round(sampling_rate * num_records)

    return swapped(sampling, "draw", draw)


def empty_batch_skipped() -> AbstractContextManager[None]:
    call = Step.__call__

    def skipping(self, state, records, words):
        after = call(self, state, records, words)
        number = jax.tree.leaves(records)[0].shape[0]
        anybody = jnp.any(sampling.draw(words[0], number, self.plan.sampling_rate))
        before = (state, jax.tree.map(jnp.zeros_like, after[1]))
        return jax.tree.map(lambda new, old: jnp.where(anybody, new, old), after, before)

    return swapped(Step, "__call__", skipping)


def scaler_fitted_on_the_records() -> AbstractContextManager[None]:
    """Rows are standardized by their own mean and deviation before the gradient."""
    clipped_sum = Step.clipped_sum

    def scaled(self, trainable, clip_state, records, drawn, key) -> ClippedSum:
        def standard(x):
            if not jnp.issubdtype(x.dtype, jnp.inexact):
                return x
            spread = jnp.std(x, axis=0, keepdims=True) + 1e-6
            return (x - jnp.mean(x, axis=0, keepdims=True)) / spread

        scaled_records = jax.tree.map(standard, records)
        return clipped_sum(self, trainable, clip_state, scaled_records, drawn, key)

    return swapped(Step, "clipped_sum", scaled)


def noise_from_the_key_of_the_draw() -> AbstractContextManager[None]:
    call = Step.__call__

    def one_key(self, state, records, words):
        return call(self, state, records, jnp.stack([words[0], words[1], words[0]]))

    return swapped(Step, "__call__", one_key)


BROKEN: dict[str, tuple[Callable[[], AbstractContextManager[None]], str, str]] = {
    "no noise": (no_noise, "noise", "noise"),
    "noise for the mean": (noise_for_the_mean, "noise", "noise"),
    "one key for all tensors": (one_key_for_all_tensors, "noise", "independent noise"),
    "networks clipped apart": (networks_clipped_apart, "sensitivity", "sensitivity"),
    "realized batch size": (realized_batch_size, "scale", "number of records"),
    "NaN passes the clip": (nan_passes_the_clip, "sensitivity", "not finite"),
    "shuffled batches": (shuffled_batches, "sampling", "turns"),
    "batches of a fixed size": (batches_of_a_fixed_size, "sampling", "batch sizes"),
    "empty batch skipped": (empty_batch_skipped, "noise", "empty batch"),
    "scaler fitted on the records": (scaler_fitted_on_the_records, "sensitivity", "sensitivity"),
    "noise from the key of the draw": (
        noise_from_the_key_of_the_draw,
        "noise",
        "key of the noise",
    ),
}
"""By name: the mistake, the part of `engine_check` that meets it, and the check that must fail."""


def _noise_of_parts(rework: Callable[[jax.Array, jax.Array], jax.Array]):
    """Steps of parts with other noise: `rework` has that of all parts in an array, and their sums."""
    release = Step._release

    def reworked(self, query, words):
        right = release(self, query, words)
        noise = jax.tree.map(jnp.subtract, right.value, query.total)
        common, own = eqx.partition(noise, self.in_common)
        _, sums = eqx.partition(query.total, self.in_common)
        noise = eqx.combine(common, jax.tree.map(rework, own, sums))
        return Released(jax.tree.map(jnp.add, query.total, noise), right.event)

    return swapped(PartsStep, "_release", reworked)


def one_noise_for_all_parts() -> AbstractContextManager[None]:
    """Every part draws its noise with the same key."""
    return _noise_of_parts(lambda noise, sums: jnp.broadcast_to(noise[:1], noise.shape))


def noise_on_one_part() -> AbstractContextManager[None]:
    return _noise_of_parts(lambda noise, sums: noise.at[1:].set(0))


def empty_part_skipped() -> AbstractContextManager[None]:
    """A part of whose records none was drawn is left as it is."""

    def rework(noise, sums):
        anybody = jnp.any(sums != 0, axis=tuple(range(1, sums.ndim)), keepdims=True)
        return jnp.where(anybody, noise, 0)

    return _noise_of_parts(rework)


def record_in_two_parts() -> AbstractContextManager[None]:
    """What a record adds to its own part it adds to the next one, too."""
    clipped_sum = PartsStep.clipped_sum

    def leaking(self, *inputs) -> ClippedSum:
        query = clipped_sum(self, *inputs)
        common, own = eqx.partition(query.total, self.in_common)
        own = jax.tree.map(lambda x: x + jnp.roll(x, 1, axis=0), own)
        return ClippedSum(eqx.combine(common, own), query.clip_norm)

    return swapped(PartsStep, "clipped_sum", leaking)


def realized_size_of_a_part() -> AbstractContextManager[None]:
    """The noisy sum of each part is divided by how many of its records were drawn."""
    release = Step._release

    def call(self, state, records, words):
        loss_key = keys.wrap(words[1, : keys.WORDS])
        part = records[1]
        drawn = sampling.draw(words[0], len(part), self.plan.sampling_rate)
        total = self.clipped_sum(state.trainable, state.clipping, records, drawn, loss_key)
        released = release(self, total, words[2])
        found = jnp.bincount(jnp.where(drawn, part, self.num_parts), length=self.num_parts)
        scale = self.plan.expected_batch_size / jnp.maximum(found, 1)
        common, own = eqx.partition(released.value, self.in_common)
        own = jax.tree.map(lambda x: x * scale.reshape(-1, *[1] * (x.ndim - 1)), own)
        return self._move(state, Released(eqx.combine(common, own), released.event))

    return swapped(PartsStep, "__call__", call)


BROKEN_PARTS: dict[str, tuple[Callable[[], AbstractContextManager[None]], str, str]] = {
    "one noise for all parts": (one_noise_for_all_parts, "noise", "independent noise"),
    "noise on one part": (noise_on_one_part, "noise", "noise of every coordinate"),
    "empty part skipped": (empty_part_skipped, "noise", "empty batch"),
    "record in two parts": (record_in_two_parts, "sensitivity", "other parts"),
    "networks clipped apart": (networks_clipped_apart, "sensitivity", "sensitivity"),
    "NaN passes the clip": (nan_passes_the_clip, "sensitivity", "not finite"),
    "realized size of a part": (realized_size_of_a_part, "scale", "number of records"),
    "shuffled batches": (shuffled_batches, "sampling", "turns"),
}
"""The same for models of parts, with `num_parts`."""
