"""Images and their labels as arrays: the result of reading and the input of training."""

import numbers
import unicodedata
from dataclasses import dataclass
from typing import Any

import numpy as np

from veilflow.images.spec import ImageSpec

NOT_A_CLASS = -1
"""The place of a label that is not in the class list."""


@dataclass(frozen=True, repr=False, eq=False)
class Images:
    """A set of images and their labels, as read-only arrays.

    The `repr` shows neither the images nor how many there are.

    Attributes:
        pixels: An array (images, channels, height, width) of bytes, where 255 stands for 1, or of
            numbers in [0, 1] in single precision. `to_unit` converts the former to the latter.
        labels: For each image the place of its class in the list; None if there are no classes.
        spec: The declared size, range and classes.
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
            raise ValueError("there must be labels if and only if classes are declared.")
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
        """The images that a mask, indices or a slice select."""
        labels = None if self.labels is None else self.labels[which]
        return Images(self.pixels[which], labels, self.spec)


def to_unit(pixels: Any) -> Any:
    """Pixels as single-precision numbers in [0, 1]: bytes are divided by 255, floats stay.

    Takes arrays of NumPy or of JAX, also within a compiled program. So bytes go to the device, and
    only one batch at a time takes four times their space.
    """
    if pixels.dtype == np.uint8:
        return pixels.astype(np.float32) / np.float32(255)
    if pixels.dtype == np.float32:
        return pixels
    raise TypeError(f"pixels must be of type uint8 or float32, got {pixels.dtype}.")


def class_places(labels: Any, spec: ImageSpec) -> np.ndarray:
    """For each label, read by itself, its place in the class list, or `NOT_A_CLASS`.

    Text is compared with the classes as they are written, without spaces around it. Numbers are
    looked up among classes that are numbers; if classes are text, they are places, counted from 0.
    The type of an array of labels makes no difference: 2, 2.0 and True are the numbers 2, 2 and 1.

    Args:
        labels: A one-dimensional array, or any iterable. No message shows one.
        spec: The declared classes.

    Raises:
        ValueError: If an array of labels has more dimensions.
    """
    labels = np.asarray(labels) if hasattr(labels, "__array__") else labels
    dimensions = getattr(labels, "ndim", 1)
    if dimensions != 1:
        raise ValueError(
            f"labels must have 1 dimension, one label for each image, got {dimensions}."
        )
    words = {str(value): place for place, value in enumerate(spec.classes)}
    by_number: dict[Any, int] = {
        place if isinstance(value, str) else value: place
        for place, value in enumerate(spec.classes)
    }

    def place(label: Any) -> int:
        if isinstance(label, str):
            return words.get(unicodedata.normalize("NFC", label.strip()), NOT_A_CLASS)
        label = label.item() if isinstance(label, np.bool_) else label
        if not isinstance(label, numbers.Number):
            return NOT_A_CLASS
        try:  # equal numbers of all types have the same hash
            return by_number.get(label, NOT_A_CLASS)
        except TypeError:  # except for a signaling NaN, which has none
            return NOT_A_CLASS

    return np.array([place(label) for label in labels], np.int32)
