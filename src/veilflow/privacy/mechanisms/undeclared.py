"""Facts of a column that nobody declared, released privately: its bounds and its categories."""

import math
from collections import Counter
from typing import Any, cast

import numpy as np

from veilflow._core import check
from veilflow.privacy.events import ApproximateDP, PureDP
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.privacy.mechanisms import _opendp
from veilflow.privacy.mechanisms._records import clamped, one_per_record
from veilflow.privacy.unit import Adjacency

Category = str | int | float | bool | bytes | None


def private_bounds(
    values: Sensitive[Any],
    *,
    epsilon: float,
    smallest: float = 2.0**-20,
    largest: float = 2.0**60,
    failure: float = 1e-6,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
) -> Released[tuple[float, float]]:
    """Release a lower and an upper bound that hold nearly all records, within a vast public range.

    Guarantee:
        epsilon-DP: a histogram over the powers of two between `smallest` and `largest`, positive and
        negative, gets discrete Laplace noise; the rest is post-processing. The bounds are the outer
        edges of the outermost cells whose noisy counts exceed the noise, so they are rough (up to a
        factor of two) and ignore a few outliers. `quantiles` between them, at a further price, are
        sharper.

    Args:
        values: One number per record. NaN counts as zero, infinities as plus or minus `largest`.
        epsilon: Privacy parameter of both bounds together.
        smallest: Public magnitude below which numbers are as good as zero.
        largest: Public magnitude that no honest record exceeds.
        failure: Probability that an empty cell is taken for an occupied one, which makes the bounds
            too wide. A cell needs about log(cells / failure) / epsilon records to be noticed.
        adjacency: The neighboring relation the guarantee is stated for.

    Returns:
        `(lower, upper)` with lower < upper, and their event. If no cell stands out, which is likely
        with few records, they are the whole public range.

    Raises:
        ValueError: A public argument is out of range.
    """
    check.positive(epsilon=epsilon, smallest=smallest, largest=largest)
    check.fraction(failure=failure)
    if not smallest < largest:
        raise ValueError(f"smallest must be below largest, got {smallest} and {largest}.")
    exponents = range(math.floor(math.log2(smallest)), math.ceil(math.log2(largest)) + 1)
    if exponents[0] < -1000 or exponents[-1] > 1000:
        raise ValueError(f"magnitudes must be within 2^-1000 and 2^1000: {smallest}, {largest}.")
    powers = np.ldexp(1.0, np.array(exponents))
    edges = np.concatenate([-powers[::-1], powers])
    cells = edges.size - 1  # the middle one, from -smallest to smallest, holds zero
    numbers = clamped(values, lower=edges[0], upper=edges[-1], default=0.0)
    occupied = np.clip(np.searchsorted(edges, numbers, side="right") - 1, 0, cells - 1)
    noisy, scale = _opendp.add_discrete_laplace(
        np.bincount(occupied, minlength=cells).tolist(),
        sensitivity=2 if adjacency is Adjacency.REPLACE_ONE else 1,
        epsilon=epsilon,
    )
    seen = np.flatnonzero(np.array(noisy) > scale * math.log(cells / failure))
    first, last = (seen[0], seen[-1]) if seen.size else (0, cells - 1)
    return Released((float(edges[first]), float(edges[last + 1])), PureDP(epsilon))


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
        is released if the result reaches `threshold_for(epsilon, delta)`. A category that a single
        record holds passes with probability at most delta; for all others, adding a record moves one
        count by 1. Under replace-one two counts move, so the noise scale doubles.

    Args:
        values: One category per record: text, numbers, booleans or bytes. Anything else, including
            None and NaN, is the category None, which must pass like the others.
        epsilon: Privacy parameter of the counts.
        delta: Probability that a category of a single record is released.
        adjacency: The neighboring relation the guarantee is stated for.

    Returns:
        Pairs of category and noisy count, ordered by type and value, never by the records. This is
        not a dict, because a column of mixed types has 1, 1.0 and True as separate categories.

    Raises:
        ValueError: A public argument is out of range.
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
    """The smallest threshold that a category of one record reaches with probability <= delta.

    Args:
        epsilon: Privacy parameter of the counts.
        delta: The allowed probability.
        adjacency: Under replace-one the noise is twice as wide.

    Returns:
        An integer of at least 2.
    """
    check.positive(epsilon=epsilon)
    check.fraction(delta=delta)
    rate = epsilon / 2 if adjacency is Adjacency.REPLACE_ONE else epsilon
    # P(noise >= m) = exp(-rate m) / (1 + exp(-rate)) for m >= 1; the small factor covers rounding
    # here and in the noise scale.
    excess = -math.log(delta * (1 + math.exp(-rate))) / rate
    return 1 + max(1, math.ceil(excess * (1 + 1e-9)))


def _category(item: Any) -> tuple[str, Category]:
    # The kind makes mixed columns sortable. Equal values (0.0 and -0.0) get one spelling, so that the
    # result does not show which of them came first in the records.
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
