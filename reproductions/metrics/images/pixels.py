"""Images as the measures need them: (images, channels, height, width), pixels in [0, 1]."""

from typing import Any

import numpy as np
from jaxtyping import Float, Int

Pixels = Float[np.ndarray, "images channels height width"]
Labels = Int[np.ndarray, " images"]


def pixels(*, min_images: int = 1, **named: Any) -> tuple[Pixels, ...]:
    """The named arrays in single precision in [0, 1], checked to be images of one size.

    Eight-bit images are divided by 255.

    Raises:
        ValueError: The message names the argument and shows shapes and types only, never a pixel.
    """
    found = {name: _in_unit_range(name, np.asarray(images)) for name, images in named.items()}
    for name, images in found.items():
        if len(images) < min_images:
            raise ValueError(f"{name} must hold at least {min_images} images, got {len(images)}.")
    sizes = {name: images.shape[1:] for name, images in found.items()}
    if len(set(sizes.values())) > 1:
        shown = ", ".join(f"{name} has {size}" for name, size in sizes.items())
        raise ValueError(f"all images must have the same (channels, height, width): {shown}.")
    return tuple(found.values())


def class_labels(num_classes: int, num_images: int, **named: Any) -> Labels:
    """The one named array of labels, checked to be a class in 0 ... num_classes - 1 per image."""
    ((name, values),) = named.items()
    labels = np.asarray(values)
    if labels.shape != (num_images,) or not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(
            f"{name} must be {num_images} whole numbers, one per image, got {labels.dtype} of shape "
            f"{labels.shape}."
        )
    if labels.min() < 0 or labels.max() >= num_classes:
        raise ValueError(
            f"{name} must lie in 0 ... {num_classes - 1}. Number the classes in that order, and "
            "give their number as num_classes."
        )
    return labels.astype(np.int32)


def _in_unit_range(name: str, images: np.ndarray) -> Pixels:
    if images.ndim != 4 or 0 in images.shape[1:]:
        raise ValueError(
            f"{name} must have shape (images, channels, height, width), got {images.shape}."
        )
    if images.dtype == np.uint8:
        return images.astype(np.float32) / np.float32(255)
    if not np.issubdtype(images.dtype, np.floating):
        raise ValueError(f"{name} must be 8-bit or floating-point images, got {images.dtype}.")
    # written so that NaN fails, too
    if images.size and not (images.min() >= 0 and images.max() <= 1):
        raise ValueError(
            f"{name} must have pixels in [0, 1], without NaN. Divide by the range, or clip samples."
        )
    return images.astype(np.float32)
