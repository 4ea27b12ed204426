"""Many images through a released model, in blocks of a fixed size for one compiled program.

Memory on the device does not grow with the number of images. Image i of a seed depends only on the
model, the seed, its class and i; on another kind of device it is the same image up to rounding.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from veilflow._core.chunks import apply_in_chunks
from veilflow._core.keys import Secret
from veilflow.images import ImageSpec
from veilflow.images.arrays import empty_pixels
from veilflow.images.sharpen import smooth_then_sharpen
from veilflow.models.image.latent_model import ClassModels

_CPU_PIXELS, _DEVICE_PIXELS = 2**16, 2**22
"""Numbers in a block of images: a small block stays in the cache of a processor."""
_MOST_IMAGES = 4096

Program = Callable[[ClassModels, Int[Array, ""], Array], Array]
"""From models, the index of a class and a block of its images to a value for each image."""


def block_size(spec: ImageSpec) -> int:
    """The number of images in a block on this device."""
    pixels = _CPU_PIXELS if jax.default_backend() == "cpu" else _DEVICE_PIXELS
    return max(1, min(_MOST_IMAGES, pixels // int(np.prod(spec.shape))))


def draw(
    models: ClassModels,
    spec: ImageSpec,
    num_images: int,
    *,
    places: list[int],
    secret: Secret,
    sharpen: float | None,
) -> np.ndarray:
    """Draw images of these classes in turns, with pixels as `spec` declares them.

    Args:
        models: The released models.
        spec: The declared form of the images.
        num_images: The number of images.
        places: Indices of the classes; image i is of class `places[i % len(places)]`.
        secret: The source of randomness.
        sharpen: The factor of sharpening, or None for images as they are drawn.
    """
    pixels = empty_pixels(num_images, spec, np.uint8 if spec.is_byte else np.float32)
    size, turns = block_size(spec), len(places)
    for offset, place in enumerate(places):
        for first in range(offset, num_images, size * turns):
            drawn = _draw(
                models,
                jnp.int32(place),
                secret.key("sample"),
                jnp.uint32([first, turns]),
                size=size,
                sharpen=sharpen,
                as_bytes=spec.is_byte,
            )
            into = pixels[first::turns][:size]
            into[:] = np.asarray(drawn)[: len(into)]
    return pixels


def apply(
    program: Program,
    models: ClassModels,
    pixels: np.ndarray,
    places: np.ndarray,
    spec: ImageSpec,
    out: np.ndarray,
) -> np.ndarray:
    """Fill `out` by a compiled program that sees images of one class at a time.

    Args:
        program: The program.
        models: The released models.
        pixels: The pixels of all images.
        places: The index of the class that each image is seen as.
        spec: The declared form of the images.
        out: An array for the results, one for each image.
    """
    size = block_size(spec)
    for place in np.unique(places):
        which, own = np.flatnonzero(places == place), jnp.int32(place)
        out[which] = apply_in_chunks(
            lambda block, own=own: program(models, own, jnp.asarray(block)),
            pixels[which],
            size=size,
        )
    return out


@eqx.filter_jit
def log_prob(models: ClassModels, place: Int[Array, ""], images: Array) -> Float[Array, " images"]:
    """A `Program`: the natural logarithm of the density of each image's code."""
    model, condition = models.of_class(place)
    return jax.vmap(lambda image: model.log_prob(image, condition))(images)


@eqx.filter_jit
def reconstruct_bytes(models: ClassModels, place: Int[Array, ""], images: Array) -> Array:
    """A `Program`: reconstructions in bytes."""
    return _bytes(reconstruct(models, place, images))


@eqx.filter_jit
def reconstruct(models: ClassModels, place: Int[Array, ""], images: Array) -> Array:
    """A `Program`: reconstructions in [0, 1]."""
    model, condition = models.of_class(place)
    return jnp.nan_to_num(jax.vmap(lambda image: model.reconstruct(image, condition))(images))


@eqx.filter_jit
def _draw(
    models: ClassModels,
    place: Int[Array, ""],
    key: Key[Array, ""],
    first_and_step: Int[Array, " 2"],
    *,
    size: int,
    sharpen: float | None,
    as_bytes: bool,
) -> Array:
    """Images number first, first + step, ... of one class."""
    model, condition = models.of_class(place)
    first, step = first_and_step

    def one(index: Int[Array, ""]) -> Array:
        own = jax.random.fold_in(jax.random.fold_in(key, first + step * index), place)
        return model.sample(own, condition)

    images = jnp.nan_to_num(jax.vmap(one)(jnp.arange(size, dtype=jnp.uint32)))
    if sharpen is not None:
        images = smooth_then_sharpen(images, sharpen)
    return _bytes(images) if as_bytes else images


def _bytes(images: Array) -> Array:
    return jnp.round(255 * images).astype(jnp.uint8)
