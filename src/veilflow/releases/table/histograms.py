"""What single columns look like: one histogram each, all released by one Gaussian mechanism.

From them come the bins of numbers, the share of every code, and what is inside a bin.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Self

import numpy as np
from jaxtyping import Float

from veilflow.privacy import calibration
from veilflow.privacy.assumptions import Assumption
from veilflow.privacy.budget import Budget
from veilflow.privacy.events import Event, Gaussian, NonPrivate
from veilflow.privacy.guarantees import ClippedSum, Released, Sensitive
from veilflow.privacy.ledger import Ledger
from veilflow.privacy.mechanisms import gaussian_once
from veilflow.releases.release import Release, Tools
from veilflow.releases.table.cells import ColumnCells, cells_of
from veilflow.releases.table.tree import level_sizes, weighted_counts
from veilflow.tabular.columns import Column
from veilflow.tabular.encoded import EncodedRows

_MU = (0.01, 2.0)
"""Where the privacy parameter is looked for, over that of the whole budget."""


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
