"""Discrete Gaussian noise on integers."""

import math
from fractions import Fraction
from typing import Any

import numpy as np

from veilflow._core import check
from veilflow.privacy.events import ZeroConcentrated
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.privacy.mechanisms import _opendp
from veilflow.privacy.unit import Adjacency


def discrete_gaussian(
    query: Sensitive[Any],
    *,
    sensitivity: float,
    noise_multiplier: float,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
) -> Released[np.ndarray]:
    """Release integers (counts, a histogram, a marginal) with discrete Gaussian noise.

    Guarantee:
        rho-zCDP with rho = 1 / (2 noise_multiplier^2), exactly: integers in, integers out. Rests on
        the declared `sensitivity`.

    Args:
        query: An array of integers computed from the records.
        sensitivity: How far, in L2, adding or removing one record moves the array. For
            replace-one, twice this is used.
        noise_multiplier: Noise parameter over sensitivity.
        adjacency: The neighboring relation the guarantee is stated for.

    Returns:
        The noisy integers (int64), in the shape of the query.

    Raises:
        TypeError: If the query does not hold integers.
        ValueError: If a public argument is out of range.

    References:
        Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy", Theorem 4.
    """
    check.positive(sensitivity=sensitivity, noise_multiplier=noise_multiplier)
    check.instance(Sensitive, query=query)
    numbers = np.asarray(query.open())
    if numbers.dtype.kind not in "iub":
        raise TypeError(f"query must hold integers, got {numbers.dtype}. Round it to a grid first.")
    doubled = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    stddev = _opendp.scale_for(Fraction(noise_multiplier) * Fraction(sensitivity) * doubled)
    check.positive(noise_stddev=stddev)
    noisy = _opendp.add_discrete_gaussian(numbers.ravel().tolist(), stddev=stddev)
    # the next float up, so that rounding never claims too little
    rho = math.nextafter(1 / (2 * noise_multiplier**2), math.inf)
    return Released(np.array(noisy, dtype=np.int64).reshape(numbers.shape), ZeroConcentrated(rho))
