"""Kendall's rank correlation of all pairs of number columns, in real and in synthetic rows.

The result is as private as the real rows.
"""

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from veilflow._core import check
from veilflow.evaluation._cells import check_frames, number_columns, numbers, subsample
from veilflow.tabular.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

Matrix = Float[np.ndarray, "columns columns"]


@dataclass(frozen=True)
class RankCorrelations:
    """Matrices of Kendall's tau-b, with ones on the diagonal. As private as the real rows.

    Attributes:
        columns: The columns of numbers and moments, in the order of the schema.
        real: The matrix of the real rows.
        synthetic: The matrix of the synthetic rows.
    """

    columns: tuple[str, ...]
    real: Matrix
    synthetic: Matrix

    @property
    def errors(self) -> Float[np.ndarray, " pairs"]:
        """Synthetic minus real, once for every pair of columns."""
        return (self.synthetic - self.real)[np.triu_indices(len(self.columns), 1)]

    @property
    def rmse(self) -> float:
        """The root mean squared error over pairs; NaN if there are none."""
        return float(np.sqrt(np.mean(self.errors**2))) if self.errors.size else float("nan")

    @property
    def mae(self) -> float:
        """The mean absolute error over pairs; NaN if there are none."""
        return float(np.mean(np.abs(self.errors))) if self.errors.size else float("nan")

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        defined = self.errors.size > 0
        return {
            "rmse": self.rmse if defined else None,
            "mae": self.mae if defined else None,
            "columns": list(self.columns),
            "real": self.real.tolist(),
            "synthetic": self.synthetic.tolist(),
        }


def compare_rank_correlations(
    real: "pd.DataFrame",
    synthetic: "pd.DataFrame",
    schema: Schema,
    *,
    max_rows: int = 100_000,
    seed: int = 0,
) -> RankCorrelations:
    """Kendall's tau-b of all pairs of columns of numbers and moments. As private as `real`.

    A missing number has no rank: each pair of columns is measured on the rows that have both numbers.
    If a column is constant, or there are fewer than two such rows, tau is defined as 0.

    Args:
        real: Real rows.
        synthetic: Rows that a model sampled.
        schema: The schema of both tables.
        max_rows: Larger tables are measured on this many rows, drawn at random. That changes a tau
            by about 2 / (3 sqrt(max_rows)): 0.002 for 100,000.
        seed: The seed of that draw.
    """
    check.count(max_rows=max_rows, at_least=2)
    check_frames(schema, real=real, synthetic=synthetic)
    columns = number_columns(schema)
    first, second = (
        _tau_matrix(subsample(frame, max_rows, seed=seed), columns, schema)
        for frame in (real, synthetic)
    )
    return RankCorrelations(columns, first, second)


def _tau_matrix(frame: "pd.DataFrame", columns: tuple[str, ...], schema: Schema) -> Matrix:
    cells = [numbers(frame, name, schema.columns[name]) for name in columns]
    matrix = np.eye(len(columns))
    for i, j in itertools.combinations(range(len(columns)), 2):
        matrix[i, j] = matrix[j, i] = _tau(cells[i], cells[j])
    return matrix


def _tau(x: np.ndarray, y: np.ndarray) -> float:
    from scipy.stats import kendalltau

    both = ~(np.isnan(x) | np.isnan(y))
    x, y = x[both], y[both]
    if x.size < 2 or (x == x[0]).all() or (y == y[0]).all():
        return 0.0
    result: Any = kendalltau(x, y)
    return float(result.statistic)
