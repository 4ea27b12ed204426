"""Images as rows to attack: how well a model tells them, how dense their codes are, where they lie."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from veilflow.images import Images, read_images, to_unit

_BLOCK = 4096
"""Images that are reconstructed at once."""
_MOST_NUMBERS = 50_000_000
"""In the pixels of all synthetic images that are drawn to compare with."""


def opened(model: Any, images: Any) -> Images:
    """Images by the specification of a model."""
    return read_images(images, model.spec)


def reconstruction_scores(
    model: Any, sides: Sequence[Images]
) -> list[Float[np.ndarray, " images"]]:
    """Minus the squared error of each image as its code tells it, less the middle one of its class.

    An autoencoder that has images by heart tells them better than others. On overfitted models this
    attack is far stronger than that by codes.
    """
    return within_classes([_minus_errors(model, images) for images in sides], sides)


def code_scores(model: Any, sides: Sequence[Images]) -> list[Float[np.ndarray, " images"]]:
    """The log density of each image's code, less the middle one of its class."""
    return within_classes([np.asarray(model.log_prob(x), float) for x in sides], sides)


def within_classes(
    scores: Sequence[Float[np.ndarray, " images"]], sides: Sequence[Images]
) -> list[Float[np.ndarray, " images"]]:
    """Scores less the middle one of their class.

    Every class has a level of its own: its codes have coordinates of their own, and its images more
    or less to tell. The middle is that of all sides together: it does not know which is which.
    """
    every = np.concatenate(scores)
    places = np.concatenate(
        [np.zeros(len(x), np.int32) if x.labels is None else x.labels for x in sides]
    )
    for place in np.unique(places):
        middle = np.median(every[places == place])
        if np.isfinite(middle):
            every[places == place] -= middle
    return np.split(every, np.cumsum([len(x) for x in scores])[:-1])


def _minus_errors(model: Any, images: Images) -> Float[np.ndarray, " images"]:
    found = np.empty(len(images))
    for start in range(0, len(images), _BLOCK):
        block = images.take(slice(start, start + _BLOCK))
        told = to_unit(model.reconstruct(block).pixels)
        squares = np.square(told - to_unit(block.pixels), dtype=float)
        found[start : start + _BLOCK] = -squares.sum(axis=(1, 2, 3))
    return found


def pixels(model: Any, images: Any) -> Float[np.ndarray, "images pixels"]:
    """Images as points, every pixel from 0 to 1."""
    found = opened(model, images).pixels
    return np.asarray(to_unit(found), float).reshape(len(found), -1)


def how_many(model: Any, most: int) -> int:
    """Synthetic images to draw: `most`, or fewer where they are large."""
    return int(max(100, min(most, _MOST_NUMBERS // np.prod(model.spec.shape))))
