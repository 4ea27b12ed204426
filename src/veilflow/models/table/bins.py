"""Noisy counts of cells made into the bins of a column: its codes, and what is inside each.

A bin is a run of cells with about its share of the records; a cell with more than that is a bin by
itself. All of it reads released counts: post-processing, which costs nothing.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

_FLOOR = 1e-3
"""Mass spread evenly over all cells: a row where no noisy count was still has a density."""


@dataclass(frozen=True)
class Bins:
    """Runs of cells, and the mass of every cell."""

    starts: Int[np.ndarray, " bins+1"]
    """First cell of each bin, and the number of cells."""
    mass: Float[np.ndarray, " cells"]
    """Share of each cell in the column; sums to 1."""

    @property
    def num(self) -> int:
        """How many there are."""
        return len(self.starts) - 1

    @property
    def masses(self) -> Float[np.ndarray, " bins"]:
        """Share of each bin in the column."""
        return np.add.reduceat(self.mass, self.starts[:-1])

    def of(self, cells: Int[np.ndarray, " rows"]) -> Int[np.ndarray, " rows"]:
        """The bin of each cell."""
        return np.searchsorted(self.starts, cells, side="right") - 1

    def draw(
        self, bins: Int[np.ndarray, " rows"], uniform: Float[np.ndarray, " rows"]
    ) -> Int[np.ndarray, " rows"]:
        """A cell of each of `bins`, by the masses of the cells."""
        up_to = np.concatenate([[0.0], np.cumsum(self.mass)])
        low, high = up_to[self.starts[bins]], up_to[self.starts[bins + 1]]
        found = np.searchsorted(up_to, low + uniform * (high - low), side="right") - 1
        return np.clip(found, self.starts[bins], self.starts[bins + 1] - 1)

    def log_within(self) -> Float[np.ndarray, " cells"]:
        """Log-share of each cell in its own bin."""
        return np.log(self.mass) - np.log(self.masses)[self.of(np.arange(len(self.mass)))]


def bins_of(counts: Float[np.ndarray, " cells"], *, most: int) -> Bins:
    """About `most` bins, or fewer, from estimated counts of cells."""
    cells = len(counts)
    mass = (1 - _FLOOR) * counts / max(counts.sum(), 1e-30) + _FLOOR / cells
    heavy = mass > 1 / most
    # a tail of a few per cent still gets a fair number of bins: the root of its share of them
    rest = np.where(heavy, 0.0, mass)
    num = max(1, round(most * rest.sum() ** 0.5))
    up_to = np.cumsum(rest) / max(rest.sum(), 1e-30)
    even = np.searchsorted(up_to, np.arange(1, num) / num) + 1
    alone = np.flatnonzero(heavy)
    starts = np.unique(np.concatenate([[0, cells], even, alone, alone + 1]))
    return Bins(starts[starts <= cells].astype(np.int64), mass)
