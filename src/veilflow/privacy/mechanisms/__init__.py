"""Mechanisms: each takes `Sensitive` records or a `ClippedSum` and returns a `Released` value."""

from veilflow.privacy.mechanisms.choice import choose, quantile, quantiles
from veilflow.privacy.mechanisms.gaussian import gaussian, gaussian_once
from veilflow.privacy.mechanisms.integers import count_records, discrete_gaussian, histogram
from veilflow.privacy.mechanisms.selection import (
    NumberOfRuns,
    repeat_and_select,
    selection_event,
    selection_event_from_rdp,
)
from veilflow.privacy.mechanisms.sparse_vector import SparseVector
from veilflow.privacy.mechanisms.undeclared import discover_categories, private_bounds

__all__ = [
    "NumberOfRuns",
    "SparseVector",
    "choose",
    "count_records",
    "discover_categories",
    "discrete_gaussian",
    "gaussian",
    "gaussian_once",
    "histogram",
    "private_bounds",
    "quantile",
    "quantiles",
    "repeat_and_select",
    "selection_event",
    "selection_event_from_rdp",
]
