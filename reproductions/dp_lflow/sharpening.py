"""The authors' post-processing of samples: smooth, then sharpen. It reads nothing but the samples."""

import jax
import numpy as np

from reproductions.dp_lflow.data import FACTS
from veilflow.images import to_unit
from veilflow.images.sharpen import smooth_then_sharpen

RAW, SHARPENED = "raw", "sharpened"
"""Samples as they were drawn, and post-processed."""
_BLOCK = 10_000
"""Images at a time."""


def versions(name: str, images: np.ndarray) -> dict[str, np.ndarray]:
    """Samples of a data set in bytes: as they are and, where its authors have a factor, sharpened."""
    factor = FACTS[name].sharpness
    if factor is None:
        return {RAW: images}
    return {RAW: images, SHARPENED: _sharpened(images, factor)}


def _sharpened(images: np.ndarray, factor: float) -> np.ndarray:
    """From bytes, as anybody can who has the samples, to bytes."""
    program = jax.jit(smooth_then_sharpen, static_argnames="factor")
    made = np.empty_like(images)
    for first in range(0, len(images), _BLOCK):
        block = slice(first, first + _BLOCK)
        sharp = program(to_unit(images[block]), factor=factor)
        made[block] = np.rint(255 * np.asarray(sharp)).astype(np.uint8)
    return made
