"""Arrays of numbers, every cell by itself: what one record holds never changes the type of another."""

from typing import Any

import numpy as np

from veilflow.tabular import cells as reading
from veilflow.tabular.cells import Cells
from veilflow.tabular.words import object_cells

_NUMBERS = "biuf"


def as_array(source: Any) -> np.ndarray:
    """An array, or nested lists as one: of numbers if all cells are, else of the objects themselves.

    NumPy on its own would write all cells of a list as text where one of them is.
    """
    if hasattr(source, "__array__"):
        return np.asarray(source)
    try:
        found = np.asarray(source)
    except (ValueError, TypeError, OverflowError):
        found = None
    if found is not None and found.dtype.kind in _NUMBERS:
        return found
    return np.array(source, dtype=object)


def numbers(array: np.ndarray) -> Cells:
    """The cells of an array of any shape as `cells.numbers` reads them in a table."""
    if array.dtype.kind in _NUMBERS:
        with np.errstate(over="ignore"):  # of types longer than a double
            values = array.astype(np.float64)
        return Cells(values, np.isnan(values), np.zeros(values.shape, bool))
    found = reading.numbers(object_cells(list(array.reshape(-1))))
    return Cells(*(part.reshape(array.shape) for part in found))


def or_nan(found: Cells) -> np.ndarray:
    """The numbers, with NaN for every cell that is missing or no number."""
    return np.where(found.missing | found.unreadable, np.nan, found.values)
