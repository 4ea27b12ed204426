"""The sample in which structure is looked for, and what all searches share."""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from veilflow.evaluation.structure.relations import (
    Digits,
    Equal,
    MissingTogether,
    Part,
    Product,
    Scaled,
    Total,
)
from veilflow.evaluation.structure.statement import Statement, Table, is_number
from veilflow.tabular.columns import Column, Datetime
from veilflow.tabular.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

ALWAYS = 0.99
"""The share of rows from which on something "always" holds: real tables have errors, too."""
LIKELY = 0.9
"""What holds this often by chance is no finding."""
LEAST_ROWS = 30
_LEAST_SUPPORT = 0.002
SCREENED = 400
"""Rows on which pairs are tried before all are looked at."""
HOPEFUL = 0.95
"""The share of these rows from which on a pair is looked at further."""
MOST_PAIRED = 300
"""The most columns of numbers of which all pairs are tried."""

Found = tuple[Statement, ...]


@dataclass(frozen=True)
class Search:
    """The sample that is looked in."""

    table: Table
    schema: Schema
    names: tuple[str, ...]
    """The columns of numbers."""
    numbers: np.ndarray
    """Their numbers, one column each; NaN where there is none."""
    order: np.ndarray
    """The rows in random order: what holds after shuffling one column, holds by chance."""

    @classmethod
    def of(cls, frame: "pd.DataFrame", schema: Schema, seed: int) -> "Search":
        table = Table(frame)
        names = tuple(name for name, column in schema.columns.items() if is_number(column))
        columns = [table.numbers(name, schema.columns[name]) for name in names]
        order = np.random.default_rng(seed).permutation(len(frame))
        numbers = np.stack(columns, axis=1) if columns else np.zeros((len(frame), 0))
        return cls(table, schema, names, numbers, order)

    def column(self, name: str) -> Column:
        return self.schema.columns[name]

    def declared(self, *names: str) -> dict[str, Any]:
        """The columns of a statement."""
        return {"columns": names, "declared": tuple(self.column(name) for name in names)}

    def place(self, name: str) -> int:
        return self.names.index(name)

    def screened(self, place: int) -> tuple[np.ndarray, np.ndarray]:
        """Some rows in which a column has a number: its numbers, and those of all columns."""
        rows = self.order[~np.isnan(self.numbers[self.order, place])][:SCREENED]
        return self.numbers[rows, place], self.numbers[rows]

    def confirmed(self, statements: Iterable[Statement]) -> list[Statement]:
        """The statements that hold in the sample, but not if one column is shuffled."""
        return [one for one in statements if self._holds(one)]

    def _holds(self, statement: Statement) -> bool:
        spoken, holds = statement.masks(self.table)
        count = np.count_nonzero(spoken)
        if count < LEAST_ROWS or count < _LEAST_SUPPORT * len(spoken):
            return False
        if np.count_nonzero(holds & spoken) < ALWAYS * count:
            return False
        if isinstance(statement, MissingTogether | Total):
            return True  # gaps are compared where one is, and sums of many columns are no chance
        shuffled = Shuffled(self.table, statement.columns[0], self.order)
        by_chance, holding = statement.masks(shuffled)
        least = np.count_nonzero(by_chance)
        return bool(np.count_nonzero(by_chance & holding) <= LIKELY * least)


class Shuffled(Table):
    """A table in which the cells of one column belong to other rows."""

    def __init__(self, table: Table, name: str, order: np.ndarray) -> None:
        super().__init__(table.frame)
        self._table, self._name, self._order = table, name, order

    def numbers(self, name: str, column: Column) -> np.ndarray:
        numbers = self._table.numbers(name, column)
        return numbers[self._order] if name == self._name else numbers

    def values(self, name: str, column: Column) -> tuple[list, np.ndarray]:
        values, places = self._table.values(name, column)
        return values, places[self._order] if name == self._name else places


def paired(search: Search) -> Iterator[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
    """Each column of numbers, the later ones of its kind, and the rows on which they are compared."""
    names = search.names[:MOST_PAIRED]
    moments = np.array([isinstance(search.column(name), Datetime) for name in names])
    for i in range(len(names)):
        later = i + 1 + np.flatnonzero(moments[i + 1 :] == moments[i])
        x, ys = search.screened(i)
        yield i, later, x[:, None], ys[:, later]


def agreeing(agrees: np.ndarray, others: np.ndarray, made: np.ndarray | None = None) -> list[int]:
    """The columns that agree in most rows in which they have a number."""
    present = ~np.isnan(others)
    if made is not None:
        present &= ~np.isnan(made)[:, None]
    counts = present.sum(axis=0)
    enough = (counts >= LEAST_ROWS / 2) & (agrees.sum(axis=0) >= HOPEFUL * counts)
    return np.flatnonzero(enough).tolist()


def num_values(search: Search, name: str) -> int:
    """The number of distinct values of a column in the sample."""
    return len(search.table.values(name, search.column(name))[0])


def related(found: Found) -> set[frozenset[str]]:
    """Pairs of columns of which something exact is known."""
    exact = (one for one in found if isinstance(one, Equal | Digits | Part | Scaled | Product))
    return {frozenset(pair) for one in exact for pair in itertools.combinations(one.columns, 2)}


def without_detours(pairs: set[tuple]) -> set[tuple]:
    """The pairs that do not follow from two others."""
    after: dict = {}
    for first, second in pairs:
        after.setdefault(first, set()).add(second)
    return {
        (first, second)
        for first, second in pairs
        if not any(second in after.get(middle, ()) for middle in after[first] - {first, second})
    }
