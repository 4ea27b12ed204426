"""What cells seem to mean that a draft has to take for something else: advice for its reader.

A draft reads cells by the same rules as a fit. Cells that people write in other ways (31.12.1990,
$1,200.00, 12:30) become text then, and text of which every cell is different is hardly learned. Advice
says so by column, and shows no cell.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from veilflow.tabular.columns import Categorical, Column, Numeric, OpenCategorical

if TYPE_CHECKING:
    import pyarrow as pa

_MONEY = "$€£¥₹"
_PLAIN = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"


class _Habit(NamedTuple):
    """A way of writing: what every cell of the column fits, what some cell fits, and what to do."""

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
        "the numbers like 1234.5 to have them learned as numbers.",
    ),
    _Habit(
        r"^(\d{4}[./-]\d{1,2}[./-]\d{1,2}|\d{1,2}[./-]\d{1,2}[./-](\d{4}|\d{2})"
        r"|\d{1,2}[ -][A-Za-z]{3,9}[ ,-]+\d{2,4}|[A-Za-z]{3,9} \d{1,2},? \d{4})([ T].*)?$",
        "",
        _TEXT,
        "looks like dates. It is drafted as text: write the dates like 1990-01-31 to have them "
        "learned as dates.",
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
        "looks like dates without dashes. It is drafted as a number, and days would come out that no "
        'calendar has: write kind = "datetime", with start, end and resolution = "day".',
    ),
)


@dataclass
class Looks:
    """What the texts of a column look like so far."""

    fits: dict[_Habit, bool] = field(default_factory=lambda: dict.fromkeys(_HABITS, False))
    """The habits that all texts fit, and whether some text also fits the second pattern."""
    num_words: int = 0
    num_plain: int = 0

    def add(self, words: "pa.Array") -> None:
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
        """What to say about a column that was drafted so; None if nothing."""
        if not self.num_words:
            return "has no value. It is drafted as open text: declare what it may hold, or drop it."
        for habit, seen in self.fits.items():
            if seen and isinstance(column, habit.kinds):
                return habit.advice
        if isinstance(column, _TEXT) and self.num_words / 2 < self.num_plain < self.num_words:
            return (
                "holds numbers and other text. It is drafted as text: if the text stands for missing "
                "cells, leave those empty to have the rest learned as numbers."
            )
        return None


def _count(words: "pa.Array", pattern: str) -> int:
    from pyarrow import compute

    arrow: Any = compute
    return arrow.sum(arrow.match_substring_regex(words, pattern)).as_py()
