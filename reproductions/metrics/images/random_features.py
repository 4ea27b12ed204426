"""Features of images from a small network with fixed random weights, where no Inception network is.

Why random weights and not trained ones: a network trained on private images would be as private as
they are, one trained on public digits would be blind to faces, and either would have to be shipped and
versioned. Random convolutions are the same for everybody, for any data and any size of image. Naeem et
al. (2020) found them the better guides where images are unlike photographs, as digits are. What they
miss is meaning: use them to compare models of one data set, at one size.
"""

import math
from typing import Any

import numpy as np

from reproductions.metrics.images.pixels import pixels
from reproductions.metrics.rows import Rows

_SEED = 20_230_309
_MIN_STAGES = 3
_LAST_SIDE = 4
_FIRST_CHANNELS, _MAX_CHANNELS = 32, 128


def small_features(images: Any, *, batch_size: int = 1_000) -> Rows:
    """Means over the positions of every stage of a fixed random network; as private as the images.

    A stage is a 3x3 convolution of stride 2 without bias, then a ReLU: 32, 64, then 128 channels. There
    are three stages, and more until the longer side is at most four: 224 features for images of 28 x 28
    and 32 x 32. The weights are normal with variance 2 / inputs, drawn by NumPy from a fixed seed, so
    that they are the same on every machine; pixels are moved to [-1, 1].

    Args:
        images: (images, channels, height, width), 8-bit or in [0, 1].
        batch_size: Images at a time; memory, not the result.
    """
    from reproductions.metrics.images.networks import stage_means

    (found,) = pixels(images=images)
    kernels = _kernels(found.shape[1:])
    size = min(batch_size, len(found))
    parts = []
    for first in range(0, len(found), size):
        batch = found[first : first + size]
        # one shape for all batches, so that one program is compiled
        filled = np.pad(batch, ((0, size - len(batch)), (0, 0), (0, 0), (0, 0)))
        parts.append(np.asarray(stage_means(kernels, filled))[: len(batch)])
    return np.concatenate(parts).astype(np.float64)


def _kernels(shape: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    channels, *sides = shape
    num_stages = max(_MIN_STAGES, math.ceil(math.log2(max(sides) / _LAST_SIDE)))
    # the old generator: NumPy promises that its draws never change
    rng = np.random.RandomState(_SEED)
    kernels, out_channels = [], _FIRST_CHANNELS
    for _ in range(num_stages):
        kernel = rng.standard_normal((9 * channels, out_channels))
        kernels.append((kernel * math.sqrt(2 / len(kernel))).astype(np.float32))
        channels, out_channels = out_channels, min(2 * out_channels, _MAX_CHANNELS)
    return tuple(kernels)
