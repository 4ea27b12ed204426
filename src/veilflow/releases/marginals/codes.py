"""Merging of codes, so that the cells of a table stand out of the noise.

A cell with fewer records than the noise carries no information, and a table of such cells only adds
noise to a model. Which codes are merged follows from released counts of single columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from veilflow.releases.marginals.graph import Columns

Groups = Int[np.ndarray, " codes"]
"""The group of each code; groups are numbered from 0 without gaps."""
Mass = Float[np.ndarray, " codes"]

MOST_CODES = 256
"""The most codes of a column that tables distinguish: they fit into a byte."""


class Query(NamedTuple):
    """A table of some columns, with the codes of each merged into at most `resolution` groups."""

    columns: Columns
    resolution: tuple[int, ...]


@dataclass(frozen=True)
class Merging:
    """How the codes of each column are merged, at any resolution. It uses releases only.

    Attributes:
        masses: Released share of each code of each column.
        orders: The codes of each column, in an order in which neighbors may be merged.
    """

    masses: tuple[Mass, ...]
    orders: tuple[Int[np.ndarray, " codes"], ...]
    _cache: dict[tuple[int, int], Groups] = field(
        default_factory=dict[tuple[int, int], Groups], repr=False
    )

    @classmethod
    def of(cls, masses: Sequence[Mass], ordered: Sequence[bool]) -> "Merging":
        """Codes of an ordered column are merged with neighbors, those of others by their frequency."""
        orders = (
            np.arange(len(mass)) if keep else np.argsort(-mass, kind="stable")
            for mass, keep in zip(masses, ordered, strict=True)
        )
        return cls(tuple(masses), tuple(orders))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of codes of each column."""
        return tuple(len(mass) for mass in self.masses)

    def query(self, columns: Columns, *, most_cells: float) -> Query:
        """The finest table of these columns with at most about `most_cells` cells.

        Columns with few codes keep them all; those with many codes share the remaining resolution.
        """
        resolution, left = [0] * len(columns), max(most_cells, 1.0)
        few_first = sorted(range(len(columns)), key=lambda i: self.sizes[columns[i]])
        for done, i in enumerate(few_first):
            allowed = int(left ** (1 / (len(columns) - done)) + 1e-9)
            resolution[i] = min(self.sizes[columns[i]], max(2, allowed))
            left = max(left / resolution[i], 1.0)
        return Query(columns, tuple(resolution))

    def groups(self, query: Query) -> tuple[Groups, ...]:
        """The groups of the codes of each column of the query."""
        return tuple(
            self.groups_of(c, k) for c, k in zip(query.columns, query.resolution, strict=True)
        )

    def groups_of(self, column: int, num_groups: int) -> Groups:
        """The codes of one column, merged into at most `num_groups` groups."""
        at = column, num_groups
        if at not in self._cache:
            order, mass = self.orders[column], self.masses[column]
            groups = np.empty(len(order), np.int64)
            groups[order] = _in_equal_parts(mass[order], num_groups)
            self._cache[at] = groups
        return self._cache[at]


def num_groups(groups: Groups) -> int:
    """Number of groups."""
    return int(groups[groups.argmax()]) + 1


def without_rare(mass: Mass, *, least: float, ordered: bool) -> Groups:
    """At most MOST_CODES groups, each with a mass of at least `least`.

    Rare codes of an ordered column join their neighbors; those of others become one group.
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
    """The cell of the merged table for each cell of the full table, both in C order."""
    index = np.zeros(1, np.int64)
    for group in groups:
        index = (index[:, None] * num_groups(group) + group).ravel()
    return index


def _in_equal_parts(mass: Mass, num_parts: int) -> Groups:
    """Consecutive codes in at most `num_parts` groups of approximately equal mass."""
    if num_parts >= len(mass):
        return np.arange(len(mass))
    groups, group, within, left = np.zeros(len(mass), np.int64), 0, 0.0, float(mass.sum())
    for i, weight in enumerate(mass.tolist()):
        # a group ends where the next code would overshoot its share by more than it lacks
        if i and group < num_parts - 1 and within + weight / 2 > left / (num_parts - group):
            left -= within
            group, within = group + 1, 0.0
        groups[i] = group
        within += weight
    return groups
