"""Stable partition selection: the categories of a column that nobody declared."""

import math
from collections import Counter
from typing import Any, cast

import numpy as np

from veilflow._core import check
from veilflow.privacy.events import ApproximateDP
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.privacy.mechanisms import _opendp
from veilflow.privacy.mechanisms._records import one_per_record
from veilflow.privacy.unit import Adjacency

Category = str | int | float | bool | bytes | None


def discover_categories(
    values: Sensitive[Any],
    *,
    epsilon: float,
    delta: float,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
) -> Released[tuple[tuple[Category, int], ...]]:
    """Release the categories that many records hold, with their noisy counts.

    Guarantee:
        (epsilon, delta)-DP: every category that occurs gets discrete Laplace noise on its count and
        is released if that reaches `threshold_for(epsilon, delta)`. One held by a single record
        passes with probability at most delta; for all others adding a record moves one count by 1.
        Under replace-one two counts move, so the noise scale doubles.

    Args:
        values: One category per record: text, numbers, booleans or bytes. Anything else, None
            and NaN included, counts as the category None, which must pass like the others.
        epsilon: Privacy parameter of the counts.
        delta: Probability that a category held by one record is released.
        adjacency: The neighboring relation the guarantee is stated for.

    Returns:
        Pairs of category and noisy count, ordered by type and value, never by the records. A column
        that mixes types has 1, 1.0 and True apart, which is why this is no dict.

    Raises:
        ValueError: If a public argument is out of range.
    """
    threshold = threshold_for(epsilon=epsilon, delta=delta, adjacency=adjacency)
    records = one_per_record(values)
    items = records.tolist() if hasattr(records, "tolist") else list(records)
    counts = Counter(_category(item) for item in items)
    noisy, _ = _opendp.add_discrete_laplace(
        list(counts.values()),
        sensitivity=2 if adjacency is Adjacency.REPLACE_ONE else 1,
        epsilon=epsilon,
    )
    kept = {key: count for key, count in zip(counts, noisy, strict=True) if count >= threshold}
    # Only the kind "" holds None, and only once, so keys of one kind compare.
    released = tuple((key[1], kept[key]) for key in sorted(kept))
    return Released(released, ApproximateDP(epsilon, delta))


def threshold_for(
    *, epsilon: float, delta: float, adjacency: Adjacency = Adjacency.ADD_REMOVE
) -> int:
    """The smallest count threshold that a category of one record passes with probability <= delta.

    Args:
        epsilon: Privacy parameter of the counts.
        delta: The probability allowed.
        adjacency: Under replace-one the noise is twice as wide.

    Returns:
        A whole number of at least 1.
    """
    check.positive(epsilon=epsilon)
    check.fraction(delta=delta)
    rate = epsilon / 2 if adjacency is Adjacency.REPLACE_ONE else epsilon
    # P(noise >= m) = exp(-rate m) / (1 + exp(-rate)) for m >= 1; the small factor covers rounding
    # here and in the noise scale.
    excess = -math.log(delta * (1 + math.exp(-rate))) / rate
    return 1 + max(1, math.ceil(excess * (1 + 1e-9)))


def _category(item: Any) -> tuple[str, Category]:
    # The kind makes mixed columns sortable. Equal values get one spelling, so that which of them
    # came first in the records (0.0 or -0.0) shows nowhere.
    if isinstance(item, np.generic):
        item = cast("np.generic[Any]", item).item()
    if isinstance(item, bool):
        return ("bool", item)
    try:
        if isinstance(item, int):
            return ("int", int(item))
        if isinstance(item, float) and not math.isnan(item):
            return ("float", float(item) + 0.0)
        if isinstance(item, str):
            return ("str", str(item))
        if isinstance(item, bytes):
            return ("bytes", bytes(item))
    except Exception:
        return ("", None)
    return ("", None)
