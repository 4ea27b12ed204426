"""Replay a fit on neighboring data with the same randomness: every difference must be accounted for.

If no record is drawn into any batch, every accounted release is noise alone, and the noise is the same
on both sides. Whatever still differs between the two models was read from the rows without the ledger:
a bound, a scale, a list of categories, a count.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

NOBODY = 2.0**-31
"""A sampling rate so small that no record of a test is ever drawn."""


def unpaid_differences(fit: Callable[[Any], Any], rows: Any, neighbor: Any) -> tuple[str, ...]:
    """Names of the parts of two fitted models that differ.

    Args:
        fit: Fits a model to rows, with a fixed seed, declared facts, a `sampling_rate` of `NOBODY`, and
            no release besides training.
        rows: Some rows.
        neighbor: The same rows with one more or one less.

    Returns:
        Names of the parts that differ; empty if every difference is accounted for.
    """
    one, two = (fit(data).to_artifact() for data in (rows, neighbor))
    parts = [
        name
        for name in ("manifest", "schema", "ledger", "guarantee")
        if _plain(getattr(one, name)) != _plain(getattr(two, name))
    ]
    names = sorted(set(one.arrays) | set(two.arrays))
    return (*parts, *(name for name in names if not _same(one.arrays, two.arrays, name)))


def _plain(part: Any) -> Any:
    return part.to_json() if hasattr(part, "to_json") else part


def _same(one: Any, two: Any, name: str) -> bool:
    if name not in one or name not in two:
        return False
    return np.asarray(one[name]).tobytes() == np.asarray(two[name]).tobytes()
