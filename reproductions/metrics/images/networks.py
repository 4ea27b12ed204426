"""The networks that measure images, on whole batches: two to train, and stages of fixed weights.

They are not private and need no per-example gradients: plain matrix products and convolutions. Weights
and biases of the paper's two start uniform in +-1/sqrt(inputs), as in the framework the paper used.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

Images = Float[Array, "batch channels height width"]
Maps = Float[Array, "batch height width channels"]
Logits = Float[Array, "batch classes"]
Weights = dict[str, Array]

_HIDDEN = 100
_CHANNELS = (32, 64)
_KERNEL = 3


@dataclass(frozen=True)
class Network:
    """An architecture: how its weights start, and the logits that they give.

    Attributes:
        init: From the shape of an image, the number of classes and a key to weights.
        logits: From weights, images and a key for dropout (None: nothing is dropped) to logits.
    """

    init: Callable[[tuple[int, ...], int, Key[Array, ""]], Weights]
    logits: Callable[[Weights, Images, Key[Array, ""] | None], Logits]


def _init_mlp(shape: tuple[int, ...], num_classes: int, key: Key[Array, ""]) -> Weights:
    first, second = jax.random.split(key)
    return {
        **_layer("hidden", math.prod(shape), _HIDDEN, first),
        **_layer("out", _HIDDEN, num_classes, second),
    }


def _mlp_logits(weights: Weights, images: Images, key: Key[Array, ""] | None) -> Logits:
    del key  # it drops nothing
    hidden = jax.nn.relu(_dense(weights, "hidden", images.reshape(len(images), -1)))
    return _dense(weights, "out", hidden)


def _init_cnn(shape: tuple[int, ...], num_classes: int, key: Key[Array, ""]) -> Weights:
    keys = jax.random.split(key, len(_CHANNELS) + 1)
    weights, (channels, height, width) = {}, shape
    for i, out_channels in enumerate(_CHANNELS):
        weights |= _layer(f"conv{i}", channels * _KERNEL**2, out_channels, keys[i])
        channels, height, width = out_channels, _halved(height), _halved(width)
    size = channels * height * width
    return weights | _layer("out", size, num_classes, keys[-1])


def _cnn_logits(weights: Weights, images: Images, key: Key[Array, ""] | None) -> Logits:
    keys = [None] * len(_CHANNELS) if key is None else jax.random.split(key, len(_CHANNELS))
    x = jnp.moveaxis(images, 1, 3)
    for i, drop in enumerate(keys):
        x = _strided_conv(x, weights[f"conv{i}"]) + weights[f"conv{i}.bias"][None, None, None]
        x = jax.nn.relu(x if drop is None else _dropout(x, drop))
    return _dense(weights, "out", x.reshape(len(x), -1))


def _strided_conv(
    images: Maps, kernel: Float[Array, "9*in out"], precision: jax.lax.Precision | None = None
) -> Maps:
    """A 3x3 convolution with stride 2 and a border of one zero: it halves the sides, rounded up.

    Written as one product with the nine shifted images side by side: within a scan on a CPU, XLA runs
    the convolution of its own, and its gradient, an order of magnitude slower.
    """
    padded = jnp.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    height, width = (_halved(side) for side in images.shape[1:3])
    shifted = [
        padded[:, i : i + 2 * height - 1 : 2, j : j + 2 * width - 1 : 2]
        for i in range(_KERNEL)
        for j in range(_KERNEL)
    ]
    return jnp.matmul(jnp.concatenate(shifted, axis=3), kernel, precision=precision)


@jax.jit
def stage_means(
    kernels: tuple[Float[Array, "9*in out"], ...], images: Images
) -> Float[Array, "batch features"]:
    """The means over the positions of every stage: convolution, ReLU. Pixels are moved to [-1, 1]."""
    means, x = [], jnp.moveaxis(2 * images - 1, 1, 3)
    for kernel in kernels:
        # a GPU would round to ten bits, and its distances would not be those of a CPU
        x = jax.nn.relu(_strided_conv(x, kernel, jax.lax.Precision.HIGHEST))
        means.append(jnp.mean(x, axis=(1, 2)))
    return jnp.concatenate(means, axis=1)


def _halved(side: int) -> int:
    return (side + 1) // 2


def _dropout(x: Array, key: Key[Array, ""]) -> Array:
    """Half of the numbers are dropped, by single random bits: a float for each would cost the most."""
    words = jax.random.bits(key, (-(-x.size // 32), 1), jnp.uint32)
    coins = words >> jnp.arange(32, dtype=jnp.uint32)[None] & 1
    return x * (2 * coins.reshape(-1)[: x.size].reshape(x.shape)).astype(x.dtype)


def _dense(weights: Weights, name: str, x: Float[Array, "batch in"]) -> Float[Array, "batch out"]:
    return x @ weights[name] + weights[f"{name}.bias"][None]


def _layer(name: str, num_inputs: int, num_outputs: int, key: Key[Array, ""]) -> Weights:
    weight_key, bias_key = jax.random.split(key)
    limit = 1 / math.sqrt(num_inputs)
    draw = partial(jax.random.uniform, minval=-limit, maxval=limit)
    return {
        name: draw(weight_key, (num_inputs, num_outputs)),
        f"{name}.bias": draw(bias_key, (num_outputs,)),
    }


MLP = Network(_init_mlp, _mlp_logits)
"""Linear(pixels, 100), ReLU, Linear(100, classes)."""

CNN = Network(_init_cnn, _cnn_logits)
"""Twice a 3x3 convolution of stride 2 (32, then 64 channels), dropout 0.5, ReLU; then Linear."""
