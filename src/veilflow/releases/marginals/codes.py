"""Merging of codes, so that the cells of a table stand out of the noise.

A cell with fewer records than the noise carries no information, and a table of such cells only adds
noise to a model. Which codes are merged follows from released counts of single columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from veilflow.releases.marginals.graph import Columns

Groups = Int[np.ndarray, " codes"]
"""The group that each code belongs to, counted from 0 without gaps."""
Mass = Float[np.ndarray, " codes"]

MOST_CODES = 256
"""Codes of a column that are told apart beyond its own histogram: a byte holds them."""


class Query(NamedTuple):
    """A table of some columns, each with its codes merged into so many groups at most."""

    columns: Columns
    resolution: tuple[int, ...]


@dataclass(frozen=True)
class Merging:
    """How the codes of each column are merged, at any resolution. From releases only.

    Attributes:
        masses: Share of each code of each column, as released.
        orders: The codes of each column in the order in which neighbors may be merged.
    """

    masses: tuple[Mass, ...]
    orders: tuple[Int[np.ndarray, " codes"], ...]
    _made: dict[tuple[int, int], Groups] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, masses: Sequence[Mass], ordered: Sequence[bool]) -> "Merging":
        """Codes of an ordered column are merged with neighbors, others rare ones with rare ones."""
        orders = (
            np.arange(len(mass)) if keep else np.argsort(-mass, kind="stable")
            for mass, keep in zip(masses, ordered, strict=True)
        )
        return cls(tuple(masses), tuple(orders))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Codes of each column."""
        return tuple(len(mass) for mass in self.masses)

    def query(self, columns: Columns, *, most_cells: float) -> Query:
        """The finest table of these columns that has about `most_cells` cells at most.

        Columns with few codes keep them all; those with many share what is left.
        """
        resolution, left = [0] * len(columns), max(most_cells, 1.0)
        few_first = sorted(range(len(columns)), key=lambda i: self.sizes[columns[i]])
        for done, i in enumerate(few_first):
            allowed = int(left ** (1 / (len(columns) - done)) + 1e-9)
            resolution[i] = min(self.sizes[columns[i]], max(2, allowed))
            left = max(left / resolution[i], 1.0)
        return Query(columns, tuple(resolution))

    def groups(self, query: Query) -> tuple[Groups, ...]:
        """What the query does to the codes of each of its columns."""
        return tuple(
            self.groups_of(c, k) for c, k in zip(query.columns, query.resolution, strict=True)
        )

    def groups_of(self, column: int, num_groups: int) -> Groups:
        """The codes of one column in at most `num_groups` groups."""
        at = column, num_groups
        if at not in self._made:
            order, mass = self.orders[column], self.masses[column]
            groups = np.empty(len(order), np.int64)
            groups[order] = _in_equal_parts(mass[order], num_groups)
            self._made[at] = groups
        return self._made[at]


def num_groups(groups: Groups) -> int:
    """How many groups there are."""
    return int(groups[groups.argmax()]) + 1


def without_rare(mass: Mass, *, least: float, ordered: bool) -> Groups:
    """Groups that have a mass of `least` or more each, at most MOST_CODES of them.

    Rare codes of an ordered column join their neighbors; others become one group.
    """
    if ordered:
        groups, within = np.zeros(len(mass), np.int64), 0.0
        for code in range(len(mass)):
            closed = code > 0 and within >= least
            groups[code] = groups[code - 1] + closed if code else 0
            within = float(mass[code]) + (0.0 if closed else within)
        if within < least and groups[-1] > 0:
            groups[groups == groups[-1]] -= 1
    else:
        common = mass >= least
        groups = np.where(common, np.cumsum(common) - 1, common.sum())
    if num_groups(groups) > MOST_CODES:
        total = np.bincount(groups, weights=mass)
        order = np.arange(len(total)) if ordered else np.argsort(-total, kind="stable")
        coarser = np.empty(len(total), np.int64)
        coarser[order] = _in_equal_parts(total[order], MOST_CODES)
        groups = coarser[groups]
    return groups


def flat_index(groups: Sequence[Groups]) -> Int[np.ndarray, " cells"]:
    """The cell of the merged table that each cell of the full one goes to, both in C order."""
    index = np.zeros(1, np.int64)
    for group in groups:
        index = (index[:, None] * num_groups(group) + group).ravel()
    return index


def _in_equal_parts(mass: Mass, num_parts: int) -> Groups:
    """Consecutive codes in at most `num_parts` groups, of equal mass as far as codes allow."""
    if num_parts >= len(mass):
        return np.arange(len(mass))
    groups, group, within, left = np.zeros(len(mass), np.int64), 0, 0.0, float(mass.sum())
    for i, weight in enumerate(mass.tolist()):
        # a group is closed where the next code would take it further beyond its share than it lacks
        if i and group < num_parts - 1 and within + weight / 2 > left / (num_parts - group):
            left -= within
            group, within = group + 1, 0.0
        groups[i] = group
        within += weight
    return groups
