"""Questions to the records: the only file of this folder that sees rows.

Each question is a pure function of the records and of earlier releases, with a sensitivity that holds
whatever those releases were. Rows are codes; a row is in exactly one cell of every table.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from veilflow.privacy.guarantees import ClippedSum
from veilflow.releases.marginals.codes import Groups, Merging, Query, num_groups

Rows = Int[np.ndarray, "rows columns"]

_ROUNDING = 1e-6
"""Relative margin for rounding: sums over tables of 10^8 rows in double precision are closer."""
_SUMS = 2.0**-46
"""Margin for rounding in misfits, relative to the expected rows: two pairwise sums over a table."""


_REMEMBERED = 4096
"""The most cells of a table whose counts are kept: the same table is a candidate in every round."""


class Tally:
    """Counts tables of rows. Caches small tables, and each column at the requested resolutions."""

    def __init__(self, rows: Rows, merging: Merging):
        self._rows, self._merging = rows, merging
        self._columns: dict[tuple[int, int], np.ndarray] = {}
        self._tables: dict[Query, np.ndarray] = {}

    @classmethod
    def of_codes(cls, codes: Rows, merged: Sequence[Groups], merging: Merging) -> "Tally":
        """From rows of original codes, which `merged` maps to the codes of `merging`."""
        columns = [groups[codes[:, i]].astype(np.uint8) for i, groups in enumerate(merged)]
        return cls(np.stack(columns, axis=1), merging)

    def counts(self, query: Query) -> Int[np.ndarray, "..."]:
        """The number of rows in each cell."""
        if query not in self._tables:
            table = self._counts(query)
            if table.size > _REMEMBERED:
                return table
            self._tables[query] = table
        return self._tables[query]

    def _counts(self, query: Query) -> Int[np.ndarray, "..."]:
        shape = tuple(num_groups(groups) for groups in self._merging.groups(query))
        cells = np.zeros(len(self._rows), np.int64)
        for column, resolution, length in zip(*query, shape, strict=True):
            cells *= length
            cells += self._column(column, resolution)
        return np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape)

    def _column(self, column: int, resolution: int) -> np.ndarray:
        at = column, resolution
        if at not in self._columns:
            groups = self._merging.groups_of(column, resolution).astype(np.uint8)
            self._columns[at] = groups[self._rows[:, column]]
        return self._columns[at]


def shares_of(cells: Sequence[int]) -> Float[np.ndarray, " tables"]:
    """Weights of tables that are released together, with a norm just below 1.

    Noise of deviation s in each of k cells has a total error of k s. The sum over all tables is minimal
    if weights grow with the cube root of k.
    """
    weights = np.cbrt(np.asarray(cells, np.float64))
    return weights * ((1 - _ROUNDING) / np.linalg.norm(weights))


def histograms(codes: Rows, sizes: Sequence[int]) -> ClippedSum:
    """The histograms of all columns, each times its share, as one vector.

    Sensitivity: a row adds its share to one cell of each, a vector with a norm of at most 1.
    """
    counted = [np.bincount(codes[:, i], minlength=size) for i, size in enumerate(sizes)]
    return _stacked(counted)


def tables(tally: Tally, queries: Sequence[Query]) -> ClippedSum:
    """Tables, each times its share, as one vector. Sensitivity: as for histograms."""
    return _stacked([tally.counts(query) for query in queries])


def _stacked(counted: Sequence[np.ndarray]) -> ClippedSum:
    shares = shares_of([table.size for table in counted])
    parts = [share * table.ravel() for share, table in zip(shares, counted, strict=True)]
    return ClippedSum(np.concatenate(parts), clip_norm=1.0)


def misfits(
    tally: Tally, queries: Sequence[Query], expected: Sequence[np.ndarray]
) -> Float[np.ndarray, " queries"]:
    """The L1 distance of each table from its expectation under a model.

    Sensitivity: a row changes one cell of a table by 1, so no misfit by more than `MISFIT`.
    """
    return np.array(
        [
            np.abs(tally.counts(query) - table).sum()
            for query, table in zip(queries, expected, strict=True)
        ]
    )


MISFIT = 1 + _ROUNDING
"""The most that adding or removing a row moves a misfit."""


def misfit_sensitivity(total: float) -> float:
    """The same if `total` rows are expected, a declaration that may be wrong by any factor.

    Expected counts may be so large that their sums are rounded by more than one row.
    """
    return max(MISFIT, 1 + _SUMS * total)
