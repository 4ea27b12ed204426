"""What histograms do not resolve: where the tails of numbers end, and how round numbers are.

Histograms say where the tails of a column start. A tail holds few records of its column, and a record
is in few tails, so counting those again costs little. The levels of round numbers are counted as
well.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from veilflow.privacy.assumptions import Assumption
from veilflow.privacy.guarantees import ClippedSum, Released, Sensitive
from veilflow.privacy.mechanisms import gaussian_once
from veilflow.releases.gaussian import OneGaussian
from veilflow.releases.release import Tools
from veilflow.releases.table.cells import cells_of
from veilflow.releases.table.tails import MOST_GROUPS
from veilflow.releases.table.units import units_of
from veilflow.tabular.columns import Column
from veilflow.tabular.encoded import EncodedRows

_TAILS = 0.8
"""Share of the squared weight of a row that its tails have; levels of round numbers have the rest."""
_MOST_TAILS = 2
"""A row that is in more tails than this counts less in each."""


@dataclass(frozen=True, kw_only=True)
class ColumnDetails(OneGaussian):
    """Counts of the groups of cells in the tails of numbers, and of the levels of round numbers.

    Guarantee:
        One Gaussian mechanism for add/remove of one row, with an L2 sensitivity of 1. A row is in at
        most one group of each column. If it is in k of them, it counts w / sqrt(m) in each, where m is
        the least power of two that is at least 2 and at least k, so its tails have a norm of at most
        w. It is in at most one level of each of the `num_units` columns, and counts v / sqrt(num_units)
        there, so its levels have a norm of at most v. And w^2 + v^2 = 1. What is a tail follows from
        histograms that were released before.

    Attributes:
        num_columns: The number of columns with positions.
        num_units: The number of those whose levels may be counted.
        most_levels: The most counts of levels, of all columns together.
    """

    purpose: str = "details of columns"
    num_columns: int
    num_units: int
    most_levels: int

    @property
    def numbers(self) -> int:
        return self.num_columns * MOST_GROUPS + self.most_levels

    @property
    def touched(self) -> int:
        """The most numbers that one row changes."""
        return self.num_columns + self.num_units

    @property
    def coordinates(self) -> int:
        return 4 * self.touched  # `gaussian_once` uses four for each number that a row changes

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        return ()  # sums of a few products of an integer and a weight, which the grid has room for

    @property
    def tail_deviation(self) -> float:
        """Standard deviation of the noise in the count of a group."""
        return self.noise_multiplier / self._tail_weight(_MOST_TAILS)

    @property
    def unit_deviation(self) -> float:
        """Standard deviation of the noise in the count of a level."""
        return self.noise_multiplier / self._unit_weight if self.num_units else 0.0

    def run(
        self,
        records: Sensitive[EncodedRows],
        tools: Tools,
        *,
        columns: Sequence[Column],
        groups: Sequence[Int[np.ndarray, "two groups"] | None],
    ) -> Released[list[np.ndarray]]:
        """Count.

        Args:
            records: Rows encoded by the schema.
            tools: The tools of the run.
            columns: Columns of the schema, with bounds.
            groups: For each column with positions, the first cells and the ends of the groups of its
                tails, which follow from releases.

        Returns:
            For each column with positions, noisy counts of its groups, and for each of these in turn,
            of its levels; in numbers of rows.
        """
        places = [j for j, column in enumerate(columns) if column.has_position]
        units = {j: units_of(columns[j]) for j in places}
        if len(places) != self.num_columns or len(groups) != len(columns):
            raise ValueError(
                f"expected {self.num_columns} columns with positions and their groups."
            )
        if (
            sum(own is not None for own in units.values()) > self.num_units
        ):  # the weights are theirs
            raise ValueError(f"expected at most {self.num_units} columns with levels.")
        rows = records.open()
        at = np.full((len(rows), len(places)), -1)
        levels: list[np.ndarray] = []
        for place, j in enumerate(places):
            present = ~(columns[j].nullable & (rows.codes[:, j] == 1))
            cells = cells_of(columns[j]).of(rows.positions[:, j])
            borders, own = groups[j], units[j]
            if borders is not None:
                at[:, place] = np.where(present, tail_group(borders, cells), -1)
            if own is not None:
                levels.append(own.counts(rows.positions[present, j], cells[present]))
        counts = [
            *self._tail_counts(at, [_num_groups(groups[j]) for j in places]),
            *(self._unit_weight * own for own in levels),
        ]
        released = gaussian_once(
            ClippedSum(np.concatenate([np.zeros(0), *counts]), 1.0),
            noise_multiplier=self.noise_multiplier,
            secret=tools.secret,
            purpose="details",
            touched=self.touched,
        )
        ends = np.cumsum([len(count) for count in counts])[:-1]
        return released.map(lambda noisy: self._in_rows(np.split(noisy, ends)))

    def _tail_counts(
        self, at: Int[np.ndarray, "rows columns"], sizes: Sequence[int]
    ) -> list[Float[np.ndarray, " groups"]]:
        """Weighted counts: a few sums of rows that have one weight, which are exact."""
        num = np.maximum((at >= 0).sum(axis=1), _MOST_TAILS)
        power = np.ceil(np.log2(num)).astype(np.int64)
        counts = [np.zeros(size) for size in sizes]
        for one in np.unique(power):
            weight, rows = self._tail_weight(2 ** int(one)), at[power == one]
            for own, total in zip(rows.T, counts, strict=True):
                total += weight * np.bincount(own[own >= 0], minlength=len(total))
        return counts

    def _in_rows(self, noisy: list[np.ndarray]) -> list[np.ndarray]:
        tails = [own / self._tail_weight(_MOST_TAILS) for own in noisy[: self.num_columns]]
        return tails + [own / self._unit_weight for own in noisy[self.num_columns :]]

    def _tail_weight(self, num: int) -> float:
        """The weight in each tail of a row that is in `num`, or fewer."""
        return ((_TAILS if self.num_units else 1.0) / num) ** 0.5

    @property
    def _unit_weight(self) -> float:
        return ((1 - _TAILS) / self.num_units) ** 0.5


def tail_group(
    borders: Int[np.ndarray, "two groups"], cells: Int[np.ndarray, " rows"]
) -> Int[np.ndarray, " rows"]:
    """The group of each cell; -1 outside."""
    starts, ends = borders
    if not len(starts):
        return np.full(len(cells), -1)
    own = np.maximum(np.searchsorted(starts, cells, side="right") - 1, 0)
    return np.where((cells >= starts[own]) & (cells < ends[own]), own, -1)


def _num_groups(borders: Int[np.ndarray, "two groups"] | None) -> int:
    return 0 if borders is None else borders.shape[1]
