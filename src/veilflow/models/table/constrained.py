"""Rows that fulfill the constraints of a schema, with gaps as often as among all rows.

`AtMost` says nothing of rows with a gap, so whoever only drops rows that break it is left with too many
gaps. Here each pattern of gaps in the columns that constraints speak of keeps its share.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from veilflow.tabular.codec import EncodedRows
from veilflow.tabular.constraints import satisfied
from veilflow.tabular.schema import Schema

_COMMON = 0.01
"""The share from which on a pattern of gaps decides how many rows of the others are kept."""
_LARGEST = 64.0
"""The most by which patterns are thinned: where hardly a row fulfills constraints, shares may move."""


class Constrained(NamedTuple):
    """Rows that fulfill all constraints."""

    rows: EncodedRows
    log_weights: Float[np.ndarray, " rows"]
    shares: Float[np.ndarray, " rows"]
    """Of rows like this one, how many to keep for patterns of gaps to keep their shares; in (0, 1]."""


def constrained(
    rows: EncodedRows, log_weights: Float[np.ndarray, " rows"], schema: Schema
) -> Constrained:
    """Those of the rows, drawn with these weights, that fulfill the constraints."""
    kept = satisfied(rows, schema)
    named = {name for constraint in schema.constraints for name in constraint.columns}
    places = [j for j, n in enumerate(schema.names) if n in named and schema.columns[n].nullable]
    shares = np.ones(int(kept.sum()))
    if places and kept.any() and not kept.all():
        # constraints speak of no open column, so every number of codes is known
        gap = np.array([schema.columns[schema.names[j]].num_codes() - 1 for j in places])
        _, pattern = np.unique(rows.codes[:, places] == gap, axis=0, return_inverse=True)
        shares = _shares(pattern.reshape(-1), kept, np.exp(log_weights - log_weights.max()))
    return Constrained(rows.take(kept), log_weights[kept], shares)


def _shares(pattern: np.ndarray, kept: np.ndarray, weights: np.ndarray) -> np.ndarray:
    drawn = np.bincount(pattern, weights)
    left = np.bincount(pattern[kept], weights[kept], minlength=len(drawn))
    lost = np.divide(drawn, left, out=np.ones_like(drawn), where=left > 0)
    most = lost[drawn >= _COMMON * drawn.sum()].max()
    most = min(most, _LARGEST)
    return np.minimum(lost, most)[pattern[kept]] / most
