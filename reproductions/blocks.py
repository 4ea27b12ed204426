"""The shape of a table: methods down, measures across, given numbers and bounds beside ours."""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.provenance import Better

Result = dict[str, Any]
"""What a run measured, as plain JSON."""


@dataclass(frozen=True)
class Measure:
    """One number of a run.

    Attributes:
        name: As tables have it.
        better: Which way is better.
        read: From a result to the number; None where the run did not measure it.
        digits: How many are shown behind the point.
        worst: Report the worst of several runs instead of the mean: for bounds on time and memory.
        note: What is to be told beside, from a result.
    """

    name: str
    better: Better
    read: Callable[[Result], float | None]
    digits: int = 3
    worst: bool = False
    note: Callable[[Result], str] | None = None


def at(*path: str) -> Callable[[Result], float | None]:
    """Reads what stands at a path of names; None where one of them is missing."""

    def read(result: Result) -> float | None:
        found: Any = result
        for name in path:
            if found is None or name not in found:
                return None
            found = found[name]
        return found

    return read


@dataclass(frozen=True)
class Column:
    """A measure on a data set.

    Attributes:
        data: The data set.
        what: What is measured.
        share: Report the share of what the real rows reach, instead of the number itself.
    """

    data: str
    what: Measure
    share: bool = False

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
        method: Ours; None for numbers that are given.
        part: Which part of the result the row is about, where results have parts.
        given: What others measured, as text.
        paper: The paper's numbers beside ours.
        must: What ours must reach.
    """

    name: str
    epsilon: float = 1.0
    method: str | None = None
    part: str = ""
    given: Mapping[Column, str] = field(default_factory=dict)
    paper: Mapping[Column, float] = field(default_factory=dict)
    must: Mapping[Column, float] = field(default_factory=dict)

    def value(self, column: Column, result: Result) -> float | None:
        """What a result says of a cell of this row; None if it says nothing."""
        return column.what.read({**result, **result.get(self.part, {})} if self.part else result)


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


def across(data: str, *measures: Measure, share: bool = False) -> Columns:
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


def over(
    epsilons: Iterable[float], methods: Mapping[str, str], *, part: str = ""
) -> tuple[Row, ...]:
    """A row for each epsilon and each method, by the names of the methods."""
    return tuple(
        Row(name=name, method=method, epsilon=epsilon, part=part)
        for epsilon in epsilons
        for name, method in methods.items()
    )


def epsilon_text(epsilon: float) -> str:
    """An epsilon as tables have it."""
    return "none" if epsilon == math.inf else f"{epsilon:g}"
