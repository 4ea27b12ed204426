"""Sharper samples: smooth an image, then move it away from its own smoothed version.

Samples of a noisy decoder are both grainy and soft. Both steps read nothing but the samples, so they
are post-processing: free, whatever the factor, as long as nobody tuned it on private images.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from veilflow._core import check

_CENTER = 5
_TOTAL = 8 + _CENTER
"""The kernel is 1 at the eight neighbors and 5 in the center: its weights sum to 13."""


def sharpen(
    images: Float[Array, "*batch height width"], factor: float
) -> Float[Array, "*batch height width"]:
    """Blend images with their smoothed versions: `smoothed + factor * (images - smoothed)`.

    Factor 0 gives the smoothed images, 1 the original ones, more than 1 sharper ones. Pixels at the
    border have no full neighborhood and are not smoothed, nor are images with a side below 3.

    Args:
        images: Pixels in [0, 1]; the last two axes are height and width.
        factor: At least 0.

    Returns:
        Images of the same shape, clipped to [0, 1].
    """
    check.nonnegative(factor=factor)
    images = jnp.asarray(images)
    if images.ndim < 2 or not jnp.issubdtype(images.dtype, jnp.floating):
        raise ValueError(
            "images must hold floating-point pixels in [0, 1] of shape (..., height, width), got "
            f"{images.dtype} of shape {images.shape}. Divide 8-bit images by 255 first."
        )
    return jnp.clip(images + (1 - factor) * (_smooth(images) - images), 0, 1)


def smooth_then_sharpen(
    images: Float[Array, "*batch height width"], factor: float
) -> Float[Array, "*batch height width"]:
    """The post-processing of the DP-LFlow paper: smooth once, then sharpen.

    The authors' factors, public constants here, are 5 (MNIST), 8 (Fashion-MNIST) and 2 (CelebA).
    """
    return sharpen(sharpen(images, 0), factor)


def _smooth(images: Float[Array, "*batch height width"]) -> Float[Array, "*batch height width"]:
    height, width = images.shape[-2:]
    if min(height, width) < 3:
        return images
    shifted = [
        images[..., i : height - 2 + i, j : width - 2 + j] for i in range(3) for j in range(3)
    ]
    middle = images[..., 1:-1, 1:-1]
    return images.at[..., 1:-1, 1:-1].set((sum(shifted) + (_CENTER - 1) * middle) / _TOTAL)
