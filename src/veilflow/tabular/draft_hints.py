"""Hints about drafted columns: identifiers, constants, codes for gaps, few or odd values.

A hint is a word that may be printed, and a sentence for the draft's file. The sentence may hold a value
of the data, as the draft does: neither is public.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

_MOST_KEPT = 200_000
"""Cells of a column that are kept to look at: the first ones."""
_ENOUGH = 30
"""With fewer cells, nothing is unusual."""
_FEW = 0.01
_SENTINELS = tuple(
    sign * code for sign in (-1, 1) for code in (9, 99, 999, 9999, 99_999, 999_999, 9_999_999)
)
_FAR = 10.0
"""A value is far from the others if the gap to the next one is this many times their usual range."""


class Hint(NamedTuple):
    """What is odd about a column: a word without a value, and advice."""

    word: str
    advice: str


@dataclass
class Observed:
    """Cells of one column, to find what is odd about it."""

    rows: int = 0
    present: int = 0
    numbers: list[np.ndarray] = field(default_factory=list)
    words: set[str] = field(default_factory=set)
    seen: int = 0
    """How many cells the distinct words are of."""

    def add(self, words: pa.Array, places: np.ndarray, values: np.ndarray | None) -> None:
        """Look at more cells: their distinct texts, which one each has, and their numbers."""
        present = int(np.count_nonzero(places >= 0))
        self.rows += len(places)
        self.present += present
        if values is not None and self.seen < _MOST_KEPT:
            self.numbers.append(values[:_MOST_KEPT])
        if self.seen < _MOST_KEPT:
            self.words.update(words.to_pylist())
            self.seen += present

    def hints(self, *, is_number: bool, is_text: bool, step: float | None) -> list[Hint]:
        """What is odd about the column, as it is drafted."""
        found = []
        if self.rows >= _ENOUGH and 0 < self.present < max(_ENOUGH, _FEW * self.rows):
            found.append(
                Hint(
                    "nearly empty",
                    "few cells have a value, so the facts below are those of a few people. Declare "
                    "them from what is publicly known, or drop the column.",
                )
            )
        if self.present < _ENOUGH:
            return found
        if len(self.words) == 1:
            found.append(
                Hint(
                    "constant",
                    "all cells hold one value. Drop the column, or declare what else it may hold.",
                )
            )
        numbers = np.concatenate([np.zeros(0), *self.numbers]) if is_number else np.zeros(0)
        if self._is_identifier(numbers, is_text=is_text):
            what = "text" if is_text else "a number"
            found.append(
                Hint(
                    "identifier?",
                    f"every cell differs, as in an identifier. As {what} it is learned at the cost of "
                    "other columns: drop it from the file, or fit with --extra ignore and without it "
                    "here.",
                )
            )
        elif len(numbers) >= _ENOUGH:
            found += _of_values(numbers)
        if is_number and step is not None and step >= 10:
            found.append(
                Hint(
                    "round numbers",
                    f"all numbers are multiples of {step:,.0f}. If that is known to hold, confirm "
                    "the resolution; otherwise remove it, or such rows are rounded.",
                )
            )
        return found

    def _is_identifier(self, numbers: np.ndarray, *, is_text: bool) -> bool:
        if self.seen < 100 or len(self.words) < self.seen:
            return False
        if is_text:
            return True
        if not len(numbers) or not np.array_equal(numbers, np.floor(numbers)):
            return False
        rises = bool((np.diff(numbers) > 0).all() or (np.diff(numbers) < 0).all())
        # so many numbers in such a range would repeat by chance
        return rises or float(np.ptp(numbers)) <= len(numbers) ** 2 / 10


def _of_values(numbers: np.ndarray) -> list[Hint]:
    """Codes for gaps among numbers, and values far from all others."""
    values, counts = np.unique(numbers, return_counts=True)
    found = []
    if len(values) < 3:
        return found
    for end, rest in ((0, slice(1, None)), (-1, slice(None, -1))):
        others = np.repeat(values[rest], counts[rest])
        usual = float(np.subtract(*np.quantile(others, (0.95, 0.05))))
        away = abs(float(values[end] - values[rest][end]))
        which = "smallest" if end == 0 else "largest"
        if values[end] in _SENTINELS and counts[end] > 1 and away > usual:
            found.append(
                Hint(
                    "code for a gap?",
                    f"the {which} value, {values[end]:g}, is far from the others and looks like a code "
                    "for a missing cell. Bounds do not remove it, they move it to the nearest bound: "
                    "empty these cells in the file, and draft again.",
                )
            )
        elif away > _FAR * max(usual, 1e-12):
            found.append(
                Hint(
                    "far value",
                    f"the {which} value is far from all others: a mistake, or one person's value. "
                    "Declare the bounds from what is publicly known.",
                )
            )
    return found
