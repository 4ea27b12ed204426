"""Laplace noise on sums of clamped records, exact from the first rounding on."""

import math
import sys
from typing import Any

import numpy as np

from veilflow._core import check
from veilflow.privacy.events import Laplace
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.privacy.mechanisms import _opendp
from veilflow.privacy.mechanisms._records import clamped
from veilflow.privacy.unit import Adjacency

_UNIT_BITS = 30  # 2^30 grid units in the largest record; 2^32 records still fit 64-bit integers


def bounded_sum(
    values: Sensitive[Any],
    *,
    lower: float,
    upper: float,
    epsilon: float,
    default: float | None = None,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
) -> Released[float]:
    """Release the sum of a column clamped to public bounds, with Laplace noise.

    Guarantee:
        epsilon-DP. Each record is rounded to an integer grid *before* summation, the sum and its
        discrete Laplace noise are integers, so no floating-point addition depends on a record. The
        event is a Laplace one with two grid units added to the sensitivity: discrete noise is
        slightly worse than continuous noise of its scale below epsilon, and never worse than that.

    Args:
        values: One number per record.
        lower: Public lower bound; smaller values count as this.
        upper: Public upper bound; larger values count as this.
        epsilon: Privacy parameter of this one release.
        default: What NaN, a missing value or a non-number counts as; the middle unless given.
        adjacency: Add/remove (sensitivity max(|lower|, |upper|)) or replace-one (upper - lower).

    Returns:
        The noisy sum with its event; the noise scale is sensitivity / epsilon.

    Raises:
        ValueError: If a public argument is out of range.
    """
    check.positive(epsilon=epsilon)
    numbers = clamped(values, lower=lower, upper=upper, default=default)
    unit = math.ldexp(1.0, math.frexp(max(abs(lower), abs(upper)))[1] - _UNIT_BITS)
    check.positive(grid_unit=unit, hint="The bounds are too close to zero; rescale the column.")
    low, high = round(lower / unit), round(upper / unit)
    sensitivity = high - low if adjacency is Adjacency.REPLACE_ONE else max(abs(low), abs(high))
    sensitivity = max(sensitivity, 1)
    total = int(np.sum(np.rint(numbers / unit).astype(np.int64)))
    (noisy,), scale = _opendp.add_discrete_laplace(
        [total], sensitivity=sensitivity, epsilon=epsilon
    )
    # at the far end of the float range the product overflows: saturate
    noisy_sum = max(-sys.float_info.max, min(sys.float_info.max, noisy * unit))
    return Released(noisy_sum, Laplace(scale / (sensitivity + 2)))
