"""Cells of any type as text, each by itself.

Frames and arrays that were made from lists hold Python objects. The library that made them chose one
type for all, and one record can decide which: a complex number among whole numbers makes all of them
complex. The text of a cell therefore follows from the cell alone.
"""

import contextlib
import datetime as dt
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from veilflow.tabular.facts import OTHER

MISSING_WORDS = ("", "na", "n/a", "nan", "null", "none", "?")
"""Texts that people write for a missing cell, in lower case."""

_MAX_DIGITS = 40
"""Decimals with more digits before or after the point are written with an exponent."""
_MAX_BITS = 4096
"""Longer whole numbers are infinite as doubles; beyond some length Python refuses to write them."""


class WrongType(TypeError):
    """A column has a type that cannot be read as what it is declared to be."""


def array_words(array: pa.Array) -> pa.Array:
    """Cells of any simple type as text; NaN becomes null.

    Raises:
        WrongType: If the cells are nested, or of a type without a text.
    """
    kind = array.type
    is_text = pa.types.is_large_string(kind) or pa.types.is_string(kind)
    if is_text or pa.types.is_string_view(kind):
        return valid_text(array.cast(pa.large_string()))
    is_bytes = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    if is_bytes or pa.types.is_fixed_size_binary(kind):
        return _decoded(array)  # one record of bytes turns a column of text into bytes
    if pa.types.is_floating(kind):
        words = [number_word(cell) for cell in array.cast(pa.float64()).to_pylist()]
        return pa.array(words, pa.large_string())
    if pa.types.is_timestamp(kind):
        array = array.cast(pa.timestamp("us", kind.tz), safe=False)
    elif not (
        pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_date(kind)
    ):
        raise WrongType(type_name(kind))
    return pa.array([_scalar_word(cell) for cell in array], pa.large_string())


def object_cells(objects: Iterable[Any]) -> pa.Array:
    """Python objects as an array: in their own type if they share a safe one, else as text."""
    import pandas as pd

    # a signaling NaN raises where it is compared, as the test for missing cells does
    quiet = [float("nan") if isinstance(c, Decimal) and c.is_nan() else c for c in objects]
    missing = pd.isna(pd.Series(quiet, dtype=object)).to_numpy()
    cells = [None if gone else cell for cell, gone in zip(quiet, missing, strict=True)]
    kinds = {type(cell) for cell in cells} - {type(None)}
    # A common type guessed from several would read one record's cell by another's type. Moments are
    # not among the safe types: a column of them has one time zone, that of the first record.
    if len(kinds) <= 1 and kinds <= {str, int, float, bool, dt.date}:
        with contextlib.suppress(pa.ArrowException, ValueError, OverflowError):
            array = pa.array(cells)
            return array.cast(pa.large_string()) if pa.types.is_string(array.type) else array
    return pa.array([_object_word(cell) for cell in cells], pa.large_string())


def valid_text(words: pa.Array) -> pa.Array:
    """Text with a mark in place of bytes that are not UTF-8: other programs write such files."""
    try:
        words.validate(full=True)
    except pa.ArrowInvalid:
        return _decoded(words.cast(pa.large_binary()))
    return words


def type_name(kind: Any) -> str:
    """The name of a type; pyarrow calls pandas's periods `extension<pandas.period<...>>`."""
    return str(kind).removeprefix("extension<").split("<")[0]


def number_word(number: float | None) -> str | None:
    """A number as people write it; None for NaN."""
    if number is None or number != number:
        return None
    # whole numbers turn into floats where a frame has gaps: written as the numbers they are
    return str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)


def _decimal_word(number: Decimal) -> str:
    """A finite decimal as people write it: the zeros at its end belong to the type of its column."""
    if not -_MAX_DIGITS < number.adjusted() < _MAX_DIGITS:
        return str(number)
    text = format(number, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def _scalar_word(cell: pa.Scalar) -> str | None:
    """A cell of a typed column as text."""
    try:
        value = cell.as_py()
    except (OverflowError, ValueError):  # days beyond any calendar; the error would quote the cell
        return OTHER  # which no number, date or list is
    if isinstance(value, Decimal):
        return _decimal_word(value)
    return None if value is None else str(value)


def _object_word(cell: Any) -> str | None:
    """A cell among cells of other types, written as in a column of its own type."""
    if cell is None:
        return None
    if isinstance(cell, complex | np.complexfloating):
        if cell.imag:
            return OTHER
        cell = float(cell.real)
    if isinstance(cell, float | np.floating):
        return number_word(float(cell))
    if isinstance(cell, Decimal):
        return _decimal_word(cell) if cell.is_finite() else str(cell)
    if isinstance(cell, int) and cell.bit_length() > _MAX_BITS:
        return "inf" if cell > 0 else "-inf"
    if isinstance(cell, bytes | bytearray):  # as in a column of bytes
        return bytes(cell).decode("utf-8", "replace")
    if isinstance(cell, memoryview | list | tuple | dict | set | np.ndarray):
        return OTHER
    try:
        return str(cell).encode("utf-8", "replace").decode("utf-8")
    except Exception:  # whatever an object of another library raises concerns this cell alone
        return OTHER


def _decoded(array: pa.Array) -> pa.Array:
    words = [None if x is None else x.decode("utf-8", "replace") for x in array.to_pylist()]
    return pa.array(words, pa.large_string())
