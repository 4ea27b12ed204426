"""Elimination: from sets of columns that belong together to a chain of conditionals.

Columns are eliminated one after another. A column and the columns it is then joined to are a bag: the
column's conditional given the rest of its bag. All bags together are the model; their cells are what
it costs in memory and time.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool

Columns = tuple[int, ...]
Together = Bool[np.ndarray, "columns columns"]
"""Which columns share a clique: symmetric, and each column is with itself."""

_LARGEST_LOG = 700.0


class Bag(NamedTuple):
    """A column and those it depends on, which are eliminated later, in the order of elimination."""

    column: int
    parents: Columns

    @property
    def axes(self) -> Columns:
        """The order of axes of the bag's table: the column itself is last."""
        return (*self.parents, self.column)


def together_in(num_columns: int, cliques: Iterable[Columns]) -> Together:
    """Which columns share a clique."""
    together = np.eye(num_columns, dtype=bool)
    for clique in cliques:
        together[np.ix_(clique, clique)] = True
    return together


def joined(together: Together, clique: Columns) -> Together:
    """The same with one clique more."""
    more = together.copy()
    more[np.ix_(clique, clique)] = True
    return more


def bags_of(sizes: Sequence[int], together: Together) -> tuple[Bag, ...]:
    """Bags in the order of elimination."""
    eliminated = [(column, members) for column, members, _ in _elimination(sizes, together)]
    place = {column: i for i, (column, _) in enumerate(eliminated)}
    return tuple(
        Bag(column, tuple(sorted(members - {column}, key=place.__getitem__)))
        for column, members in eliminated
    )


def num_cells(sizes: Sequence[int], together: Together) -> float:
    """Cells of all bags; a float, since it may be beyond any integer type."""
    return sum(cells for _, _, cells in _elimination(sizes, together))


def _elimination(sizes: Sequence[int], together: Together) -> Iterator[tuple[int, set[int], float]]:
    """Columns, their bags and how many cells these have: always the smallest bag first."""
    together, log_sizes = together.copy(), np.log(np.asarray(sizes, np.float64))
    left = np.ones(len(sizes), dtype=bool)
    for _ in sizes:
        log_cells = np.where(left, together @ log_sizes, np.inf)
        column = int(log_cells.argmin())
        bag = np.flatnonzero(together[column])
        yield column, set(bag.tolist()), float(np.exp(min(log_cells[column], _LARGEST_LOG)))
        together[np.ix_(bag, bag)] = True
        together[:, column] = False
        left[column] = False
