"""Train a small network on labeled images and count what it gets right, as one compiled program."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, Key

from reproductions.metrics.images.networks import Network, Weights
from reproductions.metrics.images.pixels import Labels, Pixels

_BATCH_SIZE = 200
_WEIGHT_DECAY = 1e-6
_TEST_BATCH_SIZE = 1_000
_FILLER = -1
"""Index and label of an image that only fills the last batch: never learned and never right."""


@dataclass(frozen=True)
class Recipe:
    """A network and how the paper trains it; batches of 200, Adam, weight decay 1e-6.

    Attributes:
        network: What is trained.
        learning_rate: Of Adam.
        epochs: Passes over the training images, each in a new order.
    """

    network: Network
    learning_rate: float
    epochs: int


def accuracies(
    recipe: Recipe,
    train: tuple[Pixels, Labels],
    test: tuple[Pixels, Labels],
    num_classes: int,
    *,
    seeds: Sequence[int],
) -> list[float]:
    """Train on `train` for each seed, and the shares of `test` that are classified right.

    As private as `test`. One program runs all seeds, in turns: side by side, convolutions of several
    networks are slower than one after another.
    """
    padded = _pad(*test, batch_size=_TEST_BATCH_SIZE)
    words = np.array([seed % 2**32 for seed in seeds], np.uint32)
    right = _train_and_count_all(recipe, num_classes, words, *train, *padded)
    return [int(number) / len(test[0]) for number in right]


@partial(jax.jit, static_argnums=(0, 1))
def _train_and_count_all(
    recipe: Recipe, num_classes: int, seeds: Int[Array, " runs"], *data: Array
) -> Int[Array, " runs"]:
    def of_seed(seed: Int[Array, ""]) -> Int[Array, ""]:
        return _train_and_count(recipe, num_classes, jax.random.key(seed), *data)

    return jax.lax.map(of_seed, seeds)


def _train_and_count(
    recipe: Recipe,
    num_classes: int,
    key: Key[Array, ""],
    images: Float[Array, "train channels height width"],
    labels: Int[Array, " train"],
    test_images: Float[Array, "batches batch channels height width"],
    test_labels: Int[Array, "batches batch"],
) -> Int[Array, ""]:
    init_key, train_key = jax.random.split(key)
    start = recipe.network.init(images.shape[1:], num_classes, init_key)
    weights = _train(recipe, start, images, labels, train_key)

    def count(_: None, batch: tuple[Array, Array]) -> tuple[None, Array]:
        logits = recipe.network.logits(weights, batch[0], None)
        return None, jnp.sum(jnp.argmax(logits, axis=1) == batch[1])

    return jnp.sum(jax.lax.scan(count, None, (test_images, test_labels))[1])


def _train(
    recipe: Recipe,
    weights: Weights,
    images: Float[Array, "train channels height width"],
    labels: Int[Array, " train"],
    key: Key[Array, ""],
) -> Weights:
    # decay enters as a part of the gradient, before Adam scales it: as in the paper's framework
    optimizer = optax.chain(
        optax.add_decayed_weights(_WEIGHT_DECAY), optax.adam(recipe.learning_rate)
    )
    num_images = len(images)
    batch_size = min(_BATCH_SIZE, num_images)
    num_batches = -(-num_images // batch_size)
    num_missing = num_batches * batch_size - num_images

    def loss(weights: Weights, rows: Int[Array, " batch"], drop: Key[Array, ""]) -> Array:
        # Cross-entropy of the logits. The authors' networks end in a softmax, and their loss applies
        # another one on top of it: gradients then vanish where an answer is confident. That is a
        # mistake and no part of the measure, so it is not repeated here.
        logits = recipe.network.logits(weights, images[rows], drop)
        errors = optax.softmax_cross_entropy_with_integer_labels(logits, labels[rows])
        real = rows != _FILLER
        return jnp.sum(jnp.where(real, errors, 0)) / jnp.sum(real)

    def step(state: tuple, given: tuple[Array, Array]) -> tuple[tuple, None]:
        weights, memory = state
        updates, memory = optimizer.update(jax.grad(loss)(weights, *given), memory, weights)
        return (optax.apply_updates(weights, updates), memory), None

    def epoch(state: tuple, epoch_key: Key[Array, ""]) -> tuple[tuple, None]:
        order_key, drop_key = jax.random.split(epoch_key)
        order = jax.random.permutation(order_key, num_images)
        order = jnp.pad(order, (0, num_missing), constant_values=_FILLER)
        batches = order.reshape(num_batches, batch_size)
        return jax.lax.scan(step, state, (batches, jax.random.split(drop_key, num_batches)))

    state = (weights, optimizer.init(weights))
    (weights, _), _ = jax.lax.scan(epoch, state, jax.random.split(key, recipe.epochs))
    return weights


def _pad(images: Pixels, labels: Labels, *, batch_size: int) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels in batches of one size, the last one filled with images of no class."""
    batch_size = min(batch_size, len(images))
    num_missing = -len(images) % batch_size
    images = np.pad(images, ((0, num_missing), (0, 0), (0, 0), (0, 0)))
    labels = np.pad(labels, (0, num_missing), constant_values=_FILLER)
    return images.reshape(-1, batch_size, *images.shape[1:]), labels.reshape(-1, batch_size)
