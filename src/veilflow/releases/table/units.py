"""Round numbers: how often values of a grid are multiples of 5, 10, 50, 100 and so on.

Units form a chain in which each divides the next, so a value has one level: the largest unit that
divides it. How round values are depends on how large they are, so levels are counted for each power
of ten apart. Which values of a cell have which level is public. Where levels are more, or less,
frequent than among all values alike, the values of a cell get other weights. Zero has a cell of its
own, and no level.
"""

# NumPy leaves some results open
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Float, Int

from veilflow.releases.table.cells import cells_of
from veilflow.tabular.columns import Column, Numeric

_LEAST_VALUES = 200
"""Columns with fewer values are resolved by their histograms."""
_MOST_MAGNITUDES = 17
_CLEAR = 4.0
"""Deviations of the noise from which on a count of a level is believed."""
_LEAST, _MOST = 1e-4, 1e12
"""Least and largest weight of a value: none is impossible."""
_NEIGHBORS = 16
_ROUNDS = 20

Weights = Float[np.ndarray, "magnitudes levels"]
"""The weight of a value by its magnitude and its level; 1 where all values are alike."""


@dataclass(frozen=True)
class Units:
    """The chain of units of a column, and the levels of the values in its cells."""

    chain: tuple[int, ...]
    """In steps of the grid; the first is 1, and each divides the next."""
    first: int
    """The lowest value of the column, in steps."""
    steps: int
    """The number of values."""
    low: Int[np.ndarray, " cells"]
    high: Int[np.ndarray, " cells"]
    """The least and the largest value of each cell, in steps."""
    magnitude: Int[np.ndarray, " cells"]
    """The power of ten of each cell."""
    exact: Int[np.ndarray, "cells levels"]
    """The number of values of each level in each cell."""

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of magnitudes and of levels."""
        return int(self.magnitude.max()) + 1, len(self.chain)

    def values(self, positions: Float[np.ndarray, " rows"]) -> Int[np.ndarray, " rows"]:
        """The value of each position, in steps."""
        at = np.floor(np.asarray(positions, np.float64) * self.steps).astype(np.int64)
        return self.first + np.clip(at, 0, self.steps - 1)

    def levels(self, values: Int[np.ndarray, " rows"]) -> Int[np.ndarray, " rows"]:
        """The level of each value."""
        level = np.zeros(len(values), np.int64)
        for place, unit in enumerate(self.chain[1:], start=1):
            level[values % unit == 0] = place
        return level

    def counts(
        self, positions: Float[np.ndarray, " rows"], cells: Int[np.ndarray, " rows"]
    ) -> Int[np.ndarray, " counts"]:
        """The number of rows of each magnitude and level, without zeros. A row is in one of them."""
        values = self.values(positions)
        at = self.magnitude[cells] * len(self.chain) + self.levels(values)
        return np.bincount(at[values != 0], minlength=self.shape[0] * self.shape[1])

    def draw(
        self,
        weights: Weights,
        cells: Int[np.ndarray, " rows"],
        uniform: Float[np.ndarray, "two rows"],
    ) -> Float[np.ndarray, " rows"]:
        """The position of a value in each of `cells`: first its level is drawn, then the value."""
        mass = np.cumsum(self.mass(weights), axis=1)
        level = (uniform[0][:, None] * mass[cells, -1:] >= mass[cells]).sum(axis=1)
        level = np.minimum(level, len(self.chain) - 1)
        unit = np.array(self.chain)[level]
        # every `ratio`-th multiple of the unit has a higher level
        ratio = np.array([b // a for a, b in zip(self.chain, self.chain[1:], strict=False)] + [0])
        ratio = ratio[level]
        number = self.exact[cells, level]
        which = np.minimum(np.floor(uniform[1] * number), number - 1).astype(np.int64)
        before = -(-self.low[cells] // unit) - 1  # the last multiple below the cell
        safe = np.maximum(ratio, 2)
        # multiples are counted from zero: of the first n, n - n // ratio have just this level
        rank = before - before // safe + which + 1
        nth = np.where(ratio > 0, rank + (rank - 1) // (safe - 1), before + 1 + which)
        return (nth * unit - self.first + 0.5) / self.steps

    def mass(self, weights: Weights) -> Float[np.ndarray, "cells levels"]:
        """The weight of all values of each level in each cell together."""
        return self.exact * weights[self.magnitude]

    def log_share(
        self,
        weights: Weights,
        positions: Float[np.ndarray, " rows"],
        cells: Int[np.ndarray, " rows"],
    ) -> Float[np.ndarray, " rows"]:
        """The logarithm of the share that each value has in its cell."""
        own = weights[self.magnitude[cells], self.levels(self.values(positions))]
        return np.log(own) - np.log(self.mass(weights).sum(axis=1))[cells]

    def weights(
        self,
        noisy: Float[np.ndarray, " counts"],
        counts: Float[np.ndarray, " cells"],
        *,
        deviation: float,
    ) -> Weights:
        """Weights from noisy `counts` of levels and the estimated counts of cells.

        A level that is about as frequent as if all values were alike keeps a weight of 1. One that is
        clearly not gets its own, first over all magnitudes, then in each.

        Args:
            noisy: Released counts of magnitudes and levels.
            counts: The estimated counts of cells, of the histogram.
            deviation: The standard deviation of the noise in each count.
        """
        expected = self._expected(np.ones(self.shape), self._smooth(counts))
        seen = noisy.reshape(self.shape)
        weights = _believed(
            np.ones((1, self.shape[1])),
            seen.sum(axis=0, keepdims=True),
            expected.sum(axis=0, keepdims=True),
            deviation * self.shape[0] ** 0.5,
        )
        return _believed(np.repeat(weights, self.shape[0], axis=0), seen, expected, deviation)

    def frequencies(self, weights: Weights) -> Float[np.ndarray, " cells"]:
        """The mean weight of the values of each cell."""
        return self.mass(weights).sum(axis=1) / self.exact.sum(axis=1)

    def fitted(
        self,
        weights: Weights,
        before: Float[np.ndarray, " cells"],
        counts: Float[np.ndarray, " cells"],
    ) -> Weights:
        """Weights at which the levels are as frequent with these counts as they were with others.

        Where counts resolve a round number, its cell has more records already, most of them round.

        Args:
            weights: Weights that were estimated with the counts `before`.
            before: Counts of cells, of which the mean over neighbors was used.
            counts: The counts to which weights are fitted.
        """
        alike = self._expected(np.ones(self.shape), self._smooth(before))
        wanted = alike * weights
        wanted /= np.maximum(wanted.sum(axis=1, keepdims=True), 1e-30)
        rows = self._rows(counts)
        for _ in range(_ROUNDS):  # iterative proportional fitting
            expected = self._expected(weights, rows)
            total = expected.sum(axis=1, keepdims=True)
            change = wanted * total / np.maximum(expected, 1e-30)
            change = np.where((expected > 0) & (wanted > 0), change, 1.0)
            weights = np.clip(weights * change, _LEAST, _MOST)
        return weights

    def _smooth(self, counts: np.ndarray) -> np.ndarray:
        """Means over neighbors: cells with round numbers have larger counts than others."""
        starts = np.arange(0, len(counts), _NEIGHBORS)
        sums, sizes = (
            np.add.reduceat(self._rows(counts), starts),
            np.diff(np.append(starts, len(counts))),
        )
        return np.repeat(sums / sizes, sizes)

    def _rows(self, counts: np.ndarray) -> np.ndarray:
        """Counts without zeros, which have no level."""
        return np.where((self.low <= 0) & (self.high >= 0), 0.0, counts)

    def _expected(self, weights: Weights, rows: np.ndarray) -> Weights:
        """The counts of levels that follow from weights and the rows in each cell."""
        mass, expected = self.mass(weights), np.zeros(self.shape)
        np.add.at(expected, self.magnitude, mass * (rows / mass.sum(axis=1))[:, None])
        return expected


def _believed(weights: Weights, seen: Weights, alike: Weights, deviation: float) -> Weights:
    """New weights where counts clearly differ from those that the old ones expect."""
    total = alike.sum(axis=1, keepdims=True)
    expected = alike * weights
    expected *= total / np.maximum(expected.sum(axis=1, keepdims=True), 1e-30)
    apart = np.abs(seen - expected) > _CLEAR * np.sqrt(deviation**2 + expected)
    counts = np.where(apart & (alike > 0), np.maximum(seen, 0.0), expected)
    some = (apart & (alike > 0)).any(axis=1, keepdims=True)
    new = counts / np.maximum(alike, 1e-30)
    new *= total / np.maximum(counts.sum(axis=1, keepdims=True), 1e-30)
    # what cannot occur has the weight that it would have had
    return np.maximum(np.where(some & (alike > 0), new, weights), _LEAST)


def units_of(column: Column) -> Units | None:
    """The units of a column, if it is a number on a grid with many values."""
    if not has_units(column) or column.num_cells is None:
        return None
    assert isinstance(column, Numeric)
    return _units(column)


def has_units(column: Column) -> bool:
    """Whether levels of a column are counted; its bounds need not be known."""
    if not isinstance(column, Numeric) or column.step is None:
        return False
    if column.low is None or column.num_cells is None:
        return True
    aligned = abs(column.low / column.step - round(column.low / column.step)) < 1e-6
    return aligned and column.num_cells >= _LEAST_VALUES


@lru_cache(maxsize=256)
def _units(column: Numeric) -> Units:
    lowest, step, steps = column.low, column.step, column.num_cells
    assert lowest is not None
    assert step is not None
    assert steps is not None
    first = round(lowest / step)
    borders = np.rint(cells_of(column).edges * steps).astype(np.int64)
    low, high = first + borders[:-1], first + borders[1:] - 1
    chain = _chain(max(abs(first), abs(first + steps - 1)), _declared(column))
    multiples = np.stack([high // unit - -(-low // unit) + 1 for unit in chain], axis=1)
    exact = multiples - np.pad(multiples[:, 1:], ((0, 0), (0, 1)))
    farthest = np.maximum(np.abs(low), np.abs(high)).astype(np.float64)
    magnitude = np.floor(np.log10(np.maximum(farthest, 1)) + 1e-12).astype(np.int64)
    return Units(chain, first, steps, low, high, np.minimum(magnitude, _MOST_MAGNITUDES - 1), exact)


def _declared(column: Numeric) -> int | None:
    """The declared unit in steps of the grid."""
    if column.spikes is None or column.step is None:
        return None
    return round(column.spikes / column.step)


def _chain(largest: int, declared: int | None) -> tuple[int, ...]:
    """1, 5, 10, 50 and so on up to `largest`, as far as they go with the declared unit."""
    units, unit = [1], 1
    while unit * 5 <= largest:
        units += [unit * 5, unit * 10]
        unit *= 10
    units = [one for one in units if one <= largest]
    if declared is None:
        return tuple(units)
    fitting = [one for one in units if declared % one == 0 or one % declared == 0]
    return tuple(sorted({*fitting, declared}))


def most_shape(column: Numeric) -> tuple[int, int]:
    """The most magnitudes and levels that a column has with these bounds, or with narrower ones."""
    low, high, step = column.low, column.high, column.step
    assert low is not None
    assert high is not None
    assert step is not None
    largest = int(max(abs(low), abs(high)) / step) + 1
    return min(len(str(largest)) + 1, _MOST_MAGNITUDES), len(_chain(largest, None)) + 1
