"""Histograms of single columns, all released by one Gaussian mechanism.

They give the bins of numbers, the share of every code, and the distribution within a bin.

Numbers are counted at several resolutions at once. The noise in a range adds up over all counts in it:
with fine cells alone, a tail of two thousand records over a thousand cells would drown. So runs of
sixteen cells are counted too, and runs of sixteen of those. A record is in one cell of each level, and
the levels share its weight of one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Self

import numpy as np
from jaxtyping import Float, Int

from veilflow.privacy import calibration
from veilflow.privacy.assumptions import Assumption
from veilflow.privacy.budget import Budget
from veilflow.privacy.events import Event, Gaussian, NonPrivate
from veilflow.privacy.guarantees import ClippedSum, Released, Sensitive
from veilflow.privacy.ledger import Ledger
from veilflow.privacy.mechanisms import gaussian_once
from veilflow.releases.release import Release, Tools
from veilflow.releases.table.cells import ColumnCells, cells_of
from veilflow.tabular.columns import Column
from veilflow.tabular.encoded import EncodedRows

_MU = (0.01, 2.0)
"""Where the privacy parameter is looked for, over that of the whole budget."""
_FAN = 16
"""Children of a node."""
_TOP = 24
"""Nodes from which no wider level is counted."""
_SPIKE = 5.0
"""Deviations of the noise from which a cell stands out for itself."""


@dataclass(frozen=True, kw_only=True)
class ColumnHistograms(Release):
    """How each column is distributed.

    Guarantee:
        One Gaussian mechanism for add/remove of one row: a row is in one cell of each histogram, or in
        one node of each level of a tree, whose weights have a norm of 1. So the joint L2 sensitivity is
        the square root of the number of columns.

    Attributes:
        num_columns: Of the table.
        most_numbers: Numbers in all histograms, at most: what is discovered is not known before.
        most_touched: Numbers that one row changes, at most.
        noise_multiplier: Of the joint release; 0 for none, without privacy.
    """

    purpose: str = "histograms of columns"
    num_columns: int
    most_numbers: int
    most_touched: int
    noise_multiplier: float

    @property
    def event(self) -> Event:
        return Gaussian(self.noise_multiplier) if self.noise_multiplier else NonPrivate()

    @property
    def num_draws(self) -> int:
        return self.most_numbers if self.noise_multiplier else 0

    @property
    def grids(self) -> tuple[tuple[float, int], ...]:
        # as `gaussian_once` takes four for each number that a row changes
        return ((self.noise_multiplier, 4 * self.most_touched),)

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        return ()  # counts are whole numbers, and added up exactly

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise in each number."""
        return self.noise_multiplier * self.num_columns**0.5

    def priced(self, budget: Budget, others: Ledger) -> Self:
        return replace(self, noise_multiplier=_affordable(budget, others))

    def run(
        self,
        records: Sensitive[EncodedRows],
        tools: Tools,
        *,
        columns: Sequence[Column],
        sizes: Sequence[int],
    ) -> Released[list[np.ndarray]]:
        """Count.

        Args:
            records: Encoded by the schema.
            tools: Of the run.
            columns: Of the schema, with bounds.
            sizes: Codes of each column in the schema.

        Returns:
            Noisy counts of each column: of its codes, or of the nodes of its tree and, where cells may
            be missing, of these.
        """
        if len(columns) != self.num_columns:  # the sensitivity is theirs
            raise ValueError(f"expected {self.num_columns} columns, got {len(columns)}.")
        cells = [cells_of(column) if column.has_position else None for column in columns]
        rows = records.open()
        counts = [
            np.bincount(rows.codes[:, j], minlength=sizes[j])
            if own is None
            else _tree(rows, j, own, nullable=column.nullable)
            for j, (column, own) in enumerate(zip(columns, cells, strict=True))
        ]
        released = gaussian_once(
            ClippedSum(np.concatenate(counts), self.num_columns**0.5),
            noise_multiplier=self.noise_multiplier,
            secret=tools.secret,
            purpose="columns",
            touched=sum(1 if own is None else len(level_sizes(own.num)) for own in cells),
        )
        ends = np.cumsum([len(count) for count in counts])[:-1]
        return released.map(lambda noisy: np.split(noisy, ends))


def _tree(
    rows: EncodedRows, j: int, cells: ColumnCells, *, nullable: bool
) -> Float[np.ndarray, "n"]:
    """Counts of all levels of one column and, where there may be any, of its missing cells."""
    missing = nullable & (rows.codes[:, j] == 1)
    found = weighted_counts(cells.of(rows.positions[:, j])[~missing], cells.num)
    # a missing cell weighs as much as a value
    return np.append(found, missing.sum()) if nullable else found


@lru_cache(maxsize=64)
def _affordable(budget: Budget, others: Ledger) -> float:
    whole = calibration.gaussian_mu(budget)
    return calibration.calibrate(
        Gaussian,
        budget,
        bracket=(1 / (_MU[1] * whole), 1 / (_MU[0] * whole)),
        increasing=False,
        ledger=others,
        guess=1 / whole,
        what="columns_noise",
    )


def level_sizes(cells: int) -> tuple[int, ...]:
    """Nodes of each level, the finest first."""
    sizes = [cells]
    while sizes[-1] > _TOP:
        sizes.append(-(-sizes[-1] // _FAN))
    return tuple(sizes)


def weighted_counts(at: Int[np.ndarray, " rows"], cells: int) -> Float[np.ndarray, " nodes"]:
    """Counts of all levels, one after the other. One row moves them by 1 in L2."""
    sizes = level_sizes(cells)
    weight, counts = len(sizes) ** -0.5, [np.bincount(at, minlength=cells)]
    while len(counts) < len(sizes):
        counts.append(np.add.reduceat(counts[-1], np.arange(0, len(counts[-1]), _FAN)))
    return weight * np.concatenate(counts).astype(np.float64)


def estimate(
    noisy: Float[np.ndarray, " nodes"], cells: int, *, deviation: float, total: float
) -> Float[np.ndarray, " cells"]:
    """Non-negative cells that sum to `total`, from what `weighted_counts` gave with noise.

    First the least squares over all levels; then, from the widest down, children are drawn together
    as far as their differences are no more than noise (James and Stein), spikes left out.

    Args:
        noisy: Counts of all levels with noise.
        cells: How many cells there are.
        deviation: Standard deviation of the noise in each number.
        total: Declared or released number of records in the cells.
    """
    sizes = level_sizes(cells)
    weight = len(sizes) ** -0.5
    levels = [part / weight for part in np.split(noisy, np.cumsum(sizes)[:-1])]
    variance = (deviation / weight) ** 2
    # upward: what a node and all below it say of its count
    best, spread = [levels[0]], [np.full(cells, variance)]
    for own in levels[1:]:
        starts = np.arange(0, len(best[-1]), _FAN)
        below, error = np.add.reduceat(best[-1], starts), np.add.reduceat(spread[-1], starts)
        trust = error / (error + variance) if variance else np.full(len(own), 0.5)
        best.append(trust * own + (1 - trust) * below)
        spread.append(trust * variance)
    # downward: a parent's count is shared out among its children
    parents = np.array([total])
    for level in range(len(sizes) - 1, -1, -1):
        size = sizes[level]
        fan = size if level == len(sizes) - 1 else _FAN
        parents = _shared_out(parents, best[level], spread[level], fan)
    return parents


def _shared_out(
    parents: np.ndarray, children: np.ndarray, spread: np.ndarray, fan: int
) -> np.ndarray:
    """Children that are not negative and sum to their parents."""
    pad = len(parents) * fan - len(children)
    there = np.pad(np.ones(len(children), bool), (0, pad)).reshape(-1, fan)
    found = np.pad(children, (0, pad)).reshape(-1, fan)
    error = np.pad(spread, (0, pad)).reshape(-1, fan) + 1e-12
    count = there.sum(axis=1, keepdims=True)
    found += there * (parents[:, None] - (found * there).sum(axis=1, keepdims=True)) / count
    # of the rest, the mean is what noise would leave; a spike would pull it along
    middle = np.nanmedian(np.where(there, found, np.nan), axis=1, keepdims=True)
    spike = there & (found - middle > _SPIKE * np.sqrt(error + np.maximum(middle, 0)))
    rest = there & ~spike
    num = np.maximum(rest.sum(axis=1, keepdims=True), 1)
    mean = (found * rest).sum(axis=1, keepdims=True) / num
    apart = np.where(rest, found - mean, 0.0)
    noise = (error * rest).sum(axis=1, keepdims=True) * np.maximum(num - 1, 0) / num
    keep = np.clip(1 - noise / np.maximum((apart**2).sum(axis=1, keepdims=True), 1e-12), 0, 1)
    shrunk = np.maximum(np.where(spike, found, mean + keep * apart), 0.0) * there
    sums = shrunk.sum(axis=1, keepdims=True)
    even = there / count
    share = np.where(sums > 0, shrunk / np.where(sums > 0, sums, 1.0), even)
    return (share * np.maximum(parents, 0)[:, None])[there]
