"""How often numbers take one exact value: a spike at zero is easily smeared out by a model.

The result is as private as the real rows.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from veilflow.evaluation._cells import check_frames, numbers
from veilflow.tabular.columns import Numeric
from veilflow.tabular.schema import Schema

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class ValueShare:
    """Which part of the rows has one exact value in a column. As private as the real rows."""

    real: float
    synthetic: float


def compare_value_shares(
    real: "pd.DataFrame", synthetic: "pd.DataFrame", schema: Schema, *, value: float = 0.0
) -> dict[str, ValueShare]:
    """The share of cells that are exactly `value`, of every numeric column. As private as `real`.

    Missing cells are among all cells, and are no value.

    Args:
        real: Real rows.
        synthetic: Rows a model made.
        schema: Of both.
        value: The value to look for.
    """
    check_frames(schema, real=real, synthetic=synthetic)
    shares = {}
    for name, column in schema.columns.items():
        if isinstance(column, Numeric):
            found = [np.mean(numbers(f, name, column) == value) for f in (real, synthetic)]
            shares[name] = ValueShare(real=float(found[0]), synthetic=float(found[1]))
    return shares
