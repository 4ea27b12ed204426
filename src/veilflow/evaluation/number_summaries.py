"""Means, deviations and quantiles of columns of numbers, real beside synthetic.

They show what histograms hide: tails. The result is as private as the real rows.
"""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from veilflow.evaluation._cells import Numbers, check_frames, number_columns, numbers
from veilflow.tabular.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

QUANTILES = (0.001, 0.01, 0.5, 0.99, 0.999)


@dataclass(frozen=True)
class NumberSummary:
    """A column of numbers, or of moments in seconds since 1970, without missing cells.

    Attributes:
        mean: The mean; NaN if there is no number, as the others are.
        deviation: The standard deviation.
        quantiles: The quantiles of `QUANTILES`.
    """

    mean: float
    deviation: float
    quantiles: tuple[float, ...]

    @classmethod
    def of(cls, cells: Numbers) -> "NumberSummary":
        """The summary of the numbers that are there."""
        present = cells[~np.isnan(cells)]
        if not present.size:
            return cls(np.nan, np.nan, (np.nan,) * len(QUANTILES))
        quantiles = np.quantile(present, QUANTILES)
        return cls(float(present.mean()), float(present.std()), tuple(quantiles.tolist()))

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


def compare_numbers(
    real: "pd.DataFrame", synthetic: "pd.DataFrame", schema: Schema
) -> dict[str, tuple[NumberSummary, NumberSummary]]:
    """Summaries of each column of numbers and moments, real and synthetic. As private as `real`.

    Numbers outside of their bounds count as the nearer bound, as in a fit.

    Args:
        real: Real rows.
        synthetic: Rows that a model sampled.
        schema: The schema of both tables.
    """
    check_frames(schema, real=real, synthetic=synthetic)
    found = {}
    for name in number_columns(schema):
        cells = (numbers(frame, name, schema.columns[name]) for frame in (real, synthetic))
        first, second = map(NumberSummary.of, cells)
        found[name] = (first, second)
    return found
