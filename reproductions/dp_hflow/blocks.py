"""The shape of a table: methods down, measures across, given numbers and bounds beside ours."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from reproductions.dp_hflow.measures import MEASURES, Measure

TITLES = {
    "adult": "Adult",
    "covertype": "Covertype",
    "census": "Census",
    "intrusion": "Intrusion",
}
"""Of the data sets."""


@dataclass(frozen=True)
class Column:
    """A measure on a data set.

    Attributes:
        data: The data set.
        measure: One of `MEASURES`.
        share: Of what the real rows reach, instead of the number itself.
    """

    data: str
    measure: str
    share: bool = False

    @property
    def what(self) -> Measure:
        """What is measured."""
        return MEASURES[self.measure]

    @property
    def metric(self) -> str:
        """The measure in words."""
        return self.what.name + (", share of that of real rows" if self.share else "")


Columns = tuple[Column, ...]


@dataclass(frozen=True, kw_only=True)
class Row:
    """A line of a table: a method of ours at one epsilon, or numbers that others measured.

    Attributes:
        name: As the table has it.
        epsilon: The budget; infinite where there is no privacy.
        method: Ours, as `estimators.METHODS` or `runs` know it; None for numbers that are given.
        given: What others measured, as text.
        paper: The paper's numbers beside ours.
        must: What ours must reach.
    """

    name: str
    epsilon: float = 1.0
    method: str | None = None
    given: Mapping[Column, str] = field(default_factory=dict)
    paper: Mapping[Column, float] = field(default_factory=dict)
    must: Mapping[Column, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Block:
    """One table.

    Attributes:
        table: Its number in the paper, or a short name of ours.
        title: Above it.
        columns: Across.
        rows: Down.
        words: Below the title.
    """

    table: str
    title: str
    columns: Columns
    rows: tuple[Row, ...]
    words: str = ""


def across(data: str, *measures: str, share: bool = False) -> Columns:
    """Several measures on one data set."""
    return tuple(Column(data, measure, share) for measure in measures)


def cells(columns: Columns, text: str) -> dict[Column, str]:
    """Words by column, numbers with a zero before the point; a lone dash leaves a cell empty."""
    words = text.split()
    if len(words) != len(columns):
        raise ValueError(f"there are {len(columns)} columns, got {len(words)} words: {text}")
    return {
        column: re.sub(r"(?<!\d)\.", "0.", word)
        for column, word in zip(columns, words, strict=True)
        if word != "-"
    }


def numbers(columns: Columns, text: str) -> dict[Column, float]:
    """The same as numbers, without what follows a plus-minus sign."""
    return {column: float(word.partition("±")[0]) for column, word in cells(columns, text).items()}


def given(name: str, columns: Columns, text: str, *, epsilon: float = 1.0) -> Row:
    """A line of numbers that others measured."""
    return Row(name=name, epsilon=epsilon, given=cells(columns, text))


def over(epsilons: Iterable[float], methods: Mapping[str, str]) -> tuple[Row, ...]:
    """A row for each epsilon and each method, by the names of the methods."""
    return tuple(
        Row(name=name, method=method, epsilon=epsilon)
        for epsilon in epsilons
        for name, method in methods.items()
    )


def epsilon_text(epsilon: float) -> str:
    """An epsilon as tables have it."""
    return "none" if epsilon == math.inf else f"{epsilon:g}"
