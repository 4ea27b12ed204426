"""Records as clean numbers: whatever a record holds, the result is one number within public bounds."""

import math
from typing import Any, cast

import numpy as np

from veilflow._core import check
from veilflow.privacy.guarantees import Sensitive


def clamped(
    values: Sensitive[Any], *, lower: float, upper: float, default: float | None = None
) -> np.ndarray:
    """One float64 in [lower, upper] per record; anything that is not a number becomes `default`.

    By default that is the middle of the interval. Each record is handled by itself, and none can make
    this raise, so whether it raises reveals nothing about the records.
    """
    check_bounds(lower, upper)
    if default is None:
        default = lower + (upper - lower) / 2
    elif not lower <= default <= upper:
        raise ValueError(f"default must be within [{lower}, {upper}], got {default}.")
    numbers = _as_floats(one_per_record(values))
    return np.clip(np.where(np.isnan(numbers), default, numbers), lower, upper)


def check_bounds(lower: float, upper: float) -> None:
    """Raise unless the public bounds are finite and increasing."""
    check.finite(lower=lower, upper=upper)
    if not lower < upper:
        raise ValueError(f"lower must be below upper, got {lower} and {upper}.")
    if not math.isfinite(upper - lower):
        raise ValueError(f"upper - lower must be finite, got {lower} and {upper}.")


def one_per_record(values: Sensitive[Any]) -> Any:
    """The records as a one-dimensional array or a list."""
    check.instance(Sensitive, records=values, hint="Wrap them: Sensitive(records).")
    records = values.open()
    if isinstance(records, str | bytes) or not hasattr(records, "__len__"):
        raise TypeError(f"records must be a sequence, got {type(records).__name__}.")
    shape = getattr(records, "shape", None)
    if shape is not None and len(shape) != 1:
        raise ValueError(f"records must be one column, got an array with {len(shape)} axes.")
    return records


def _as_floats(records: Any) -> np.ndarray:
    # The fast path depends only on a numeric dtype, a public fact of the column. A fast path that one
    # odd record can leave would be safe, too, but harder to reason about.
    dtype = getattr(records, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind in "fiub":
        return np.asarray(records).astype(np.float64)
    return np.array([_as_float(record) for record in records], dtype=np.float64)


def _as_float(record: Any) -> float:
    try:
        if isinstance(record, complex | np.complexfloating):  # one in a column makes all complex
            number = complex(cast(complex, record))
            return number.real if number.imag == 0 else math.nan
        return float(record)
    except Exception:
        return math.nan
