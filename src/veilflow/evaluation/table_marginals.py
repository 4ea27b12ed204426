"""Total variation distance between a real and a synthetic table, by column and by pair of columns.

It is half the L1 distance of two histograms: 0 if they agree, 1 if they are disjoint. The result is as
private as the real rows: nothing here adds noise.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from veilflow._core import check
from veilflow.evaluation._cells import (
    Codes,
    check_frames,
    check_listed,
    code,
    listed,
    num_codes,
    numbers,
    quantile_edges,
)
from veilflow.tabular.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

_CHUNK = 1 << 18
"""The number of rows that are counted at a time."""

_DENSE = 1 << 22
"""The cells of the largest dense histogram; larger ones keep only the cells that have rows."""


@dataclass(frozen=True)
class TableMarginals:
    """Total variation distances between two tables. As private as the real rows.

    Attributes:
        one_way: The distance by column.
        two_way: The distance by pair of columns, in the order of the schema.
    """

    one_way: dict[str, float]
    two_way: dict[tuple[str, str], float]

    @property
    def mean_one_way(self) -> float:
        """The mean over all columns."""
        return float(np.mean(list(self.one_way.values())))

    @property
    def mean_two_way(self) -> float:
        """The mean over all pairs of columns; NaN if there is only one column."""
        return float(np.mean(list(self.two_way.values()))) if self.two_way else float("nan")

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, with the largest distances first."""
        two_way = sorted(self.two_way.items(), key=lambda item: -item[1])
        return {
            "mean_one_way": self.mean_one_way,
            "mean_two_way": self.mean_two_way if two_way else None,
            "one_way": dict(sorted(self.one_way.items(), key=lambda item: -item[1])),
            "two_way": [[*pair, distance] for pair, distance in two_way],
        }


@dataclass(frozen=True)
class _Coded:
    """One column of both tables, and its number of codes."""

    real: Codes
    synthetic: Codes
    size: int


def compare_table_marginals(
    real: "pd.DataFrame",
    synthetic: "pd.DataFrame",
    schema: Schema,
    *,
    bins: int = 20,
    binning: str = "equal",
) -> TableMarginals:
    """The total variation of every column and every pair of columns. As private as `real`.

    Numbers and moments are counted in bins, missing cells in a bin of their own. Equal bins of the
    declared range make tables comparable, and say little where the range is wide: most rows are then
    in one bin. Quantiles of the real rows do not depend on the range. Values of a synthetic table that
    the schema does not list count as one more value.

    Beyond the frames this takes a byte of memory per cell (two or four in columns of many values), and
    the histogram of one pair of columns.

    Args:
        real: Real rows.
        synthetic: Rows that a model sampled, in any number.
        schema: The schema of both tables.
        bins: The number of bins for numbers and moments.
        binning: "equal" bins of the declared range, or bins between "quantiles" of the real rows; a
            number that fills a bin by itself has one of its own.
    """
    check.count(bins=bins)
    check.one_of(("equal", "quantiles"), binning=binning)
    check_frames(schema, real=real, synthetic=synthetic)
    coded = {}
    for name, column in schema.columns.items():
        values = listed(name, column, real, synthetic)
        edges = None
        if binning == "quantiles" and column.has_position:
            edges = quantile_edges(numbers(real, name, column), bins=bins)
        first, second = (
            code(frame, name, column, bins=bins, values=values, edges=edges)
            for frame in (real, synthetic)
        )
        check_listed("real", name, first, values)
        num_bins = bins if edges is None else len(edges) + 1
        coded[name] = _Coded(first, second, num_codes(column, bins=num_bins, values=values))
    return TableMarginals(
        one_way={name: _distance([column]) for name, column in coded.items()},
        two_way={
            (a, b): _distance([coded[a], coded[b]]) for a, b in itertools.combinations(coded, 2)
        },
    )


def _distance(columns: Sequence[_Coded]) -> float:
    """The total variation of the joint histogram of these columns."""
    sizes = [column.size for column in columns]
    real, synthetic = [c.real for c in columns], [c.synthetic for c in columns]
    if np.prod(sizes, dtype=np.float64) <= _DENSE:
        counts = _dense_counts(real, sizes), _dense_counts(synthetic, sizes)
    else:
        counts = _sparse_counts(_joint(real, sizes), _joint(synthetic, sizes))
    shares = [count / rows[0].size for count, rows in zip(counts, (real, synthetic), strict=True)]
    return float(0.5 * np.abs(shares[0] - shares[1]).sum())


def _dense_counts(columns: Sequence[Codes], sizes: Sequence[int]) -> np.ndarray:
    cells = int(np.prod(sizes))
    total = np.zeros(cells, dtype=np.int64)
    for start in range(0, columns[0].size, _CHUNK):
        part = [column[start : start + _CHUNK] for column in columns]
        total += np.bincount(_joint(part, sizes), minlength=cells)
    return total


def _sparse_counts(real: Codes, synthetic: Codes) -> tuple[np.ndarray, np.ndarray]:
    """Counts in the cells that have a row at all."""
    cells, places = np.unique(np.concatenate([real, synthetic]), return_inverse=True)
    parts = places[: real.size], places[real.size :]
    first, second = (np.bincount(part, minlength=cells.size) for part in parts)
    return first, second


def _joint(columns: Sequence[Codes], sizes: Sequence[int]) -> Codes:
    """One code for the codes of several columns together."""
    joint = columns[0].astype(np.int64)
    for column, size in zip(columns[1:], sizes[1:], strict=True):
        joint = joint * size + column
    return joint
