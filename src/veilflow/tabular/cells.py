"""The cells of one column, read as its declaration says, each cell by itself.

How a cell is read never depends on other cells: one record must not change what another one means.
Spaces around text are ignored. Text that stands for a missing cell ("", "NA", "?", ...) is one, unless
it is a declared value. Messages name the column, and never quote a cell.
"""

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Shaped
from pyarrow import compute

from veilflow.tabular.columns import Boolean, Column, Datetime, Listed, Numeric
from veilflow.tabular.facts import EPOCH, OTHER
from veilflow.tabular.words import MISSING_WORDS, WrongType, array_words, type_name, valid_text

arrow: Any = compute  # pyarrow makes its functions when imported, unseen by type checkers

_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$|^[+-]?[iI][nN][fF]([iI][nN][iI][tT][yY])?$"
_MOMENT = r"^\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?$"
_LIKELY_MOMENT = r"^\d{4}-\d\d-\d\d([ T].*)?$|^\d{8}(T.*)?$"
_TRUTHS = {
    **dict.fromkeys(("true", "t", "yes", "y", "1", "1.0"), 1),
    **dict.fromkeys(("false", "f", "no", "n", "0", "0.0"), 0),
}
_UNITS = {"s": 1_000_000, "ms": 1000, "us": 1}
_MICROSECOND = dt.timedelta(microseconds=1)
_FIRST, _LAST = ((moment - EPOCH) // _MICROSECOND for moment in (dt.datetime.min, dt.datetime.max))
_NOUNS = {
    "numeric": "numbers",
    "clock": "clock times",
    "listed": "numbers",
    "datetime": "dates or times",
    "boolean": "truth values",
    "categorical": "listed values",
    "ordinal": "listed values",
    "open": "text",
}
_NOT_LISTED = (
    "has cells with none of its declared values. Add the missing values to the list if they are "
    "public, or declare an open column, whose values are discovered for a share of the budget."
)
_NO_NUMBERS = (
    "has cells that are not numbers. Write them with a decimal point, without separators of "
    "thousands and without signs of money or percent, or declare another kind of column."
)
_UNREADABLE = {
    "numeric": _NO_NUMBERS,
    "listed": _NO_NUMBERS,
    "clock": "has cells that are not times of day. Write them as whole numbers hhmm, such as 930 or "
    "2359.",
    "datetime": "has cells that are not dates or times. Write them like 1990-01-31 or "
    "1990-01-31T12:00:00.",
    "boolean": "has cells that are neither true nor false. Write true and false, yes and no, or 1 "
    "and 0.",
    "categorical": _NOT_LISTED,
    "ordinal": _NOT_LISTED,
}


class Cells(NamedTuple):
    """The cells of a column. Where a cell is missing or unreadable, its value has no meaning."""

    values: Shaped[np.ndarray, " n"]
    missing: Bool[np.ndarray, " n"]
    unreadable: Bool[np.ndarray, " n"]


Parse = Callable[[pa.Array], tuple[np.ndarray, np.ndarray]]
"""From texts to their values, and which texts have one."""


def read_column(
    name: str,
    column: Column,
    array: pa.Array,
    *,
    vocabulary: Sequence[str] = (),
    invalid: str = "error",
) -> Cells:
    """Read the cells of a column as what it is declared to be.

    Numbers are doubles, moments microseconds since 1970, truth values 0 and 1, and listed values
    their places in the list. In an open column every text outside of the vocabulary has the place
    after it.

    Args:
        name: The name of the column, for messages.
        column: Its declaration.
        array: Its cells.
        vocabulary: The values of an open column.
        invalid: "error" refuses unreadable cells, and missing ones unless the column is nullable;
            "replace" leaves both to the caller, who replaces them.

    Raises:
        ValueError: If the type of the array, or a cell that `invalid` refuses, is not as declared.
    """
    try:
        if isinstance(column, Datetime):
            cells = moments(array)
        elif isinstance(column, Numeric):
            cells = numbers(array)
        elif isinstance(column, Boolean):
            cells = _by_text(array, _lookup(lambda word: _TRUTHS.get(word.lower())))
        elif isinstance(column, Listed) and isinstance(column.values[0], int):
            cells = _listed_numbers(numbers(array), np.array(column.values, np.float64))
        else:
            closed = isinstance(column, Listed)
            values = column.values if closed else (*vocabulary, OTHER)
            places = {value: place for place, value in reversed(list(enumerate(values)))}
            cells = _by_text(array, _lookup(places.get))
            if not closed:
                others = np.where(cells.unreadable, len(vocabulary), cells.values)
                cells = Cells(others, cells.missing, np.zeros_like(cells.missing))
    except WrongType as error:
        raise wrong_type(name, column, error) from None
    if invalid == "error" and cells.unreadable.any():
        raise ValueError(f"column {name!r} {_UNREADABLE[column.kind]}")
    if invalid == "error":
        check_missing(name, column, bool(cells.missing.any()))
    return cells


def check_missing(name: str, column: Column, any_missing: bool) -> None:
    """Raise if cells are missing in a column that is not declared nullable."""
    if any_missing and not column.nullable:
        raise ValueError(
            f"column {name!r} has missing cells, but is not declared nullable. Declare it nullable, "
            "or fill them by a public rule; they are not guessed from the data."
        )


def wrong_type(name: str, column: Column, error: WrongType) -> ValueError:
    """The error about a column that has another type than declared."""
    return ValueError(
        f"column {name!r} is declared to hold {_NOUNS[column.kind]}, but its type in the table is "
        f"{error}. Change one of them."
    )


def numbers(array: pa.Array) -> Cells:
    """Numbers in double precision; NaN is a missing cell."""
    doubles = _doubles(array)
    if doubles is None:
        return _by_text(array, _parse_numbers)
    values = doubles.fill_null(np.nan).to_numpy(zero_copy_only=False)
    return Cells(values, np.isnan(values), np.zeros(len(values), bool))


def moments(array: pa.Array) -> Cells:
    """Microseconds since 1970, in UTC where cells have a time zone."""
    kind = array.type
    if not pa.types.is_date(kind) and not pa.types.is_timestamp(kind):
        return _by_text(array, _parse_moments)
    if pa.types.is_date32(kind):
        scale, counts = 86_400_000_000, array.cast(pa.int32())
    else:
        scale = 1000 if pa.types.is_date64(kind) else _UNITS.get(kind.unit, 0)
        counts = array.cast(pa.int64())
    values = counts.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    # values beyond any calendar would not fit into 64 bits once scaled; nanoseconds have scale 0
    scaled = np.clip(values, _FIRST // scale, _LAST // scale) * scale if scale else values // 1000
    missing = array.is_null().to_numpy(zero_copy_only=False)
    return Cells(scaled, missing, np.zeros(len(scaled), bool))


def texts(array: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """The distinct texts of a column, without spaces around them, and the place of each cell's text.

    The place of a cell that is not there is -1. Texts that differ by spaces only may occur twice.
    """
    if pa.types.is_null(array.type):
        return pa.array([], pa.large_string()), np.full(len(array), -1)
    if pa.types.is_nested(array.type) or isinstance(array.type, pa.BaseExtensionType):
        raise WrongType(type_name(array.type))
    encoded: Any = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    places = encoded.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    words = array_words(encoded.dictionary)
    if words.null_count:  # NaN, or null among the values of a dictionary
        gaps = words.is_null().to_numpy(zero_copy_only=False)
        places = np.where((places >= 0) & gaps[places], -1, places)
    return arrow.utf8_trim_whitespace(words.fill_null("")), places


def say_nothing(words: pa.Array) -> Bool[np.ndarray, " n"]:
    """Which texts stand for a missing cell."""
    return _silent(words).to_numpy(zero_copy_only=False)


def _silent(words: pa.Array) -> pa.Array:
    return arrow.is_in(arrow.utf8_lower(words), value_set=pa.array(MISSING_WORDS, words.type))


def _by_text(array: pa.Array, parse: Parse) -> Cells:
    """Read each distinct text once. A text without a value is a missing cell if it says nothing."""
    words, places = texts(array)
    # one more text for cells that are not there: place -1
    words = pa.concat_arrays([words, pa.array([""], words.type)])
    values, readable = parse(words)
    silent = say_nothing(words)
    missing, unreadable = ~readable & silent, ~readable & ~silent
    return Cells(values[places], missing[places], unreadable[places])


def _doubles(array: pa.Array) -> pa.Array | None:
    """Columns of numbers, and of text that is all numbers and gaps, at once; None for others.

    This is ten times faster than `_parse_numbers`, and gives the same numbers.
    """
    kind = array.type
    if pa.types.is_boolean(kind):
        array = array.cast(pa.uint8())
    elif pa.types.is_large_string(kind) or pa.types.is_string(kind):
        words = arrow.utf8_trim_whitespace(valid_text(array))
        try:
            doubles = arrow.if_else(_silent(words), None, words).cast(pa.float64())
        except pa.ArrowInvalid:
            return None
        # ways of writing NaN that only pyarrow knows are no numbers here
        return None if arrow.any(arrow.is_nan(doubles)).as_py() else doubles
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        return None
    return array.cast(pa.float64(), safe=False)


def _parse_numbers(words: pa.Array) -> tuple[np.ndarray, np.ndarray]:

    # as in columns of truth values, which count as 1 and 0
    words = arrow.replace_substring_regex(words, "^[tT]rue$", "1")
    words = arrow.replace_substring_regex(words, "^[fF]alse$", "0")
    good = arrow.match_substring_regex(words, _NUMBER)
    values = arrow.cast(arrow.if_else(good, words, "0"), pa.float64()).to_numpy()
    return values, good.to_numpy(zero_copy_only=False)


def _parse_moments(words: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    simple = arrow.match_substring_regex(words, _MOMENT)
    likely = arrow.match_substring_regex(words, _LIKELY_MOMENT).to_numpy(zero_copy_only=False)
    try:
        known = arrow.cast(arrow.if_else(simple, words, None), pa.timestamp("us")).cast(pa.int64())
        values = known.fill_null(_FIRST - 1).to_numpy(zero_copy_only=False).copy()
    except pa.ArrowInvalid:  # some day that no calendar has
        values = np.full(len(words), _FIRST - 1)
    for place in np.flatnonzero((values < _FIRST) & likely):
        values[place] = _parse_moment(words[int(place)].as_py())
    return values, values >= _FIRST


def _parse_moment(word: str) -> int:
    """Microseconds since 1970; before all dates if the word is none."""
    try:
        moment = dt.datetime.fromisoformat(word)
        if moment.tzinfo is not None:
            moment = moment.astimezone(dt.UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return _FIRST - 1
    return (moment - EPOCH) // _MICROSECOND


def _lookup(find: Callable[[str], int | None]) -> Parse:
    def parse(words: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        places = [find(word) for word in words.to_pylist()]
        values = np.array([0 if place is None else place for place in places], np.int64)
        return values, np.array([place is not None for place in places], bool)

    return parse


def _listed_numbers(cells: Cells, values: np.ndarray) -> Cells:
    """Places of numbers in a list of numbers; what is not in the list is unreadable."""
    order = np.argsort(values)
    place = order[np.searchsorted(values[order], cells.values).clip(max=len(values) - 1)]
    known = (values[place] == cells.values) & ~cells.unreadable
    return Cells(place, cells.missing, ~known & ~cells.missing)
