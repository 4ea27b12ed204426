"""Variable elimination: from cliques of columns to a chain of conditionals.

Columns are eliminated one after another. A column and its remaining neighbors form a bag, which stands
for the conditional of the column given its neighbors. All bags together are the model; their cells
determine its memory and time.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool

Columns = tuple[int, ...]
Together = Bool[np.ndarray, "columns columns"]
"""Which columns share a clique: a symmetric matrix with a diagonal of True."""

_LARGEST_LOG = 700.0
_MOST = 1e300
"""Larger numbers of cells are not distinguished."""


class Bag(NamedTuple):
    """A column and its parents, which are eliminated later, in the order of elimination."""

    column: int
    parents: Columns

    @property
    def axes(self) -> Columns:
        """The axes of the table of the bag: the column itself is last."""
        return (*self.parents, self.column)


def together_in(num_columns: int, cliques: Iterable[Columns]) -> Together:
    """Which columns share a clique."""
    together = np.eye(num_columns, dtype=bool)
    for clique in cliques:
        together[np.ix_(clique, clique)] = True
    return together


def joined(together: Together, clique: Columns) -> Together:
    """The same with an additional clique."""
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


class Layout:
    """Bags of a graph, and how a further clique would enlarge them in the same order of elimination.

    Eliminating again for each of thousands of cliques would take minutes. This only follows the path
    from the columns of the clique to where they meet.
    """

    def __init__(self, sizes: Sequence[int], together: Together) -> None:
        self._sizes = sizes
        bags = bags_of(sizes, together)
        self._place = {bag.column: i for i, bag in enumerate(bags)}
        self._parents = {bag.column: set(bag.parents) for bag in bags}
        self._cells = {
            bag.column: min(math.prod(float(sizes[c]) for c in bag.axes), _MOST) for bag in bags
        }
        self.num_cells = sum(self._cells.values())

    def num_cells_with(self, clique: Columns) -> float:
        """The cells of all bags with an additional clique; another order may need fewer."""
        first, *others = sorted(clique, key=self._place.__getitem__)
        total, new = self.num_cells, set(others) - self._parents[first]
        while new:
            # eliminating a column connects its bag: the next column gains the missing parents
            growth = math.prod(float(self._sizes[column]) for column in new)
            total += self._cells[first] * (growth - 1)
            bag = self._parents[first] | new
            first = min(bag, key=self._place.__getitem__)
            new = bag - {first} - self._parents[first]
        return total


def num_cells(sizes: Sequence[int], together: Together) -> float:
    """Number of cells of all bags; a float, because it may exceed any integer type."""
    return sum(cells for _, _, cells in _elimination(sizes, together))


def _elimination(sizes: Sequence[int], together: Together) -> Iterator[tuple[int, set[int], float]]:
    """Columns, their bags and the cells of these, always eliminating the smallest bag."""
    together, log_sizes = together.copy(), np.log(np.asarray(sizes, np.float64))
    log_cells = together @ log_sizes
    for _ in sizes:
        column = int(log_cells.argmin())
        bag = np.flatnonzero(together[column])
        yield column, set(bag.tolist()), float(np.exp(min(log_cells[column], _LARGEST_LOG)))
        together[bag[:, None], bag] = True
        together[:, column] = False
        # only the bags of its neighbors have changed
        log_cells[bag] = together[bag] @ log_sizes
        log_cells[column] = np.inf
