"""Labels to places in the declared class list, each label by itself; none is ever shown."""

import numbers
import unicodedata
from typing import Any

import numpy as np

from veilflow.images.spec import ImageSpec

NOT_A_CLASS = -1
"""The place of a label that is in no class list."""


def class_places(labels: Any, spec: ImageSpec) -> np.ndarray:
    """For each label its place in the class list, or `NOT_A_CLASS`.

    Text is one of the classes as it is written, without spaces around it; whole numbers are decimal.
    Numbers are looked up among classes that are numbers, and are places, counted from 0, where classes
    are text. What type an array of labels has makes no difference: 2, 2.0 and True are the numbers 2,
    2 and 1.

    Args:
        labels: An array in one row, or anything to go through one by one.
        spec: What is declared about the images.

    Raises:
        ValueError: If they are not in one row.
    """
    labels = np.asarray(labels) if hasattr(labels, "__array__") else labels
    dimensions = getattr(labels, "ndim", 1)
    if dimensions != 1:
        raise ValueError(
            f"labels must have 1 dimension, one label for each image, got {dimensions}."
        )
    words: dict[str, int] = {str(value): place for place, value in enumerate(spec.classes)}
    by_number: dict[Any, int] = {value: place for place, value in enumerate(_numbers(spec))}

    def place(label: Any) -> int:
        if isinstance(label, str):
            return words.get(unicodedata.normalize("NFC", label.strip()), NOT_A_CLASS)
        label = label.item() if isinstance(label, np.bool_) else label
        if not isinstance(label, numbers.Number):
            return NOT_A_CLASS
        try:  # equal numbers of all types have one hash
            return by_number.get(label, NOT_A_CLASS)
        except TypeError:  # but a signaling NaN has none
            return NOT_A_CLASS

    return np.array([place(label) for label in labels], np.int32)


def _numbers(spec: ImageSpec) -> list[int]:
    """The numbers that stand for the classes, in their order."""
    return [place if isinstance(value, str) else value for place, value in enumerate(spec.classes)]
