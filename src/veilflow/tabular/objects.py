"""Python objects as cells of one column: each is written by itself, whatever the others are.

Frames and arrays that were made from lists hold such objects. The library that made them chose one
type for all, and one record can decide which: a complex number among whole numbers makes all of them
complex. What a cell says is therefore taken from the cell alone.
"""

import contextlib
import datetime as dt
from collections.abc import Iterable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from veilflow.tabular.cells import decimal_word, number_word
from veilflow.tabular.facts import OTHER

if TYPE_CHECKING:
    import pyarrow as pa

_MOST_BITS = 4096
"""Longer whole numbers are infinite as doubles; beyond some length Python refuses to write them."""


def object_cells(objects: Iterable[Any]) -> "pa.Array":
    """Python objects as an array: in their own type if they share one that is safe, else as text."""
    import pandas as pd
    import pyarrow as pa

    # a signaling NaN raises where it is compared, as the test for missing cells does
    quiet = [float("nan") if isinstance(c, Decimal) and c.is_nan() else c for c in objects]
    missing = pd.isna(pd.Series(quiet, dtype=object)).to_numpy()
    cells = [None if gone else cell for cell, gone in zip(quiet, missing, strict=True)]
    kinds = {type(cell) for cell in cells} - {type(None)}
    # a guess at one type for all would read one record's cell by another's type; moments are not
    # among them because a column of those has one time zone, that of the first record
    if len(kinds) <= 1 and kinds <= {str, int, float, bool, dt.date}:
        with contextlib.suppress(pa.ArrowException, ValueError, OverflowError):
            found = pa.array(cells)
            return found.cast(pa.large_string()) if pa.types.is_string(found.type) else found
    return pa.array([_word(cell) for cell in cells], pa.large_string())


def _word(cell: Any) -> str | None:
    """A cell among others of other types, written as in a column of its own type."""
    if cell is None:
        return None
    if isinstance(cell, complex | np.complexfloating):
        if cell.imag:
            return OTHER  # which no number, date or list is
        cell = float(cell.real)
    if isinstance(cell, float | np.floating):
        return number_word(float(cell))
    if isinstance(cell, Decimal):
        return decimal_word(cell) if cell.is_finite() else str(cell)
    if isinstance(cell, int) and cell.bit_length() > _MOST_BITS:
        return "inf" if cell > 0 else "-inf"
    if isinstance(cell, bytes | bytearray):  # as in a column of bytes
        return bytes(cell).decode("utf-8", "replace")
    if isinstance(cell, memoryview | list | tuple | dict | set | np.ndarray):
        return OTHER
    try:
        return str(cell).encode("utf-8", "replace").decode("utf-8")
    except Exception:  # what an object of some other library does is its own matter, and its cell's
        return OTHER
