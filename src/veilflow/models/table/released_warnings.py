"""Warnings about what a fit of a table has released. Released facts are public, so these are free."""

import warnings

from veilflow._core.errors import FewRecordsWarning
from veilflow.models.estimator import Fit
from veilflow.releases.table.discovery import ColumnValues

_LEVEL = 4
"""The frame of the caller of `fit`."""


def warn_of_released(fit: Fit) -> None:
    """Warn of few records and of columns in which nothing was discovered."""
    if fit.plan.num_records is None and fit.plan.budget.private:
        for concern in fit.plan.concerns(max(1, fit.num_records)):
            warnings.warn(concern, FewRecordsWarning, stacklevel=_LEVEL)
    lists = [release for release in fit.plan.releases if isinstance(release, ColumnValues)]
    empty = [release.column for release in lists if not fit.released[release.purpose]]
    if empty:
        names = ", ".join(map(repr, empty))
        warnings.warn(
            f"nothing was discovered in the columns {names}: too few records share a value. All their "
            "cells in synthetic rows are (other), or missing. Declare their values, leave the columns "
            "out, or raise epsilon.",
            UserWarning,
            stacklevel=_LEVEL,
        )
