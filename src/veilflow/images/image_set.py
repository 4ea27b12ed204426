"""Images as one array: what reading gives and what training takes."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from veilflow.images.spec import ImageSpec


@dataclass(frozen=True, repr=False, eq=False)
class Images:
    """A set of images and their labels, as arrays that are not to be changed.

    Shows neither the images nor how many there are.

    Attributes:
        pixels: Of shape (images, channels, height, width): bytes of which 255 is 1, or numbers in
            [0, 1] in single precision. `to_unit` makes the latter of both, a batch at a time.
        labels: For each image the place of its class in the list; None if there are no classes.
        spec: What is declared about them.
    """

    pixels: np.ndarray
    labels: np.ndarray | None
    spec: ImageSpec

    def __post_init__(self) -> None:
        if self.pixels.dtype not in (np.uint8, np.float32):
            raise TypeError(f"pixels must be of type uint8 or float32, got {self.pixels.dtype}.")
        if self.pixels.shape[1:] != self.spec.shape:
            raise ValueError(
                f"pixels must have the shape (images, channels, height, width) and each image the "
                f"declared {self.spec.shape}, got {self.pixels.shape[1:]}."
            )
        if (self.labels is None) != (not self.spec.classes):
            raise ValueError("there must be labels if, and only if, classes are declared.")
        if self.labels is not None:
            if self.labels.dtype != np.int32:
                raise TypeError(f"labels must be of type int32, got {self.labels.dtype}.")
            if self.labels.shape != self.pixels.shape[:1]:
                raise ValueError("labels must be one number for each image.")
            if ((self.labels < 0) | (self.labels >= len(self.spec.classes))).any():
                raise ValueError("labels must be places in the class list, counted from 0.")
        for name in ("pixels", "labels"):
            array = getattr(self, name)
            if array is not None:
                array = array.view()
                array.flags.writeable = False
                object.__setattr__(self, name, array)

    def __len__(self) -> int:
        return len(self.pixels)

    def __repr__(self) -> str:
        return f"Images({self.spec!r})"

    def take(self, which: np.ndarray | slice) -> "Images":
        """Only these images, given by a mask, by indices or as a slice."""
        labels = None if self.labels is None else self.labels[which]
        return Images(self.pixels[which], labels, self.spec)


def to_unit(pixels: Any) -> Any:
    """Pixels as single-precision numbers in [0, 1]: bytes are divided by 255, others stay.

    Takes and gives arrays of NumPy or of JAX, also within a compiled program: bytes go to the device,
    and only a batch of them is ever four times as large.
    """
    if pixels.dtype == np.uint8:
        return pixels.astype(np.float32) / np.float32(255)
    if pixels.dtype == np.float32:
        return pixels
    raise TypeError(f"pixels must be of type uint8 or float32, got {pixels.dtype}.")
