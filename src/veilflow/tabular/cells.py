"""Cells of one column read as what its declaration says they are, each cell by itself.

How a cell is read never depends on other cells: one record must not change what another one means.
Text is read without spaces around it. Text that says nothing ("", "NA", "?", ...) is a missing cell,
unless it is a declared value.
"""

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Shaped

from veilflow.tabular.facts import EPOCH, OTHER
from veilflow.tabular.text import MISSING_WORDS

if TYPE_CHECKING:
    import pyarrow as pa

_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$|^[+-]?[iI][nN][fF]([iI][nN][iI][tT][yY])?$"
_MOMENT = r"^\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?$"
_LIKELY_MOMENT = r"^\d{4}-\d\d-\d\d([ T].*)?$|^\d{8}(T.*)?$"
_TRUTHS = {
    **dict.fromkeys(("true", "t", "yes", "y", "1", "1.0"), 1),
    **dict.fromkeys(("false", "f", "no", "n", "0", "0.0"), 0),
}
_MOST_DIGITS = 40
"""Before or after the point, of decimals that are written out; beyond, with an exponent."""
_UNITS = {"s": 1_000_000, "ms": 1000, "us": 1}
_MICROSECOND = dt.timedelta(microseconds=1)
_FIRST, _LAST = ((moment - EPOCH) // _MICROSECOND for moment in (dt.datetime.min, dt.datetime.max))


class Cells(NamedTuple):
    """The cells of a column. Where a cell is missing or not readable its value means nothing."""

    values: Shaped[np.ndarray, " n"]
    missing: Bool[np.ndarray, " n"]
    unreadable: Bool[np.ndarray, " n"]


class WrongType(TypeError):
    """The whole column is of a type that cannot be read as what it is declared to be."""


def numbers(array: "pa.Array") -> Cells:
    """Numbers in double precision; NaN is a missing cell."""
    import pyarrow as pa

    kind = array.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return _plain_numbers(array)
    if pa.types.is_boolean(kind):
        return _plain_numbers(array.cast(pa.uint8()))
    if pa.types.is_large_string(kind) or pa.types.is_string(kind):
        found = _all_numbers(array)
        if found is not None:
            return found
    return _by_text(array, _parse_numbers)


def moments(array: "pa.Array") -> Cells:
    """Microseconds since 1970, in UTC where cells have a time zone."""
    import pyarrow as pa

    kind = array.type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return _plain_moments(array)
    return _by_text(array, _parse_moments)


def truths(array: "pa.Array") -> Cells:
    """1 for true and 0 for false; words and numbers that say so are understood."""
    return _by_text(array, lambda words: _looked_up(words, lambda word: _TRUTHS.get(word.lower())))


def listed(array: "pa.Array", values: Sequence[str] | Sequence[int]) -> Cells:
    """Places of the cells in a list of values; what is not in the list is not readable."""
    if isinstance(values[0], int):
        return _listed_numbers(numbers(array), np.array(values, np.float64))
    places: Mapping[Any, int] = {value: place for place, value in enumerate(values)}
    return _by_text(array, lambda words: _looked_up(words, places.get))


def texts(array: "pa.Array") -> "tuple[pa.Array, np.ndarray]":
    """The distinct texts of a column, without spaces around them, and the place of each cell's.

    Places are -1 where there is no cell. Texts that only differ by spaces may occur twice.
    """
    import pyarrow as pa
    from pyarrow import compute

    # pyarrow makes its functions when imported, out of sight of type checkers.
    arrow: Any = compute
    if pa.types.is_null(array.type):
        return pa.array([], pa.large_string()), np.full(len(array), -1)
    if pa.types.is_nested(array.type) or isinstance(array.type, pa.BaseExtensionType):
        raise WrongType(_type_name(array.type))
    encoded: Any = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    places = encoded.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    words = _words(encoded.dictionary)
    if words.null_count:  # NaN, or null among the values of a dictionary
        gaps = words.is_null().to_numpy(zero_copy_only=False)
        places = np.where((places >= 0) & gaps[places], -1, places)
    return arrow.utf8_trim_whitespace(words.fill_null("")), places


def say_nothing(words: "pa.Array") -> Bool[np.ndarray, " n"]:
    """Which texts stand for a missing cell."""
    import pyarrow as pa
    from pyarrow import compute

    arrow: Any = compute
    silent = pa.array(MISSING_WORDS, words.type)
    return arrow.is_in(arrow.utf8_lower(words), value_set=silent).to_numpy(zero_copy_only=False)


def _words(array: "pa.Array") -> "pa.Array":
    """Cells of any simple type as people write them."""
    import pyarrow as pa

    kind = array.type
    if pa.types.is_large_string(kind) or pa.types.is_string(kind) or pa.types.is_string_view(kind):
        return _valid(array.cast(pa.large_string()))
    if _is_binary(kind):  # one record of bytes makes a column of text one of bytes
        return _decoded(array)
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
        raise WrongType(_type_name(kind))
    return pa.array([_word(cell) for cell in array], pa.large_string())


def _valid(words: "pa.Array") -> "pa.Array":
    """Texts with a mark in place of what is not UTF-8: other programs write such files."""
    import pyarrow as pa

    try:
        words.validate(full=True)
    except pa.ArrowInvalid:
        return _decoded(words.cast(pa.large_binary()))
    return words


def _decoded(array: "pa.Array") -> "pa.Array":
    import pyarrow as pa

    words = [None if x is None else x.decode("utf-8", "replace") for x in array.to_pylist()]
    return pa.array(words, pa.large_string())


def _is_binary(kind: Any) -> bool:
    import pyarrow as pa

    tests = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
    return any(test(kind) for test in tests)


def _word(cell: "pa.Scalar") -> str | None:
    try:
        found = cell.as_py()
    except (OverflowError, ValueError):  # days beyond any calendar; the error would quote the cell
        return OTHER  # which no number, date or list is
    if isinstance(found, Decimal):
        return decimal_word(found)
    return None if found is None else str(found)


def _type_name(kind: Any) -> str:
    """The name of a type; that of pandas's periods and intervals is `extension<pandas.period<...>>`."""
    return str(kind).removeprefix("extension<").split("<")[0]


def number_word(number: float | None) -> str | None:
    """A number as people write it; None for NaN."""
    if number is None or number != number:
        return None
    # whole numbers turn into floats where a frame has gaps: written as the numbers they are
    return str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)


def decimal_word(number: Decimal) -> str:
    """A finite decimal as people write it: its zeros at the end are those of its column's type."""
    if not -_MOST_DIGITS < number.adjusted() < _MOST_DIGITS:
        return str(number)
    text = format(number, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def _by_text(array: "pa.Array", parse: "Callable[[pa.Array], Cells]") -> Cells:
    """Read each distinct text once."""
    import pyarrow as pa

    words, places = texts(array)
    # one more for cells that are not there: place -1
    found = parse(pa.concat_arrays([words, pa.array([""], words.type)]))
    return Cells(*(part[places] for part in found))


def _looked_up(words: "pa.Array", find: Callable[[str], int | None]) -> Cells:
    found = [find(word) for word in words.to_pylist()]
    unknown = np.array([place is None for place in found], bool)
    values = np.array([0 if place is None else place for place in found], np.int64)
    return _cells(values, ~unknown, words)


def _all_numbers(array: "pa.Array") -> Cells | None:
    """The same in a tenth of the time for text that is numbers and gaps only; None for other text."""
    import pyarrow as pa
    from pyarrow import compute

    arrow: Any = compute
    words = arrow.utf8_trim_whitespace(_valid(array))
    words = arrow.if_else(pa.array(say_nothing(words)), None, words)
    try:
        found = _plain_numbers(words.cast(pa.float64()))
    except pa.ArrowInvalid:
        return None
    # ways of writing NaN that only pyarrow knows are no numbers here
    as_written = np.isnan(found.values) == words.is_null().to_numpy(zero_copy_only=False)
    return found if as_written.all() else None


def _parse_numbers(words: "pa.Array") -> Cells:
    import pyarrow as pa
    from pyarrow import compute

    arrow: Any = compute
    # as in columns of truth values, which count as 1 and 0
    words = arrow.replace_substring_regex(words, "^[tT]rue$", "1")
    words = arrow.replace_substring_regex(words, "^[fF]alse$", "0")
    good = arrow.match_substring_regex(words, _NUMBER)
    values = arrow.cast(arrow.if_else(good, words, "0"), pa.float64()).to_numpy()
    return _cells(values, good.to_numpy(zero_copy_only=False), words)


def _parse_moments(words: "pa.Array") -> Cells:
    import pyarrow as pa
    from pyarrow import compute

    arrow: Any = compute
    simple = arrow.match_substring_regex(words, _MOMENT)
    likely = arrow.match_substring_regex(words, _LIKELY_MOMENT).to_numpy(zero_copy_only=False)
    try:
        found = arrow.cast(arrow.if_else(simple, words, None), pa.timestamp("us")).cast(pa.int64())
        values = found.fill_null(_FIRST - 1).to_numpy(zero_copy_only=False).copy()
    except pa.ArrowInvalid:  # some day that no calendar has
        values = np.full(len(words), _FIRST - 1)
    for place in np.flatnonzero((values < _FIRST) & likely):
        values[place] = _parse_moment(words[int(place)].as_py())
    return _cells(values, values >= _FIRST, words)


def _parse_moment(word: str) -> int:
    """Microseconds since 1970; before all dates if the word is none."""
    try:
        moment = dt.datetime.fromisoformat(word)
        if moment.tzinfo is not None:
            moment = moment.astimezone(dt.UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return _FIRST - 1
    return (moment - EPOCH) // _MICROSECOND


def _cells(values: np.ndarray, readable: np.ndarray, words: "pa.Array") -> Cells:
    """Cells whose text is not readable are missing if it says nothing."""
    silent = ~readable & say_nothing(words)
    return Cells(values, silent, ~readable & ~silent)


def _plain_numbers(array: "pa.Array") -> Cells:
    import pyarrow as pa

    values = array.cast(pa.float64(), safe=False).fill_null(np.nan).to_numpy(zero_copy_only=False)
    return Cells(values, np.isnan(values), np.zeros(len(values), bool))


def _plain_moments(array: "pa.Array") -> Cells:
    import pyarrow as pa

    missing = array.is_null().to_numpy(zero_copy_only=False)
    if pa.types.is_date32(array.type):
        scale, counts = 86_400_000_000, array.cast(pa.int32())
    elif pa.types.is_date64(array.type):
        scale, counts = 1000, array.cast(pa.int64())
    else:
        scale, counts = _UNITS.get(array.type.unit, 0), array.cast(pa.int64())
    found = counts.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    if scale == 0:  # nanoseconds
        return Cells(found // 1000, missing, np.zeros(len(found), bool))
    # beyond any calendar, and beyond 64 bits once scaled
    found = np.clip(found, _FIRST // scale, _LAST // scale) * scale
    return Cells(found, missing, np.zeros(len(found), bool))


def _listed_numbers(cells: Cells, values: np.ndarray) -> Cells:
    order = np.argsort(values)
    place = np.searchsorted(values[order], cells.values).clip(max=len(values) - 1)
    place = order[place]
    known = (values[place] == cells.values) & ~cells.unreadable
    return Cells(place, cells.missing, ~known & ~cells.missing)
