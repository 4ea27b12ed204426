"""The generator of DP-MERF: from noise and a class to a row, trained on a released mean alone."""

from itertools import pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, Key

from reproductions.dp_hflow.merf_features import Features

_NOISE, _HIDDEN = 16, (256, 256)
_BATCH = 1024
_RATE = 2e-3


class Generator(eqx.Module):
    """Two hidden layers: numbers by a sigmoid, shares of listed values by softmax."""

    layers: tuple[eqx.nn.Linear, ...]
    num_numbers: int = eqx.field(static=True)
    sizes: tuple[int, ...] = eqx.field(static=True)
    num_classes: int = eqx.field(static=True)

    @classmethod
    def create(cls, features: Features, *, key: Key[Array, ""]) -> "Generator":
        """A fresh generator of the rows of a schema."""
        sizes = tuple(num for _, num in features.listed)
        ends = len(features.numbers) + sum(sizes)
        widths = (_NOISE + features.num_classes, *_HIDDEN, ends)
        keys = jax.random.split(key, len(widths) - 1)
        layers = tuple(
            eqx.nn.Linear(a, b, key=k) for (a, b), k in zip(pairwise(widths), keys, strict=True)
        )
        return cls(layers, len(features.numbers), sizes, features.num_classes)

    def __call__(self, noise: Array, label: Array) -> tuple[Array, Array]:
        """Positions of the numbers, and the shares of the values of listed variables."""
        x = jnp.concatenate([noise, jax.nn.one_hot(label, self.num_classes)])
        for layer in self.layers[:-1]:
            x = jax.nn.relu(layer(x))
        x = self.layers[-1](x)
        ends = np.cumsum((self.num_numbers, *self.sizes))
        parts = [jax.nn.softmax(x[a:b]) for a, b in pairwise(ends)]
        return jax.nn.sigmoid(x[: self.num_numbers]), jnp.concatenate([x[:0], *parts])


def trained(
    features: Features,
    mean: Float[np.ndarray, "features classes"],
    of_classes: Float[np.ndarray, " classes"],
    key: Key[Array, ""],
    steps: int,
) -> Generator:
    """A generator whose rows have about the released mean of features, class by class.

    Args:
        features: The features.
        mean: The released sum over the number of records.
        of_classes: The released shares of classes.
        key: Spent here, for weights and noise.
        steps: Steps of Adam. Each class has as many rows in a batch, weighted by its share.
    """
    weights_key, noise_key = jax.random.split(key)
    generator = Generator.create(features, key=weights_key)
    target, shares = jnp.asarray(mean, jnp.float32), jnp.asarray(of_classes, jnp.float32)
    optimizer = optax.adam(optax.cosine_decay_schedule(_RATE, max(1, steps)))
    each = max(1, _BATCH // features.num_classes)
    labels = jnp.repeat(jnp.arange(features.num_classes), each)

    def loss(generator: Generator, key: Array) -> Array:
        noise = jax.random.normal(key, (len(labels), _NOISE))
        made = features.of(*jax.vmap(generator)(noise, labels))
        means = made.reshape(features.num_classes, each, -1).mean(axis=1)
        return jnp.sum(jnp.square(shares[:, None] * means - target.T))

    @eqx.filter_jit
    def run(generator: Generator) -> Generator:
        arrays, rest = eqx.partition(generator, eqx.is_array)

        def step(i: Array, state: Any) -> Any:
            arrays, optimizer_state = state
            slope = jax.grad(lambda a: loss(eqx.combine(a, rest), jax.random.fold_in(noise_key, i)))
            updates, optimizer_state = optimizer.update(slope(arrays), optimizer_state, arrays)
            return optax.apply_updates(arrays, updates), optimizer_state

        arrays, _ = jax.lax.fori_loop(0, steps, step, (arrays, optimizer.init(arrays)))
        return eqx.combine(arrays, rest)

    return run(generator)


def outputs(
    generator: Generator, labels: Int[np.ndarray, " rows"], key: Key[Array, ""], block: int
) -> tuple[np.ndarray, np.ndarray]:
    """What the generator makes of fresh noise and these classes."""
    numbers, listed = _outputs(generator, jnp.asarray(labels), jax.random.fold_in(key, block))
    return np.asarray(numbers, np.float64), np.asarray(listed, np.float64)


@eqx.filter_jit
def _outputs(generator: Generator, labels: Array, key: Array) -> Any:
    return jax.vmap(generator)(jax.random.normal(key, (len(labels), _NOISE)), labels)
