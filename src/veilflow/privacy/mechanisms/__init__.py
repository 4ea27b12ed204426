"""Mechanisms: `Sensitive` (or a `ClippedSum`) in, `Released` out."""

from veilflow.privacy.mechanisms.bounds import private_bounds
from veilflow.privacy.mechanisms.counting import count_records, histogram
from veilflow.privacy.mechanisms.discrete_gaussian import discrete_gaussian
from veilflow.privacy.mechanisms.exponential import choose
from veilflow.privacy.mechanisms.gaussian import gaussian, gaussian_once
from veilflow.privacy.mechanisms.partition import discover_categories
from veilflow.privacy.mechanisms.quantile import quantile, quantiles
from veilflow.privacy.mechanisms.selection import (
    NumberOfRuns,
    repeat_and_select,
    selection_event,
    selection_event_from_rdp,
)
from veilflow.privacy.mechanisms.sparse_vector import SparseVector

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
