"""Labels to places in the declared class list, each label by itself; none is ever shown."""

import numbers
import unicodedata
from collections.abc import Iterable
from typing import Any

import numpy as np

from veilflow.images.spec import ImageSpec

NOT_A_CLASS = -1
"""The place of a label that is in no class list."""


def class_places(labels: Any, spec: ImageSpec) -> np.ndarray:
    """For each label of an array its place in the class list, or `NOT_A_CLASS`.

    Text is one of the classes as it is written (see `text_places`). Numbers are looked up among
    classes that are numbers, and are places, counted from 0, where classes are text.

    Raises:
        TypeError: If labels are neither text nor numbers.
        ValueError: If they are not in one row.
    """
    array = np.asarray(labels)
    if array.ndim != 1:
        raise ValueError(
            f"labels must have 1 dimension, one label for each image, got {array.ndim}."
        )
    if array.dtype.kind in "UTO":
        return text_places(array.tolist(), spec)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"labels must be text or whole numbers, got the type {array.dtype}.")
    places = np.full(len(array), NOT_A_CLASS, np.int32)
    for place, value in enumerate(_numbers(spec)):
        places[array == value] = place
    return places


def text_places(labels: Iterable[Any], spec: ImageSpec) -> np.ndarray:
    """The same for labels one by one: spaces around text are dropped, whole numbers are decimal."""
    known: dict[Any, int] = {str(value): place for place, value in enumerate(spec.classes)}
    by_number = {value: place for place, value in enumerate(_numbers(spec))}

    def place(label: Any) -> int:
        if isinstance(label, str):
            return known.get(unicodedata.normalize("NFC", label.strip()), NOT_A_CLASS)
        if isinstance(label, numbers.Integral) and not isinstance(label, bool):
            return by_number.get(int(label), NOT_A_CLASS)
        return NOT_A_CLASS

    return np.array([place(label) for label in labels], np.int32)


def _numbers(spec: ImageSpec) -> list[int]:
    """The numbers that stand for the classes, in their order."""
    return [place if isinstance(value, str) else value for place, value in enumerate(spec.classes)]
