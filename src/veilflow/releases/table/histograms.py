"""Histograms of single columns, all released by one Gaussian mechanism.

They give the bins of numbers, the share of every code, and the distribution within a bin.

Numbers are counted at several resolutions at once. The noise in a range adds up over all counts in it:
with fine cells alone, a tail of two thousand records over a thousand cells would drown. So runs of
sixteen cells are counted too, and runs of sixteen of those. A record is in one cell of each level, and
the levels share its weight of one.
"""

# NumPy leaves some results open
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Self

import numpy as np
from jaxtyping import Float, Int

from veilflow.privacy import calibration
from veilflow.privacy.assumptions import Assumption
from veilflow.privacy.budget import Budget
from veilflow.privacy.events import Gaussian
from veilflow.privacy.guarantees import ClippedSum, Released, Sensitive
from veilflow.privacy.ledger import Ledger
from veilflow.privacy.mechanisms import gaussian_once
from veilflow.releases.gaussian import OneGaussian
from veilflow.releases.release import Tools
from veilflow.releases.table.cells import ColumnCells, cells_of
from veilflow.tabular.columns import Column
from veilflow.tabular.encoded import EncodedRows

_MU = (0.01, 2.0)
"""Range of mu that is searched, relative to that of the whole budget."""
FAN = 16
"""Children of a node."""
_TOP = 24
"""A level of at most this many nodes is the widest."""


@dataclass(frozen=True, kw_only=True)
class ColumnHistograms(OneGaussian):
    """Histograms of all columns of a table.

    Guarantee:
        One Gaussian mechanism for add/remove of one row: a row is in one cell of each histogram, or in
        one node of each level of a tree, whose weights have a norm of 1. So the joint L2 sensitivity is
        the square root of the number of columns.

    Attributes:
        num_columns: Number of columns. Fewer of them get the same noise.
        most_numbers: The most numbers in all histograms: discovered values are not known in advance.
        most_touched: The most numbers that one row changes.
        index: The number of releases of this kind before it, whose noise is another.
    """

    purpose: str = "histograms of columns"
    num_columns: int
    most_numbers: int
    most_touched: int
    index: int = 0

    @property
    def numbers(self) -> int:
        return self.most_numbers

    @property
    def coordinates(self) -> int:
        return 4 * self.most_touched  # `gaussian_once` uses four for each number that a row changes

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        return ()  # counts are integers, whose sums are exact

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
            records: Rows encoded by the schema.
            tools: The tools of the run.
            columns: Columns of the schema, with bounds.
            sizes: Number of codes of each column.

        Returns:
            Noisy counts of each column: of its codes, or of the nodes of its tree and, if cells may be
            missing, of missing cells.
        """
        if len(columns) > self.num_columns:  # the sensitivity is theirs
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
            # of no column, a zero
            ClippedSum(np.concatenate(counts or [np.zeros(1)]), self.num_columns**0.5),
            noise_multiplier=self.noise_multiplier,
            secret=tools.secret,
            purpose="columns",
            index=self.index,
            touched=sum(1 if own is None else len(level_sizes(own.num)) for own in cells) or 1,
        )
        ends = np.cumsum([len(count) for count in counts])[:-1]
        return released.map(lambda noisy: np.split(noisy, ends))


def _tree(
    rows: EncodedRows, j: int, cells: ColumnCells, *, nullable: bool
) -> Float[np.ndarray, "n"]:
    """Counts of all levels of one column and, if it is nullable, of its missing cells."""
    missing = nullable & (rows.codes[:, j] == 1)
    counts = weighted_counts(cells.of(rows.positions[:, j])[~missing], cells.num)
    # a missing cell has the same weight as a value
    return np.append(counts, missing.sum()) if nullable else counts


@lru_cache(maxsize=64)
def _affordable(budget: Budget, others: Ledger) -> float:
    mu = calibration.gaussian_mu(budget)
    return calibration.calibrate(
        Gaussian,
        budget,
        bracket=(1 / (_MU[1] * mu), 1 / (_MU[0] * mu)),
        increasing=False,
        ledger=others,
        guess=1 / mu,
        what="columns_noise",
    )


def level_sizes(cells: int) -> tuple[int, ...]:
    """Number of nodes of each level, the finest first."""
    sizes = [cells]
    while sizes[-1] > _TOP:
        sizes.append(-(-sizes[-1] // FAN))
    return tuple(sizes)


def weighted_counts(at: Int[np.ndarray, " rows"], cells: int) -> Float[np.ndarray, " nodes"]:
    """Counts of all levels, concatenated. One row moves them by 1 in L2."""
    sizes = level_sizes(cells)
    weight, counts = len(sizes) ** -0.5, [np.bincount(at, minlength=cells)]
    while len(counts) < len(sizes):
        counts.append(np.add.reduceat(counts[-1], np.arange(0, len(counts[-1]), FAN)))
    return weight * np.concatenate(counts).astype(np.float64)
