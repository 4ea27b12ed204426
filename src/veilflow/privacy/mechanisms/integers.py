"""Integers released with exact integer noise: counts, histograms and vectors of counts."""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from veilflow._core import check
from veilflow.privacy.events import PureDP, ZeroConcentrated
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.privacy.mechanisms import _opendp
from veilflow.privacy.mechanisms._records import one_per_record
from veilflow.privacy.unit import Adjacency


def count_records(records: Sensitive[Any], *, epsilon: float) -> Released[int]:
    """Release the number of records with discrete Laplace (geometric) noise.

    Guarantee:
        epsilon-DP for add/remove; under replace-one all neighbors have the same count. The event is
        `PureDP`, not `Laplace`: at sensitivity 1 the privacy loss of geometric noise is exactly that
        of randomized response, which is worse than that of continuous Laplace noise.

    Args:
        records: Anything with a length, one record per item.
        epsilon: Privacy parameter of this release.

    Returns:
        The noisy count. It is unbiased, so it may be negative; clamp it with `.map`.

    Raises:
        ValueError: `epsilon` is not positive.
    """
    check.positive(epsilon=epsilon)
    check.instance(Sensitive, records=records)
    (noisy,), _ = _opendp.add_discrete_laplace(
        [len(records.open())], sensitivity=1, epsilon=epsilon
    )
    return Released(noisy, PureDP(epsilon))


def histogram(
    values: Sensitive[Any],
    *,
    categories: Sequence[Hashable],
    epsilon: float,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
) -> Released[np.ndarray]:
    """Release the number of records in each declared category.

    Guarantee:
        epsilon-DP for the whole histogram: a record is in at most one cell, so adding it moves the
        counts by 1 in L1, and replacing it by 2. Empty cells get noise like all others.

    Args:
        values: One value per record. Values that are not declared are not counted.
        categories: The declared, public categories, without repetitions.
        epsilon: Privacy parameter of the whole histogram.
        adjacency: The neighboring relation the guarantee is stated for.

    Returns:
        Noisy counts (int64, unbiased, possibly negative), in the order of `categories`.

    Raises:
        ValueError: Categories repeat or are missing, or `epsilon` is not positive.
    """
    check.positive(epsilon=epsilon)
    declared = list(categories)
    if not declared or len(set(declared)) != len(declared):
        raise ValueError(f"categories must be at least one and all different, got {declared!r}.")
    counts = count_values(one_per_record(values))
    noisy, _ = _opendp.add_discrete_laplace(
        [counts.get(category, 0) for category in declared],
        sensitivity=2 if adjacency is Adjacency.REPLACE_ONE else 1,
        epsilon=epsilon,
    )
    return Released(np.array(noisy, dtype=np.int64), PureDP(epsilon))


def count_values(records: Any) -> Counter[Any]:
    """How often each value occurs; unhashable records are not counted."""
    items = records.tolist() if hasattr(records, "tolist") else list(records)
    try:
        return Counter(items)
    except Exception:
        return Counter(item for item in items if _hashable(item))


def _hashable(item: Any) -> bool:
    try:
        hash(item)
    except Exception:
        return False
    return True


def discrete_gaussian(
    query: Sensitive[Any],
    *,
    sensitivity: float,
    noise_multiplier: float,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
) -> Released[np.ndarray]:
    """Release integers (counts, a histogram, a marginal) with discrete Gaussian noise.

    Guarantee:
        rho-zCDP with rho = 1 / (2 noise_multiplier^2), exactly: integers in, integers out. Assumes
        that the declared `sensitivity` holds.

    Args:
        query: An array of integers computed from the records.
        sensitivity: The most that adding or removing one record moves the array in L2. For
            replace-one, twice this is used.
        noise_multiplier: Noise parameter over sensitivity.
        adjacency: The neighboring relation the guarantee is stated for.

    Returns:
        The noisy integers (int64), in the shape of the query.

    Raises:
        TypeError: The query does not hold integers.
        ValueError: A public argument is out of range.

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
    # the next float up, so that rounding never claims too small a cost
    rho = math.nextafter(1 / (2 * noise_multiplier**2), math.inf)
    return Released(np.array(noisy, dtype=np.int64).reshape(numbers.shape), ZeroConcentrated(rho))
