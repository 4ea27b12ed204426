"""A first schema, read from data, for a person to correct. Nothing in it is public yet.

A draft reads cells by the same rules as a fit. Cells that people write in other ways (31.12.1990,
$1,200.00, 12:30) become text, and text in which every cell differs is hardly learned. A warning then
advises by column, and shows no cell.
"""

import datetime as dt
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import compute

from veilflow._core import check
from veilflow.tabular import cells as reading
from veilflow.tabular.cells import Cells
from veilflow.tabular.columns import (
    MAX_CELLS,
    Boolean,
    Categorical,
    Column,
    Datetime,
    Numeric,
    OpenCategorical,
)
from veilflow.tabular.draft_hints import Hint, Observed
from veilflow.tabular.facts import EPOCH, EXACT, OTHER
from veilflow.tabular.frames import CHUNK, open_table
from veilflow.tabular.schema import Schema
from veilflow.tabular.words import WrongType

arrow: Any = compute  # pyarrow makes its functions when imported, unseen by type checkers

_RESOLUTIONS = (0.1, 0.01, 0.001)
_COARSE = tuple(10**power for power in range(9, 0, -1))
_MULTIPLES = 20
"""Numbers that must be there, and multiples in their range, for a step to be more than chance."""
_STEPS = {"day": 86_400, "hour": 3600, "minute": 60, "second": 1}
_FORMS = {
    "%d.%m.%Y": r"^\d{1,2}\.\d{1,2}\.\d{4}$",
    "%d/%m/%Y": r"^\d{1,2}/\d{1,2}/\d{4}$",
    "%m/%d/%Y": r"^\d{1,2}/\d{1,2}/\d{4}$",
    "%d-%m-%Y": r"^\d{1,2}-\d{1,2}-\d{4}$",
    "%m-%d-%Y": r"^\d{1,2}-\d{1,2}-\d{4}$",
}
"""Formats of dates that are drafted, and what they look like."""
_TRUTHS = {"true", "false"}
_MONEY = "$€£¥₹"
_PLAIN = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"


def draft_schema(
    source: Any,
    *,
    label: str | None = None,
    max_categories: int = 100,
    invalid: str = "error",
) -> Schema:
    """Guess the kind of every column from its cells, and write down what was seen.

    Every fact of the draft is unconfirmed, and its `repr` shows none of them. A person replaces
    each by what is publicly known; see `Schema.confirm` and `Schema.forget_unconfirmed`. A warning
    names columns that seem to mean something other than what they are drafted as.

    Args:
        source: A file or frame, as for `encode`. A file is read a block of rows at a time.
        label: The name of the label column, if there is one. A label with few values is drafted as a
            list of them.
        max_categories: Text with more distinct values than this is drafted as an open column.
        invalid: As for a fit: "replace" reads every line of a text file by itself, whatever it holds.

    Returns:
        The draft. It holds values of the data: keep it as private as they are.
    """
    return draft(source, label=label, max_categories=max_categories, invalid=invalid).schema


class Draft(NamedTuple):
    """A drafted schema, and what is odd about its columns. Both hold facts about the data."""

    schema: Schema
    hints: dict[str, list[Hint]]
    """By column; only of columns about which there is something to say."""


def draft(
    source: Any,
    *,
    label: str | None = None,
    max_categories: int = 100,
    invalid: str = "error",
) -> Draft:
    """Draft a schema as `draft_schema` does, with hints about columns that a person should look at."""
    check.count(max_categories=max_categories)
    check.one_of(("error", "replace"), invalid=invalid)
    names, blocks = open_table(source, chunk=CHUNK, by_line=invalid == "replace")
    if label is not None and label not in names:
        raise ValueError(f"label must name a column, got {label!r}.")
    seen = {name: _Seen(max_categories) for name in names}
    for block in blocks:
        for place, name in enumerate(names):
            try:
                seen[name].add(block(place))
            except WrongType as error:
                raise ValueError(
                    f"column {name!r} has the type {error}, which no column has. Drop it, or turn it "
                    "into numbers, text or dates."
                ) from None
    columns = {name: column.draft(is_label=name == label) for name, column in seen.items()}
    for name, column in columns.items():
        advice = seen[name].style.advice(column)
        if advice is not None:
            warnings.warn(f"column {name!r} {advice}", stacklevel=3)
    hints = {name: seen[name].hints(column) for name, column in columns.items()}
    return Draft(Schema(columns, label=label), {name: some for name, some in hints.items() if some})


@dataclass
class _Seen:
    """The cells of one column that were seen so far, summed up."""

    max_categories: int
    any_missing: bool = False
    words: set[str] | None = field(default_factory=set)
    numbers: "_Range | None" = field(default_factory=lambda: _Range(reading.numbers))
    moments: "_Range | None" = field(default_factory=lambda: _Range(reading.moments))
    commas: "_Range | None" = field(default_factory=lambda: _Range(_commas))
    """The range of numbers with decimal commas."""
    written: dict[str, "_Range"] = field(
        default_factory=lambda: {form: _Range(partial(_written_as, form)) for form in _FORMS}
    )
    """The range of dates, by each format in which all of them can be read."""
    whole: bool = True
    resolutions: tuple[float, ...] = _RESOLUTIONS
    step: int = _STEPS["day"]
    coarse: tuple[int, ...] = _COARSE
    style: "_Style" = field(default_factory=lambda: _Style())
    observed: Observed = field(default_factory=Observed)

    def add(self, array: pa.Array) -> None:
        """Look at more cells."""
        words, places = reading.texts(array)
        silent = reading.say_nothing(words)
        self.any_missing |= bool((places < 0).any() or silent.any())
        spoken = np.where(np.append(silent, True)[places], -1, places)
        words = words.filter(~silent).unique()
        if self.words is not None:
            # too many for a list are not kept: there may be millions
            few = len(words) <= self.max_categories
            self.words |= set(words.to_pylist() if few else ()) - {OTHER}
            self.words = self.words if few and len(self.words) <= self.max_categories else None
        self.style.add(words)
        if _any_code(words):
            self.numbers = self.commas = None
        self.numbers = self.numbers and self.numbers.add(array)
        if self.numbers is not None and not self.numbers.empty:
            self.moments = None  # no number is a date, and it would take long to find that out
        self.moments = self.moments and self.moments.add(array)
        self.commas = self.commas and self.commas.add(array)
        self.written = {f: x for f, one in self.written.items() if (x := one.add(array))}
        numbers, moments = self.numbers or self.commas, self.moments or self._written()
        if numbers is not None:
            self._refine_numbers(numbers.last)
        if moments is not None:
            self._refine_moments(moments.last)
        self.observed.add(words, spoken, None if numbers is None else numbers.last)

    def hints(self, column: Column) -> list[Hint]:
        """What is odd about the cells, drafted as this column."""
        return self.observed.hints(
            is_number=isinstance(column, Numeric),
            is_text=isinstance(column, OpenCategorical),
            step=column.resolution if isinstance(column, Numeric) else None,
        )

    def _refine_numbers(self, values: np.ndarray) -> None:
        self.whole &= bool(np.all(values == np.floor(values)) and np.all(np.abs(values) <= EXACT))
        self.resolutions = tuple(
            step
            for digits, step in enumerate(_RESOLUTIONS, 1)
            if step in self.resolutions and np.array_equal(np.round(values, digits), values)
        )
        if self.coarse and len(values):
            self.coarse = tuple(step for step in self.coarse if not np.any(values % step))

    def _refine_moments(self, values: np.ndarray) -> None:
        self.step = next(
            (s for s in _STEPS.values() if s <= self.step and not np.any(values % (s * 10**6))), 1
        )

    def draft(self, *, is_label: bool) -> Column:
        """The declaration that fits the cells, with no fact confirmed."""
        nullable = self.any_missing
        few = bool(self.words)
        if few and {word.lower() for word in self.words or ()} <= _TRUTHS:
            return _draft(Boolean, nullable=nullable)
        if self.numbers is not None and not self.numbers.empty:
            if few and self.whole and (is_label or self.words == {"0", "1"}):
                return self._list(sorted({int(float(word)) for word in self.words or ()}))
            return self._numeric(self.numbers)
        if self.commas is not None and not self.commas.empty:
            return self._numeric(self.commas, decimal=",")
        moments, form = self.moments, None
        if moments is None:
            moments, form = self._written(), next(iter(self.written), None)
        if moments is not None and not moments.empty:
            start, end = (EPOCH + dt.timedelta(microseconds=int(x)) for x in moments.ends)
            word = next(word for word, step in _STEPS.items() if step == self.step)
            return _draft(Datetime, start, end, resolution=word, format=form, nullable=nullable)
        if few:
            return self._list(sorted(self.words or ()))
        return _draft(OpenCategorical, nullable=nullable)

    def _list(self, values: list[Any]) -> Column:
        return _draft(Categorical, *values, nullable=self.any_missing)

    def _written(self) -> "_Range | None":
        """The dates, if there is one way to read all of them: 1.2.1990 is in February or in January."""
        return next(iter(self.written.values())) if len(self.written) == 1 else None

    def _numeric(self, numbers: "_Range", **how: Any) -> Column:
        low, high = numbers.ends
        if self.whole and high - low < MAX_CELLS:
            # of few numbers, all may be round by chance
            wide = [s for s in self.coarse if high - low >= _MULTIPLES * s]
            step = wide[0] if wide and self.observed.present >= _MULTIPLES else None
            facts = {"integer": True, "resolution": step, "nullable": self.any_missing, **how}
            return _draft(Numeric, int(low), int(high), **facts)
        step = self.resolutions[0] if self.resolutions else None
        if step is not None and (high - low) / step > MAX_CELLS / 2:
            step = None
        if low == high and step is None:
            high = low + max(1.0, abs(low))  # a range must have some width
        return _draft(Numeric, low, high, resolution=step, nullable=self.any_missing, **how)


@dataclass
class _Range:
    """The smallest and the largest value so far, as long as all cells can be read in one way."""

    read: Callable[[pa.Array], Cells]
    ends: tuple[float, float] = (0, 0)
    empty: bool = True
    last: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def add(self, array: pa.Array) -> "_Range | None":
        """The range with more cells, without infinite ones; None if a cell cannot be read."""
        try:
            values, missing, unreadable = self.read(array)
        except WrongType:
            return None
        if unreadable.any():
            return None
        self.last = values = values[~missing & np.isfinite(values)]
        if len(values):
            ends = values.min().item(), values.max().item()
            old = ends if self.empty else self.ends
            self.ends, self.empty = (min(ends[0], old[0]), max(ends[1], old[1])), False
        return self


def _commas(array: pa.Array) -> Cells:
    if not reading.is_text(array):
        raise WrongType  # numbers have no mark
    return reading.numbers(array, decimal=",")


def _written_as(form: str, array: pa.Array) -> Cells:
    """Dates of text in one format; quickly refused where some text is no date at all."""
    if not reading.is_text(array):
        raise WrongType
    words, _ = reading.texts(array)
    spoken = words.filter(~reading.say_nothing(words))
    if _count(spoken, _FORMS[form]) < len(spoken):
        raise WrongType
    return reading.moments(array, form)


class _Habit(NamedTuple):
    """A way of writing: patterns that every cell and that some cell fits, and what to do about it."""

    every: str
    some: str
    kinds: tuple[type[Column], ...]
    advice: str


_TEXT = (Categorical, OpenCategorical)
_HABITS = (
    _Habit(
        rf"^[(+-]?[{_MONEY}]?[+-]?\d[\d .,'\x{{2019}}\x{{a0}}\x{{202f}}]*"
        rf"(%|[{_MONEY}]|[A-Z]{{3}})?\)?$",
        rf"[{_MONEY},%'\x{{2019}}]",
        _TEXT,
        "looks like numbers with commas or signs of money or percent. It is drafted as text: write "
        'numbers like 1234.5, or declare kind = "numeric" and decimal = ",", to have them learned as '
        "numbers.",
    ),
    _Habit(
        r"^(\d{4}[./-]\d{1,2}[./-]\d{1,2}|\d{1,2}[./-]\d{1,2}[./-](\d{4}|\d{2})"
        r"|\d{1,2}[ -][A-Za-z]{3,9}[ ,-]+\d{2,4}|[A-Za-z]{3,9} \d{1,2},? \d{4})([ T].*)?$",
        "",
        _TEXT,
        "looks like dates. It is drafted as text: write dates like 1990-01-31, or declare kind = "
        '"datetime" and format = "%d/%m/%Y", to have them learned as dates.',
    ),
    _Habit(
        r"^[+-]?\d+:\d\d(:\d\d([.]\d+)?)?$",
        "",
        _TEXT,
        "looks like times of day or durations. It is drafted as text: write them as a number, such "
        "as minutes, to have them learned as numbers.",
    ),
    _Habit(
        r"^-?\d+$",
        r"^-?[1-9]\d{15,}$",
        _TEXT,
        "has whole numbers above 2^53, which are not kept exactly as numbers. It is drafted as text.",
    ),
    _Habit(
        r"^(1[5-9]|2[01])\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])$",
        "",
        (Numeric,),
        "looks like dates without dashes. It is drafted as a number, from which days would be sampled "
        'that no calendar has: write kind = "datetime", with start, end and resolution = "day".',
    ),
)


@dataclass
class _Style:
    """How the texts of a column are written so far."""

    fits: dict[_Habit, bool] = field(default_factory=lambda: dict.fromkeys(_HABITS, False))
    """The habits that all texts fit, and whether some text also fits the second pattern."""
    num_words: int = 0
    num_plain: int = 0

    def add(self, words: pa.Array) -> None:
        """Look at more texts, none of which stands for a missing cell."""
        if not len(words):
            return
        self.num_words += len(words)
        self.num_plain += _count(words, _PLAIN)
        for habit in tuple(self.fits):
            if _count(words, habit.every) < len(words):
                del self.fits[habit]
            else:
                self.fits[habit] |= _count(words, habit.some) > 0

    def advice(self, column: Column) -> str | None:
        """The advice on a column that was drafted in this way, if there is any."""
        if not self.num_words:
            return "has no value. It is drafted as open text: declare what it may hold, or drop it."
        for habit, fits_some in self.fits.items():
            if fits_some and isinstance(column, habit.kinds):
                return habit.advice
        if isinstance(column, _TEXT) and self.num_words / 2 < self.num_plain < self.num_words:
            return (
                "holds numbers and other text. It is drafted as text: if that text stands for missing "
                "cells, leave them empty to have the rest learned as numbers."
            )
        return None


def _count(words: pa.Array, pattern: str) -> int:
    return arrow.sum(arrow.match_substring_regex(words, pattern)).as_py() or 0


def _any_code(words: pa.Array) -> bool:
    """Whether some text of digits is no number: a code such as 02139, or beyond double precision."""
    if arrow.any(arrow.match_substring_regex(words, "^0[0-9]")).as_py():
        return True
    long = words.filter(arrow.match_substring_regex(words, "^-?[0-9]{16,}$"))
    return bool(np.any(np.abs(long.cast(pa.float64()).to_numpy()) >= EXACT))


def _draft(kind: type[Column], *facts: Any, **named: Any) -> Column:
    return kind(*facts, **named, unconfirmed=kind.facts)
