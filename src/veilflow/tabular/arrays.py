"""Arrays of numbers, read cell by cell: no record changes the type of another."""

import contextlib
from typing import Any

import numpy as np

from veilflow.tabular import cells as reading
from veilflow.tabular.cells import Cells
from veilflow.tabular.words import object_cells

_NUMBERS = "biuf"


def as_array(source: Any) -> np.ndarray:
    """An array, or nested lists as one: of numbers if all cells are numbers, else of objects.

    NumPy on its own would turn all cells of a list into text if one of them is.
    """
    if hasattr(source, "__array__"):
        return np.asarray(source)
    with contextlib.suppress(ValueError, TypeError, OverflowError):
        array = np.asarray(source)
        if array.dtype.kind in _NUMBERS:
            return array
    return np.array(source, dtype=object)


def numbers(array: np.ndarray) -> Cells:
    """The cells of an array of any shape, read as `cells.numbers` reads those of a table."""
    if array.dtype.kind in _NUMBERS:
        with np.errstate(over="ignore"):  # some types are longer than a double
            values = array.astype(np.float64)
        return Cells(values, np.isnan(values), np.zeros(values.shape, bool))
    cells = reading.numbers(object_cells(list(array.reshape(-1))))
    return Cells(*(part.reshape(array.shape) for part in cells))


def or_nan(cells: Cells) -> np.ndarray:
    """The numbers, with NaN for every cell that is missing or not a number."""
    return np.where(cells.missing | cells.unreadable, np.nan, cells.values)
